"""Texts of a traced turn: segments as they were sent, what their entries held before a node cut them, the answer.

Source: spec/seeing.md 1.6. Reading never writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from nodes.segments import block_as_sent
from stores.home import Home
from stores.sessions import SessionStore
from stores.traces import TraceReader
from stores.transcript_entries import Entry
from stores.transcripts import Transcript
from turngraph.clock import DerivedIds, SystemClock
from turngraph.config import AgentSettings
from turngraph.decisions import Segment
from turngraph.errors import TurngraphError
from turngraph.messages import Message

OpenTranscript = Callable[[str], Transcript | None]


class Texts:
    """Finds the texts of one session's traces.

    Args:
        reader: of the traces.
        open_transcript: gives the transcript of a session id, ``None`` where there is none any more.
        session_id: of the session.
    """

    def __init__(self, reader: TraceReader, open_transcript: OpenTranscript, session_id: str) -> None:
        self._reader = reader
        self._open = open_transcript
        self._session_id = session_id

    def of(self, segment: Segment) -> str | None:
        """Return the text as it was sent; ``None`` when it can no longer be found."""
        return self._reader.segment_text(segment, self.of_entry)

    def of_entry(self, entry_id: str, block: int | None) -> str | None:
        """Return the text of a block as its transcript entry holds it."""
        message = self._message(entry_id)
        if message is None or block is None or block >= len(message.blocks):
            return None
        return block_as_sent(message.blocks[block])

    def original_chars(self, segment: Segment) -> int | None:
        """Return how many characters the entry of a segment holds; ``None`` where that is not known."""
        if segment.origin.entry_id is None or segment.block is None:
            return None
        text = self.of_entry(segment.origin.entry_id, segment.block)
        return None if text is None else len(text)

    def answer(self, user_entry_id: str) -> str:
        """Return what the model said after a user's message, until the next one; empty when it is not known."""
        transcript = self._transcript
        if transcript is None:
            return ""
        said: list[str] = []
        entries = iter(transcript.branch())
        for entry in entries:
            if entry.id == user_entry_id:
                break
        for entry in entries:
            message = _spoken(transcript, entry)
            if message is not None and message.role == "user":
                break
            if message is not None and message.role == "assistant" and message.text:
                said.append(message.text)
        return "\n\n".join(said)

    def _message(self, entry_id: str) -> Message | None:
        transcript, entry = self._transcript, self._entries.get(entry_id)
        return None if transcript is None or entry is None else _spoken(transcript, entry)

    @cached_property
    def _entries(self) -> Mapping[str, Entry]:
        transcript = self._transcript
        return {} if transcript is None else {entry.id: entry for entry in transcript.entries()}

    @cached_property
    def _transcript(self) -> Transcript | None:
        return self._open(self._session_id)


def _spoken(transcript: Transcript, entry: Entry) -> Message | None:
    return transcript.message(entry) if entry.type == "message" else None


def transcripts_of_home(home: Home, settings: AgentSettings) -> OpenTranscript:
    """Return how transcripts of an agent are opened by session id, read-only and whole."""
    store = SessionStore.of_agent(home, settings, SystemClock(), DerivedIds("read only"))

    def open_transcript(session_id: str) -> Transcript | None:
        paths = [
            store.transcript_of(entry) for entry in store.entries().values() if entry.get("sessionId") == session_id
        ]
        folder = home.sessions_dir(settings.agent_id)
        paths += sorted(folder.glob(f"{session_id}*.jsonl*")) if folder.is_dir() else []
        return next((opened for path in paths if (opened := open_whole(path, session_id)) is not None), None)

    return open_transcript


def open_whole(path: Path, session_id: str) -> Transcript | None:
    """Open a transcript for reading; ``None`` when it is gone or cannot be read."""
    try:
        return Transcript.open(
            path, session_id=session_id, clock=SystemClock(), ids=DerivedIds(session_id), full=True, read_only=True
        )
    except (OSError, TurngraphError):
        return None
