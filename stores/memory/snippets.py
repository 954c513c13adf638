"""Show the part of a chunk that was found, and say where it stands.

Source: spec/memory.md 4.8, known-faults 7.12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stores.memory.scripts import fold_han, fold_word
from stores.memory.tokenizer import normalize
from turngraph.text import ceil_cut, floor_cut, head

SNIPPET_CHARS = 700  # spec/memory.md 4.8
_LONGEST_WORD = 40
_LEAD_CHARS = 120  # how much of what stands before the hit is shown


def snippet(text: str, surfaces: Sequence[str], limit: int = SNIPPET_CHARS) -> str:
    """Return at most ``limit`` characters of a chunk around the densest hit; its beginning when no word is in it.

    Args:
        text: the chunk.
        surfaces: words of the query, folded, as :class:`stores.memory.keyword.Query` has them.
        limit: in characters; no grapheme cluster is split.
    """
    if len(text) <= limit:
        return text
    hits = _positions(text, surfaces)
    if not hits:
        return head(text, limit)
    window = limit - _LEAD_CHARS
    # The window that covers most different words wins; among equals the first one.
    best = max(hits, key=lambda hit: (len({word for at, word in hits if hit[0] <= at <= hit[0] + window}), -hit[0]))
    start = max(0, min(best[0] - _LEAD_CHARS, len(text) - limit))
    line_start = text.rfind("\n", start, best[0]) + 1
    start = line_start if line_start > start else _word_start(text, start, best[0])
    return text[start : floor_cut(text, start + limit)]


def _word_start(text: str, start: int, hit: int) -> int:
    """Return where the word behind ``start`` begins, in scripts that part words by blanks."""
    blank = text.find(" ", start, hit)
    inside = start > 0 and text[start - 1].isalnum() and text[start].isalnum()
    return blank + 1 if inside and 0 <= blank < start + _LONGEST_WORD else ceil_cut(text, start)


def _positions(text: str, surfaces: Sequence[str]) -> list[tuple[int, str]]:
    folded, origins = _folded(text)
    found: list[tuple[int, str]] = []
    for surface in surfaces:
        wanted, _ = _folded(surface)
        at = folded.find(wanted) if wanted else -1
        while at >= 0 and len(found) < 500:
            found.append((origins[at], surface))
            at = folded.find(wanted, at + len(wanted))
    return sorted(found)


def _folded(text: str) -> tuple[str, Sequence[int]]:
    """Return a text as words are matched (forms, case, accents, traditional characters), and whence each character."""
    if text.isascii():
        return text.lower(), range(len(text))
    parts = list(map(_folded_char, text))
    folded = "".join(parts)
    if len(folded) == len(text) and all(parts):  # one character for each, as nearly always
        return folded, range(len(text))
    return folded, [at for at, part in enumerate(parts) for _ in part]


@lru_cache(maxsize=20_000)
def _folded_char(char: str) -> str:
    return fold_han(fold_word(normalize(char)))


def citation(path: str, start_line: int, end_line: int) -> str:
    """Return ``path#L3`` or ``path#L3-L9``."""
    return f"{path}#L{start_line}" if start_line == end_line else f"{path}#L{start_line}-L{end_line}"


def with_citation(text: str, cited: str) -> str:
    """Append the source to a snippet; indentation at its start stays."""
    return f"{text.rstrip()}\n\nSource: {cited}"


def citations_wanted(mode: str, chat_type: str) -> bool:
    """Whether results carry citations: always, never, or only in direct chats (``auto``)."""
    if mode in ("on", "off"):
        return mode == "on"
    return chat_type not in ("group", "channel")
