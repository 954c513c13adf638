"""Cut a note into chunks that a search can return: verbatim lines, a bounded size, some overlap.

Sizes are weighted characters (turngraph/text.py), so that a chunk holds about as many tokens in every script.
Source: spec/memory.md 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from turngraph.text import floor_cut, weighted_chars, weighted_head, weighted_tail

CHARS_PER_TOKEN = 4
MIN_CHUNK_CHARS = 32
CURATED_FILES = frozenset({"MEMORY.md", "USER.md", "memory.md"})

_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_ANNOTATION = re.compile(r"<!--\s*(?:trigger|importance|project)\s*:[^\n]*?-->")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a file: verbatim text with its first and last line, from 1.

    ``entry_lines`` is the range of the whole entry (``- ...``) it belongs to, in curated files.
    """

    start_line: int
    end_line: int
    text: str
    entry_lines: tuple[int, int] | None = None

    @property
    def hash(self) -> str:
        return text_hash(self.text)


@dataclass(frozen=True, slots=True)
class CuratedPart:
    """An entry or a section of a curated file, with its lines."""

    start_line: int
    end_line: int
    text: str
    is_entry: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, or a part of one that is too long, with its weight and a line end; ``continues`` marks later parts."""

    line: int
    text: str
    cost: int
    continues: bool = False


def text_hash(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hex."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def strip_annotations(text: str) -> str:
    """Remove ``<!-- trigger|importance|project: … -->`` inside lines; line numbers stay."""
    if "<!--" not in text:
        return text
    return "\n".join(
        _ANNOTATION.sub("", line).rstrip(" \t") if _ANNOTATION.search(line) else line for line in text.split("\n")
    )


def chunk_markdown(text: str, tokens: int, overlap: int, *, per_entry: bool = False) -> list[Chunk]:
    """Cut ``text`` into chunks of at most ``tokens`` times 4 weighted characters, overlap included.

    Args:
        text: the file's text; lines are counted by LF.
        tokens, overlap: size and overlap in tokens of four weighted characters.
        per_entry: keep every entry and section of a curated file in chunks of its own, without overlap between.

    Source: spec/memory.md 2.2. Parts of one long line are joined without a line break: a chunk is verbatim text.
    """
    limit = max(MIN_CHUNK_CHARS, tokens * CHARS_PER_TOKEN)
    window = max(0, overlap * CHARS_PER_TOKEN)
    if not per_entry:
        return _pack(enumerate(text.split("\n"), 1), limit, window)
    chunks = []
    for part in split_curated(text):
        entry = (part.start_line, part.end_line) if part.is_entry else None
        lines = enumerate(part.text.split("\n"), part.start_line)
        chunks += [Chunk(c.start_line, c.end_line, c.text, entry) for c in _pack(lines, limit, window)]
    return chunks


def split_curated(text: str) -> list[CuratedPart]:
    """Split a curated file at its entries (``- ``) and headings."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if i == 0 or line.startswith("- ") or _HEADING.match(line)]
    ends = [*starts[1:], len(lines)]
    return [
        CuratedPart(start + 1, end, "\n".join(lines[start:end]), lines[start].startswith("- "))
        for start, end in zip(starts, ends, strict=True)
    ]


def _pack(lines: Iterable[tuple[int, str]], limit: int, window: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    current: list[_Piece] = []
    size = 0
    for number, line in lines:
        for piece in _pieces(number, line, limit):
            if current and size + piece.cost > limit:
                chunks.append(_chunk(current))
                current = _overlap(current, min(window, max(0, limit - piece.cost)))
                size = sum(kept.cost for kept in current)
            current.append(piece)
            size += piece.cost
    return [*chunks, _chunk(current)] if current else chunks


def _pieces(number: int, line: str, limit: int) -> Iterator[_Piece]:
    weight = weighted_chars(line)
    if weight <= limit:
        yield _Piece(number, line, weight + 1)
        return
    rest, continues = line, False
    while rest:
        # A first cut by plain length keeps the work on a line of a megabyte linear.
        part = weighted_head(rest[: floor_cut(rest, limit)], limit) or rest[:1]
        yield _Piece(number, part, weighted_chars(part) + 1, continues)
        rest, continues = rest[len(part) :], True


def _overlap(pieces: list[_Piece], window: int) -> list[_Piece]:
    """Return the last pieces that fit ``window``, or the tail of the last one."""
    kept: list[_Piece] = []
    left = window
    for piece in reversed(pieces):
        if piece.cost > left:
            tail = weighted_tail(piece.text, left - 1) if not kept and left > 1 else ""
            return [_Piece(piece.line, tail, weighted_chars(tail) + 1, True)] if tail else kept
        kept.insert(0, piece)
        left -= piece.cost
    return kept


def _chunk(pieces: list[_Piece]) -> Chunk:
    text = pieces[0].text + "".join(piece.text if piece.continues else f"\n{piece.text}" for piece in pieces[1:])
    return Chunk(pieces[0].line, pieces[-1].line, text)


def remap_lines(chunks: Iterable[Chunk], line_map: list[int]) -> list[Chunk]:
    """Replace line numbers of a derived text by those of its source; numbers without a mapping stay."""

    def source(line: int) -> int:
        return line_map[line - 1] if 1 <= line <= len(line_map) else line

    return [Chunk(source(c.start_line), source(c.end_line), c.text, c.entry_lines) for c in chunks]


def split_to_bytes(text: str, limit: int) -> list[str]:
    """Split a text so that each part has at most ``limit`` UTF-8 bytes, and at least one character; 0 means no limit.

    Source: spec/memory.md 2.3.
    """
    parts: list[str] = []
    rest = text
    while 0 < limit < len(rest.encode()):
        cut = len(rest.encode()[:limit].decode("utf-8", "ignore"))
        cut = floor_cut(rest, cut) or max(1, cut)
        parts.append(rest[:cut])
        rest = rest[cut:]
    return [*parts, rest] if rest or not parts else parts
