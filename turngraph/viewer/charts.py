"""Coordinates of the pictures of a report: waterfall, strip of turns, Pareto front. Pure; templates write the SVG.

Source: spec/seeing.md 3.3, 3.8 and 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turngraph.waterfall import Bar, Waterfall

ROW = 21  # height of a bar with its gap, in pixels
CHART_WIDTH = 520
LABEL_WIDTH = 186
VALUE_WIDTH = 76
STRIP_HEIGHT = 84
STRIP_STEP = 26
SMALLEST = 1.5  # a bar that is there is seen
SHOWN_BARS = 28
SECTION = "system section"


@dataclass(frozen=True, slots=True)
class BarShape:
    """A bar of the waterfall; ``kind`` is the group of segments, ``window``, ``room`` or ``rest``."""

    label: str
    kind: str
    tokens: int
    x: float
    y: float
    width: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class MarkShape:
    """A threshold."""

    label: str
    tokens: int
    x: float


@dataclass(frozen=True, slots=True)
class WaterfallShape:
    """The waterfall as shapes."""

    width: float
    height: float
    bars: tuple[BarShape, ...]
    marks: tuple[MarkShape, ...]


def waterfall_shape(made: Waterfall) -> WaterfallShape:
    """Lay out a waterfall: the window, each part from where the one before it ended, and the head-room.

    Small parts beyond :data:`SHOWN_BARS` are drawn together.
    """
    window = made.window_tokens or made.used_tokens or 1
    scale = CHART_WIDTH / max(window, made.used_tokens)
    bars = [BarShape("window", "window", window, LABEL_WIDTH, 0.0, window * scale)]
    largest = sorted(made.bars, key=lambda bar: -bar.tokens)[:SHOWN_BARS]
    start = 0
    small = 0
    for bar in made.bars:
        if not any(bar is kept for kept in largest):
            small += bar.tokens
            continue
        label = bar.name if bar.count == 1 else f"{bar.name} ×{bar.count}"
        note = f"{bar.raw_chars:,} → {bar.injected_chars:,} characters" if bar.raw_chars else ""
        bars.append(_bar(label, bar.group, bar.tokens, start, len(bars), scale, note))
        start += bar.tokens
    if small:
        bars.append(_bar(f"{len(made.bars) - len(largest)} smaller parts", "rest", small, start, len(bars), scale))
        start += small
    if made.window_tokens:
        room = max(0, made.headroom_tokens)
        bars.append(_bar("head-room", "room", room, min(start, window), len(bars), scale))
    marks = tuple(MarkShape(mark.name, mark.tokens, LABEL_WIDTH + mark.tokens * scale) for mark in made.marks)
    height = len(bars) * ROW + 8 + 15 * len(marks)
    return WaterfallShape(LABEL_WIDTH + CHART_WIDTH + VALUE_WIDTH, height, tuple(bars), marks)


def together(made: Waterfall) -> Waterfall:
    """Return a waterfall with the system sections as one bar, for a page of many turns: they are the same in each."""
    sections = [bar for bar in made.bars if bar.group == SECTION]
    if len(sections) < 2:
        return made
    one = Bar(
        SECTION, "system sections", sum(b.tokens for b in sections), sum(b.chars for b in sections), len(sections)
    )
    return replace(made, bars=(one, *(bar for bar in made.bars if bar.group != SECTION)))


def _bar(label: str, kind: str, tokens: int, start: int, row: int, scale: float, note: str = "") -> BarShape:
    width = max(SMALLEST, tokens * scale) if tokens else 0.0
    return BarShape(label, kind, tokens, LABEL_WIDTH + start * scale, float(row * ROW), width, note)


@dataclass(frozen=True, slots=True)
class RibbonShape:
    """One kind of segment in the ribbon at the top: its share of the prompt."""

    kind: str
    tokens: int
    x: float
    width: float


def ribbon_shape(made: Waterfall, width: float = 1000.0) -> tuple[RibbonShape, ...]:
    """Return the kinds of segments of a prompt side by side, in reading order."""
    totals: dict[str, int] = {}
    for bar in made.bars:
        totals[bar.group] = totals.get(bar.group, 0) + bar.tokens
    whole = sum(totals.values()) or 1
    shapes, x = [], 0.0
    for kind, tokens in totals.items():
        shapes.append(RibbonShape(kind, tokens, x, tokens / whole * width))
        x += tokens / whole * width
    return tuple(shapes)


@dataclass(frozen=True, slots=True)
class StripColumn:
    """One turn of the strip; a session that was reset has several turns of one number."""

    turn: int
    trace_id: str
    tokens: int
    compactions: int
    flushes: int
    error: bool
    x: float
    y: float
    height: float
    this: bool


def strip_shape(rows: Sequence[Mapping[str, Any]], this: str | None = None) -> tuple[StripColumn, ...]:
    """Return a column for each turn, as high as its prompt is long."""
    largest = max((row["tokens"] for row in rows), default=0) or 1
    return tuple(
        StripColumn(
            row["turn"], row["trace"], row["tokens"], row["compactions"], row["flushes"], row["error"],
            x=index * STRIP_STEP,
            y=STRIP_HEIGHT - row["tokens"] / largest * STRIP_HEIGHT,
            height=max(SMALLEST, row["tokens"] / largest * STRIP_HEIGHT),
            this=row["trace"] == this,
        )
        for index, row in enumerate(rows)
    )  # fmt: skip
