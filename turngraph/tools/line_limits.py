"""Cut text to a number of lines and bytes, from the beginning or the end, with the facts about the cut.

Source: spec/tools.md sections 1.8, 2 and 5.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from turngraph.text import ceil_cut

MAX_LINES = 2000
MAX_BYTES = 51_200  # of UTF-8
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_INVALID = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Cut:
    """Text within its limits.

    Attributes:
        text: what is kept; whole lines unless ``last_line_partial``.
        lines: number of kept lines.
        cut_by: the limit that cut, ``None`` when everything is kept.
        last_line_partial: whether a single line was too long and is kept in part.
    """

    text: str
    lines: int
    cut_by: str | None = None
    last_line_partial: bool = False


def decode_marked(data: bytes) -> str:
    """Decode UTF-8; every byte that is none stays as a lone surrogate until :func:`mask_invalid`."""
    return data.decode("utf-8", "surrogateescape")


def mask_invalid(text: str) -> tuple[str, int]:
    """Return ``text`` with U+FFFD for every byte that was no UTF-8, and the number of them."""
    return _INVALID.subn("\ufffd", text)


def split_lines(text: str) -> list[str]:
    """Split at LF; a final LF makes no further line, a CR stays."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def first_lines(lines: list[str], max_lines: int, max_bytes: int) -> Cut:
    """Keep whole lines from the beginning.

    >>> first_lines(["a", "b", "c"], 2, 100)
    Cut(text='a\\nb', lines=2, cut_by='lines', last_line_partial=False)
    """
    size = 0
    for index, line in enumerate(lines):
        if index == max_lines:
            return Cut("\n".join(lines[:index]), index, "lines")
        size += utf8_bytes(line) + (index > 0)
        if size > max_bytes:
            return Cut("\n".join(lines[:index]), index, "bytes")
    return Cut("\n".join(lines), len(lines))


def last_lines(lines: list[str], max_lines: int, max_bytes: int) -> Cut:
    """Keep whole lines from the end; of a last line that is too long, its end."""
    size = 0
    for count, line in enumerate(reversed(lines)):
        if count == max_lines:
            return Cut("\n".join(lines[len(lines) - count :]), count, "lines")
        size += utf8_bytes(line) + (count > 0)
        if size > max_bytes:
            if count == 0:
                return Cut(tail_bytes(line, max_bytes), 1, "bytes", last_line_partial=True)
            return Cut("\n".join(lines[len(lines) - count :]), count, "bytes")
    return Cut("\n".join(lines), len(lines))


def truncation_facts(
    cut: Cut, total_lines: int, total_bytes: int, *, max_lines: int = MAX_LINES, first_line_too_long: bool = False
) -> dict[str, Any]:
    """Return the ``truncation`` of a result's details, in Pi's fields."""
    return {
        "truncated": True,
        "truncatedBy": cut.cut_by,
        "totalLines": total_lines,
        "totalBytes": total_bytes,
        "outputLines": cut.lines,
        "outputBytes": utf8_bytes(cut.text),
        "firstLineExceedsLimit": first_line_too_long,
        "lastLinePartial": cut.last_line_partial,
        "maxLines": max_lines,
        "maxBytes": MAX_BYTES,
    }


def utf8_bytes(text: str) -> int:
    """Count the bytes of ``text`` in UTF-8; a marked invalid byte counts three, as U+FFFD will."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def tail_bytes(text: str, max_bytes: int) -> str:
    """Return the longest end of ``text`` within ``max_bytes`` that splits no character."""
    if utf8_bytes(text) <= max_bytes:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    kept = encoded[len(encoded) - max(0, max_bytes) :].lstrip(_CONTINUATION_BYTES).decode("utf-8", "surrogatepass")
    return text[ceil_cut(text, len(text) - len(kept)) :]
