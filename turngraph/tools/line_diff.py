"""A line diff of places that are known to have changed (spec/tools.md section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngraph.tools.line_limits import first_lines, utf8_bytes

CONTEXT_LINES = 4
MAX_DIFF_BYTES = 4096
_NOTICE_BYTES = 40


@dataclass(frozen=True, slots=True)
class Change:
    """Lines that were replaced and lines that replace them, as (first, end) from 0, end not included."""

    old: tuple[int, int]
    new: tuple[int, int]


@dataclass(frozen=True, slots=True)
class LineDiff:
    """Diff lines of a text, and the first and last line of the new text (from 1) that changed."""

    lines: list[str]
    first_changed: int
    last_changed: int


def line_diff(old: Sequence[str], new: Sequence[str], changes: Sequence[Change]) -> LineDiff:
    """Write changes as ``-`` and ``+`` lines with four lines around; lines between two near ones stand once.

    Args:
        old, new: all lines of the text before and after.
        changes: in the order of the text, no two on one line, at least one of them a real change; lines that are
            equal at the ends of a change count as unchanged.
    """
    narrowed = (_narrowed(old, new, change) for change in changes)
    changes = [change for change in narrowed if change.old[0] < change.old[1] or change.new[0] < change.new[1]]
    # A final line end makes no line of its own.
    end = len(new) - (new[-1] == "")
    lines: list[str] = []
    shown = 0
    for change, following in zip(changes, [*(later.new[0] for later in changes[1:]), end], strict=True):
        top, bottom = change.new
        lines += [f"  {n + 1} {new[n]}" for n in range(max(shown, top - CONTEXT_LINES), top)]
        lines += [f"- {n + 1} {old[n]}" for n in range(*change.old)]
        lines += [f"+ {n + 1} {new[n]}" for n in range(top, bottom)]
        shown = max(bottom, min(bottom + CONTEXT_LINES, following))
        lines += [f"  {n + 1} {new[n]}" for n in range(bottom, shown)]
    first = min(changes[0].new[0] + 1, len(new))
    return LineDiff([line.rstrip("\r") for line in lines], first, max(first, changes[-1].new[1]))


def _narrowed(old: Sequence[str], new: Sequence[str], change: Change) -> Change:
    (top, bottom), (new_top, new_bottom) = change.old, change.new
    while top < bottom and new_top < new_bottom and old[top] == new[new_top]:
        top, new_top = top + 1, new_top + 1
    while bottom > top and new_bottom > new_top and old[bottom - 1] == new[new_bottom - 1]:
        bottom, new_bottom = bottom - 1, new_bottom - 1
    return Change((top, bottom), (new_top, new_bottom))


def fit_diff(lines: Sequence[str]) -> str:
    """Join diff lines within 4,096 bytes of UTF-8; a last line says how many were left out."""
    whole = "\n".join(lines)
    if utf8_bytes(whole) > MAX_DIFF_BYTES:
        cut = first_lines(list(lines), len(lines), MAX_DIFF_BYTES - _NOTICE_BYTES)
        whole = "\n".join([*([cut.text] if cut.lines else []), f"[{len(lines) - cut.lines} more diff lines]"])
    return whole.encode("utf-8", "replace").decode("utf-8")
