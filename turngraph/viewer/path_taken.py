"""Which way a turn went through the graph: runs matched with edges, and the choices with their numbers.

Source: spec/seeing.md 3.2, spec/spike.md section 2. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from graphs.drawing import Drawable, Edge
from turngraph.decisions import NodeRun


@dataclass(frozen=True, slots=True)
class Choice:
    """A node that chose its way: the condition taken with the numbers, and the conditions that did not hold."""

    ordinal: int
    node: str
    taken: str
    why: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathTaken:
    """How often each edge was taken, how often each node ran (and first), and the choices in order."""

    edges: Counter[Edge]
    runs: Counter[str]
    first: dict[str, int]
    choices: tuple[Choice, ...]


def path_taken(picture: Drawable, runs: Sequence[NodeRun]) -> PathTaken:
    """Match the runs of a turn with the edges of its graph.

    In a sequential graph the edges taken are the pairs of successive runs; a node around a subgraph is not drawn, its
    inner nodes are.
    """
    drawn = [run for run in runs if run.node in picture.nodes]
    edges: Counter[Edge] = Counter()
    names = ("__start__", *(run.node for run in drawn), "__end__")
    routes = (None, *(run.route for run in drawn))
    ended = bool(runs) and runs[-1].error is None and runs[-1].node == "persist"
    for before, route, after in zip(names, routes, names[1:], strict=False):
        if after == "__end__" and not ended:
            continue
        fitting = [edge for edge in picture.edges if edge.source == before and edge.target == after]
        chosen = next((edge for edge in fitting if edge.label == route), fitting[0] if fitting else None)
        if chosen is not None:
            edges[chosen] += 1
    first: dict[str, int] = {}
    for run in drawn:
        first.setdefault(run.node, run.ordinal)
    return PathTaken(edges, Counter(run.node for run in drawn), first, tuple(_choices(picture, runs)))


def _choices(picture: Drawable, runs: Sequence[NodeRun]) -> list[Choice]:
    found = []
    for run in runs:
        labels = {edge.label or edge.target for edge in picture.edges if edge.source == run.node and edge.conditional}
        if run.route is None or len(labels) < 2 or not run.why:
            continue
        others = tuple(sorted(labels - {run.route}))
        found.append(Choice(run.ordinal, run.node, run.route, run.why, others))
    return found
