"""Texts of prompt segments, each once under its SHA-256.

Source: spec/seeing.md 1.6, design decision 13.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from stores.traces.rows import text_digest
from turngraph.decisions import Segment

# A blob without a row may belong to a turn that is just ending, so young ones are never swept.
GRACE = timedelta(days=1)
TELLING_CHARS = 16  # a shorter line ("- done") stands in many texts that have nothing to do with it


def transcript_holds(segment: Segment) -> bool:
    """Return whether the text can be read from the transcript again, by entry id and block."""
    return segment.origin.kind == "entry" and segment.origin.entry_id is not None and not segment.derived


class Blobs:
    """The folder ``blobs/`` of a trace store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, segments: Iterable[Segment]) -> None:
        """Store the texts that are not there yet.

        There is no fsync: a blob of the wrong size is written again by the next turn that has the text, and a
        reader checks the digest.
        """
        texts = {text_digest(s): s.text for s in segments if s.text}
        for digest, text in texts.items():
            self._put(digest, text.encode("utf-8", "surrogatepass"))

    def _put(self, digest: str, data: bytes) -> None:
        path = self.folder / digest
        try:
            facts = path.stat()
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True)
        else:
            if facts.st_size == len(data):
                if datetime.now(UTC) - datetime.fromtimestamp(facts.st_mtime, UTC) > GRACE / 2:
                    os.utime(path)
                return
        temporary = self.folder / f"{digest}.{uuid4().hex}.tmp"
        temporary.write_bytes(data)
        temporary.replace(path)

    def get(self, digest: str) -> str | None:
        """Return the text with this digest; ``None`` when it is absent or damaged."""
        try:
            data = (self.folder / digest).read_bytes()
        except OSError:
            return None
        return data.decode("utf-8", "surrogatepass") if sha256(data).hexdigest() == digest else None

    def quoting(self, texts: Iterable[str]) -> Iterator[Path]:
        """Yield the blobs that hold a line of ``texts``; lines below :data:`TELLING_CHARS` say too little to count.

        Reads every blob: forgetting is rare and must not miss a copy.
        """
        lines = {line.strip() for text in texts for line in text.splitlines()}
        telling = [line for line in lines if len(line) >= TELLING_CHARS]
        for path in sorted(self.folder.iterdir()) if telling and self.folder.is_dir() else ():
            text = path.read_bytes().decode("utf-8", "replace")
            if any(line in text for line in telling):
                yield path

    def unnamed(self, named: frozenset[str], now: datetime) -> Iterator[Path]:
        """Yield the blobs, and leftovers of killed writers, that no row names and that are not young."""
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            age = now - datetime.fromtimestamp(path.stat().st_mtime, UTC)
            if path.name not in named and age > GRACE:
                yield path
