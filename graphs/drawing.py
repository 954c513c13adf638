"""A compiled graph as plain data, and as text: subgraph ends joined, edges in reading order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge; ``label`` is the condition under which it is taken."""

    source: str
    target: str
    label: str = ""
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Drawable:
    """Nodes in reading order (``outer:inner`` for a subgraph) and the edges between them."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]


def drawable(compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Drawable:
    """Read the nodes and edges of a compiled graph with its subgraphs.

    The start and end marks of a subgraph are joined with their neighbours (spec/spike.md section 2).
    """
    graph = compiled.get_graph(xray=True)
    edges = [Edge(e.source, e.target, str(e.data) if e.data else "", e.conditional) for e in graph.edges]
    for mark in [name for name in graph.nodes if ":__" in name]:
        before = [edge for edge in edges if edge.target == mark]
        after = [edge for edge in edges if edge.source == mark]
        edges = [edge for edge in edges if mark not in (edge.source, edge.target)]
        edges += [
            Edge(a.source, b.target, b.label or a.label, a.conditional or b.conditional) for a in before for b in after
        ]
    names = _reading_order(edges, "__start__")
    place = {name: index for index, name in enumerate(names)}
    edges.sort(key=lambda edge: (place[edge.source], place[edge.target], edge.label))
    return Drawable(tuple(names), tuple(edges))


def _reading_order(edges: list[Edge], start: str) -> list[str]:
    """Order nodes by a depth-first walk from the start, callers before callees, the end last."""
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    finished: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        seen.add(name)
        for target in sorted(targets.get(name, ()), reverse=True):
            if target not in seen:
                visit(target)
        finished.append(name)

    visit(start)
    order = finished[::-1]
    return [name for name in order if name != "__end__"] + (["__end__"] if "__end__" in order else [])


def to_ascii(picture: Drawable) -> str:
    """Write one line a node, with the edges that leave it and their conditions."""
    lines = []
    for name in picture.nodes:
        leaving = [edge for edge in picture.edges if edge.source == name]
        lines.append(name.strip("_"))
        for edge in leaving:
            condition = f" [{edge.label}]" if edge.label else ""
            lines.append(f"  ├─{condition}─> {edge.target.strip('_')}")
        if leaving:
            lines[-1] = lines[-1].replace("├", "└", 1)
    return "\n".join(lines)
