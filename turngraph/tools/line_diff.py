"""A line diff of places that are known to have changed (spec/tools.md section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngraph.tools.line_limits import first_lines, utf8_bytes

CONTEXT_LINES = 4
MAX_DIFF_BYTES = 4096
_NOTICE_BYTES = 40


@dataclass(frozen=True, slots=True)
class Hunk:
    """Diff lines of one place, and which lines of the new text (from 1) it changed."""

    lines: list[str]
    first_changed: int
    last_changed: int


def diff_hunk(old: Sequence[str], new: Sequence[str], old_range: tuple[int, int], new_range: tuple[int, int]) -> Hunk:
    """Write one changed place as ``-`` and ``+`` lines with four lines around.

    Args:
        old, new: all lines of the text before and after.
        old_range, new_range: lines that were replaced and that replace them, from 0, end not included; lines that
            are equal at their ends count as unchanged.
    """
    top, bottom = old_range
    new_top, new_bottom = new_range
    while top < bottom and new_top < new_bottom and old[top] == new[new_top]:
        top, new_top = top + 1, new_top + 1
    while bottom > top and new_bottom > new_top and old[bottom - 1] == new[new_bottom - 1]:
        bottom, new_bottom = bottom - 1, new_bottom - 1
    lines = [f"  {n + 1} {old[n]}" for n in range(max(0, top - CONTEXT_LINES), top)]
    lines += [f"- {n + 1} {old[n]}" for n in range(top, bottom)]
    lines += [f"+ {n + 1} {new[n]}" for n in range(new_top, new_bottom)]
    after = min(len(new), new_bottom + CONTEXT_LINES)
    # A final line end makes no line of its own.
    after -= after == len(new) and after > new_bottom and new[-1] == ""
    lines += [f"  {n + 1} {new[n]}" for n in range(new_bottom, after)]
    first = min(new_top + 1, len(new))
    return Hunk([line.rstrip("\r") for line in lines], first, max(first, new_bottom))


def fit_diff(lines: Sequence[str]) -> str:
    """Join diff lines within 4,096 bytes of UTF-8; a last line says how many were left out."""
    whole = "\n".join(lines)
    if utf8_bytes(whole) > MAX_DIFF_BYTES:
        cut = first_lines(list(lines), len(lines), MAX_DIFF_BYTES - _NOTICE_BYTES)
        whole = "\n".join([*([cut.text] if cut.lines else []), f"[{len(lines) - cut.lines} more diff lines]"])
    return whole.encode("utf-8", "replace").decode("utf-8")
