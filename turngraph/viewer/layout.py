"""Where the nodes and edges of a turn graph go on paper, by rule.

Ranks are longest paths over the edges that lead on; the nodes of the usual way stand in the middle column, loops of a
subgraph to its left, detours to its right. Pure: a picture in, coordinates out. Source: spec/spike.md section 2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphs.drawing import Drawable, Edge

NODE_WIDTH = 132
NODE_HEIGHT = 40
RANK_HEIGHT = 68
COLUMN_WIDTH = 236
MARGIN = 18
LANE = 18  # distance of two long edges at the side
PORT = 14  # distance of two edges that leave the same side of a node
LONG_RANKS = 4  # an edge back over more ranks goes round the outside


@dataclass(frozen=True, slots=True)
class Box:
    """A node: the middle of its box, in pixels."""

    name: str
    x: float
    y: float
    column: int
    rank: int

    @property
    def left(self) -> float:
        return self.x - NODE_WIDTH / 2

    @property
    def right(self) -> float:
        return self.x + NODE_WIDTH / 2


@dataclass(frozen=True, slots=True)
class Line:
    """An edge: an SVG path, and where its label starts (``anchor`` as SVG has it)."""

    edge: Edge
    path: str
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A picture with coordinates; sizes in pixels."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    lines: tuple[Line, ...]


def lay_out(picture: Drawable) -> Layout:
    """Place every node and route every edge of ``picture``; its nodes are in reading order."""
    place = {name: index for index, name in enumerate(picture.nodes)}
    forward = [edge for edge in picture.edges if place[edge.source] < place[edge.target]]
    ranks = _ranks(picture.nodes, forward)
    middle = _usual_way(picture, forward, place)
    columns = {name: 0 if name in middle else _side(name, picture, place) for name in picture.nodes}
    first = min(columns.values())
    boxes = {
        name: Box(
            name,
            MARGIN + NODE_WIDTH / 2 + (columns[name] - first) * COLUMN_WIDTH,
            MARGIN + NODE_HEIGHT / 2 + ranks[name] * RANK_HEIGHT,
            columns[name],
            ranks[name],
        )
        for name in picture.nodes
    }
    router = _Router(boxes)
    lines = tuple(router.line(edge) for edge in picture.edges)
    width = max(max(box.right for box in boxes.values()), router.outermost) + MARGIN
    height = max(box.y for box in boxes.values()) + NODE_HEIGHT / 2 + MARGIN
    return Layout(width, height, boxes, lines)


def _ranks(nodes: tuple[str, ...], forward: list[Edge]) -> dict[str, int]:
    ranks = dict.fromkeys(nodes, 0)
    for name in nodes:  # reading order: sources come before their targets
        for edge in forward:
            if edge.source == name:
                ranks[edge.target] = max(ranks[edge.target], ranks[name] + 1)
    return ranks


def _group(name: str) -> str:
    return name.partition(":")[0] if ":" in name else ""


def _usual_way(picture: Drawable, forward: list[Edge], place: Mapping[str, int]) -> frozenset[str]:
    """Return the path from start to end with the most nodes, where a node that sends the turn back counts against.

    An edge back inside a subgraph is its loop and counts for nothing.
    """
    back: dict[str, int] = defaultdict(int)
    for edge in picture.edges:
        same_loop = _group(edge.source) and _group(edge.source) == _group(edge.target)
        if place[edge.target] <= place[edge.source] and not same_loop:
            back[edge.source] += 1
    best: dict[str, tuple[int, tuple[str, ...]]] = {picture.nodes[0]: (0, (picture.nodes[0],))}
    for name in picture.nodes:
        if name not in best:
            continue
        score, path = best[name]
        for edge in forward:
            if edge.source == name:
                found = (score + 1 - 2 * back[edge.target], (*path, edge.target))
                best[edge.target] = max(best.get(edge.target, found), found, key=lambda item: item[0])
    return frozenset(best[picture.nodes[-1]][1])


def _side(name: str, picture: Drawable, place: Mapping[str, int]) -> int:
    """Return 1 for a node that sends the turn back, -1 for a loop of a subgraph or a way that only leads on."""
    for edge in picture.edges:
        own_loop = _group(name) and _group(edge.target) == _group(name)
        if edge.source == name and place[edge.target] < place[name] and not own_loop:
            return 1
    return -1


class _Router:
    """Draws edges one after another and keeps apart those that leave the same side or go round the outside."""

    def __init__(self, boxes: Mapping[str, Box]) -> None:
        self._boxes = boxes
        self._ports: dict[tuple[str, str], int] = defaultdict(int)
        self._lanes = 0
        self._right = max(box.right for box in boxes.values())
        self.outermost = self._right

    def line(self, edge: Edge) -> Line:
        """Route one edge."""
        source, target = self._boxes[edge.source], self._boxes[edge.target]
        if source.column == target.column:
            if target.rank > source.rank and not any(self._between(source, target)):
                return self._down(edge, source, target)
            return self._beside(edge, source, target)
        if source.rank - target.rank > LONG_RANKS and source.column > target.column:
            return self._outside(edge, source, target)
        return self._across(edge, source, target)

    def _between(self, source: Box, target: Box) -> Iterator[Box]:
        for box in self._boxes.values():
            if box.column == source.column and source.rank < box.rank < target.rank:
                yield box

    def _port(self, box: Box, side: str) -> float:
        """Return the height at which the next edge leaves or enters this side."""
        index = self._ports[box.name, side]
        self._ports[box.name, side] += 1
        return box.y + (0, -PORT, PORT)[index % 3]

    def _down(self, edge: Edge, source: Box, target: Box) -> Line:
        top, bottom = source.y + NODE_HEIGHT / 2, target.y - NODE_HEIGHT / 2
        return Line(edge, f"M{source.x:g} {top:g}V{bottom:g}", source.x + 6, top + 13, "start")

    def _beside(self, edge: Edge, source: Box, target: Box) -> Line:
        """An edge within a column that other nodes are in the way of, or that leads back: a bow on the left."""
        start, end = self._port(source, "left"), self._port(target, "left")
        reach = min(source.left, target.left) - 26 - 5 * abs(source.rank - target.rank)
        path = f"M{source.left:g} {start:g}C{reach:g} {start:g} {reach:g} {end:g} {target.left:g} {end:g}"
        return Line(edge, path, source.left - 6, start - 4, "end")

    def _across(self, edge: Edge, source: Box, target: Box) -> Line:
        """An edge to another column: it leaves and enters at the sides that face each other."""
        rightwards = target.column > source.column
        if target.rank < source.rank and not any(self._above(source, target)):
            return self._up(edge, source, target)
        start = self._port(source, "right" if rightwards else "left")
        end = self._port(target, "left" if rightwards else "right")
        from_x = source.right if rightwards else source.left
        to_x = target.left if rightwards else target.right
        middle = (from_x + to_x) / 2
        path = f"M{from_x:g} {start:g}C{middle:g} {start:g} {middle:g} {end:g} {to_x:g} {end:g}"
        return Line(edge, path, from_x + (6 if rightwards else -6), start - 3, "start" if rightwards else "end")

    def _above(self, source: Box, target: Box) -> Iterator[Box]:
        for box in self._boxes.values():
            if box.column == source.column and target.rank <= box.rank < source.rank:
                yield box

    def _up(self, edge: Edge, source: Box, target: Box) -> Line:
        """An edge back to a column beside it, with a free way up: from the top of its node."""
        leftwards = target.column < source.column
        end = self._port(target, "right" if leftwards else "left")
        to_x = target.right if leftwards else target.left
        top = source.y - NODE_HEIGHT / 2
        path = f"M{source.x:g} {top:g}C{source.x:g} {end:g} {source.x:g} {end:g} {to_x:g} {end:g}"
        return Line(edge, path, source.x + (-6 if leftwards else 6), top - 6, "end" if leftwards else "start")

    def _outside(self, edge: Edge, source: Box, target: Box) -> Line:
        """A long edge back: round the right side, each in a lane of its own."""
        self._lanes += 1
        lane = self._right + LANE * self._lanes + 6
        self.outermost = max(self.outermost, lane)
        start, end = self._port(source, "right"), self._port(target, "right")
        turn = 10
        path = (
            f"M{source.right:g} {start:g}H{lane - turn:g}Q{lane:g} {start:g} {lane:g} {start - turn:g}"
            f"V{end + turn:g}Q{lane:g} {end:g} {lane - turn:g} {end:g}H{target.right:g}"
        )
        return Line(edge, path, target.right + 6, end - 3, "start")
