"""Transcripts kept from one turn to the next, so that a long session is not read and weighed again for every message.

A kept transcript holds its messages, and they hold what was found out about them (tokens, hashes, what a repair makes
of them). It is taken up again only when its file is what was left behind, or that with whole lines appended by
others; else the file is read anew.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from stores.transcripts import Transcript
from turngraph.clock import Clock, Ids

MOST_KEPT = 8
MOST_BYTES = 32_000_000  # of transcript lines; as objects they take about four times that


class KeptTranscripts:
    """The transcripts of the sessions that a process ran last. One turn at a time has a transcript of its own."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: dict[Path, Transcript] = {}  # least recently used first
        self._lock = Lock()  # turns of other sessions may run on other threads

    def open(
        self,
        path: Path,
        *,
        session_id: str,
        clock: Clock,
        ids: Ids,
        cwd: str | None = None,
        session_key: str | None = None,
    ) -> Transcript:
        """Take up a kept transcript, or open the file; see :meth:`stores.transcripts.Transcript.open`.

        Raises:
            TranscriptError: the file cannot be read.
        """
        with self._lock:
            kept = self._kept.pop(path, None)
        if kept is not None and kept.session_id == session_id and kept.resume(clock, ids):
            return kept
        return Transcript.open(path, session_id=session_id, clock=clock, ids=ids, cwd=cwd, session_key=session_key)

    def keep(self, transcript: Transcript) -> None:
        """Keep a transcript that its turn is done with; the ones used least recently make room."""
        if not transcript.is_resumable or transcript.bytes_held > self._most_bytes:
            transcript.close()
            return
        with self._lock:
            self._kept.pop(transcript.path, None)
            self._kept[transcript.path] = transcript
            while len(self._kept) > self._most or self._bytes() > self._most_bytes:
                self._kept.pop(next(iter(self._kept))).close()

    def _bytes(self) -> int:
        return sum(transcript.bytes_held for transcript in self._kept.values())
