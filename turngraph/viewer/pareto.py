"""The page of a sweep: money against survival, with the Pareto front. Source: spec/seeing.md 5.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngraph.replay.survival import LIMITS
from turngraph.replay.whatif import Point
from turngraph.viewer.html import json_script, render

WIDTH, HEIGHT = 720, 420
LEFT, BOTTOM, TOP, RIGHT = 64, 46, 18, 24
TICKS = 5
SCHEMA = "turngraph.sweep/1"


@dataclass(frozen=True, slots=True)
class Dot:
    """A combination of settings as a point.

    Attributes:
        number: its row in the table. x, y: pixels.
        label: numbers of all points at this place, at the first of them; empty at the others.
    """

    number: int
    x: float
    y: float
    point: Point
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps a range of values to pixels, with a margin where all values are equal."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def ticks(self) -> list[tuple[float, float]]:
        """Values and pixels of the ticks."""
        values = [self.low + (self.high - self.low) * index / (TICKS - 1) for index in range(TICKS)]
        return [(value, self.at(value)) for value in values]


def _scale(values: Sequence[float], start: float, end: float, smallest: float) -> Scale:
    low, high = min(values), max(values)
    room = max((high - low) * 0.08, smallest)
    return Scale(low - room, high + room, start, end)


def pareto_page(points: Sequence[Point], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page; ``points`` cheapest first."""
    across = _scale([point.usd for point in points], LEFT, WIDTH - RIGHT, 0.0005)
    up = _scale([point.survival for point in points], HEIGHT - BOTTOM, TOP, 0.005)
    dots = _dots(points, across, up)
    plain = [{"settings": p.settings, "usd": p.usd, "survival": p.survival, "front": p.front} for p in points]
    return render(
        "pareto.html.j2",
        style=("report.css",),
        script=(),
        dots=dots,
        front=[dot for dot in dots if dot.point.front],
        across=across,
        up=up,
        width=WIDTH,
        height=HEIGHT,
        transcripts=sorted({str(row["transcript"]) for row in rows}),
        limits=LIMITS,
        data=json_script({"schema": SCHEMA, "points": plain, "rows": list(rows)}),
    )


def _dots(points: Sequence[Point], across: Scale, up: Scale) -> list[Dot]:
    places: dict[tuple[int, int], list[int]] = {}
    at = [(across.at(point.usd), up.at(point.survival)) for point in points]
    for number, (x, y) in enumerate(at, start=1):
        places.setdefault((round(x), round(y)), []).append(number)
    labels = {numbers[0]: ", ".join(map(str, numbers)) for numbers in places.values()}
    return [
        Dot(number, x, y, point, labels.get(number, ""))
        for number, ((x, y), point) in enumerate(zip(at, points, strict=True), start=1)
    ]
