"""Pictures for notebooks, drawn by matplotlib without a display: SVG or PNG. Needs the extra ``notebooks``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turngraph.replay.whatif import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from turngraph.waterfall import Waterfall

INK, ACCENT, QUIET, WARM = "#1d2126", "#0b57a4", "#9aa0a6", "#d2851b"


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawn figure; a notebook shows it as SVG, :meth:`save` writes SVG or PNG by the name of the file."""

    figure: Figure

    def save(self, path: Path) -> None:
        """Write the picture."""
        self.figure.savefig(path, dpi=120)

    def _repr_svg_(self) -> str:
        from io import StringIO

        text = StringIO()
        self.figure.savefig(text, format="svg")
        return text.getvalue()


def _figure(width: float = 8.0, height: float = 4.0) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def waterfall_plot(made: Waterfall) -> Picture:
    """Draw the parts of a prompt, each from where the one before it ended."""
    figure, axes = _figure(height=0.24 * len(made.bars) + 1.2)
    start = 0
    for row, bar in enumerate(made.bars):
        axes.barh(row, bar.tokens, left=start, color=ACCENT)
        start += bar.tokens
    axes.set_yticks(range(len(made.bars)), [f"{bar.name} ({bar.tokens:,})" for bar in made.bars], fontsize=8)
    for mark in made.marks:
        axes.axvline(mark.tokens, color=WARM, linestyle="--", linewidth=1)
        axes.text(mark.tokens, -1, mark.name, fontsize=7, color=WARM, ha="right")
    axes.invert_yaxis()
    axes.set_xlabel("tokens")
    return Picture(figure)


def prompts_plot(series: Mapping[str, Sequence[int]]) -> Picture:
    """Draw the prompt tokens of each turn, one line for each name."""
    figure, axes = _figure()
    for number, (name, tokens) in enumerate(series.items()):
        axes.plot(range(1, len(tokens) + 1), tokens, label=name, color=(ACCENT, WARM, INK, QUIET)[number % 4])
    axes.set_xlabel("turn")
    axes.set_ylabel("prompt tokens")
    axes.legend(frameon=False)
    return Picture(figure)


def pareto_plot(points: Sequence[Point]) -> Picture:
    """Draw cost against survival with the Pareto front."""
    figure, axes = _figure()
    axes.scatter([p.usd for p in points], [p.survival for p in points], color=QUIET, s=22)
    front = sorted((point for point in points if point.front), key=lambda point: point.usd)
    axes.plot([p.usd for p in front], [p.survival for p in front], color=ACCENT, marker="o")
    axes.set_xlabel("cost of all calls, USD")
    axes.set_ylabel("later uses still in sight")
    return Picture(figure)


def bars_plot(values: Mapping[str, float], label: str) -> Picture:
    """Draw one bar for each name."""
    figure, axes = _figure(height=0.4 * len(values) + 1.0)
    axes.barh(list(values), list(values.values()), color=ACCENT)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    return Picture(figure)
