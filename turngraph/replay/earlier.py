"""Search as of a moment: a session's own earlier entries and the notes of the working copy, never what came later.

As the index of a home has them: what was said by user and assistant, without tool results.
Source: spec/seeing.md 4.4 and 6.3, design decision 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from stores.memory.chunking import chunk_markdown
from stores.memory.ram_index import RamIndex
from turngraph.messages import Message

NOTE_TOKENS, NOTE_OVERLAP = 400, 80  # defaults of memorySearch.chunking


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that a search found, with where it stands: a note and its lines, or an entry of the session."""

    path: str
    start_line: int
    end_line: int
    text: str
    score: float = 0.0


@dataclass(slots=True)
class EarlierSearch:
    """Grows with the session; :meth:`take` brings the notes up to date."""

    _index: RamIndex = field(default_factory=RamIndex)
    _passages: dict[str, Passage] = field(default_factory=dict)
    _notes: Mapping[str, str] = field(default_factory=dict)
    _count: int = 0

    def add(self, message: Message) -> None:
        """Add what was said."""
        if message.role in ("user", "assistant") and message.text:
            self._count += 1
            lines = message.text.count("\n") + 1
            self._put(f"entry {self._count}", Passage(f"session/{self._count}", 1, lines, message.text))

    def take(self, notes: Mapping[str, str]) -> None:
        """Take the notes as they are now, path to text."""
        if notes == self._notes:
            return
        for key in [key for key in self._passages if key.startswith("note ")]:
            self._index.remove(key)
            del self._passages[key]
        for path, text in notes.items():
            for number, chunk in enumerate(chunk_markdown(text, NOTE_TOKENS, NOTE_OVERLAP)):
                self._put(f"note {path} {number}", Passage(path, chunk.start_line, chunk.end_line, chunk.text))
        self._notes = dict(notes)

    def find(self, query: str, max_results: int) -> list[Passage]:
        """Return the best matches, best first."""
        hits = self._index.search(query, max_results)
        return [replace(self._passages[hit.key], score=hit.score) for hit in hits]

    def _put(self, key: str, passage: Passage) -> None:
        self._index.add(key, passage.text)
        self._passages[key] = passage
