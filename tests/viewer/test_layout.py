from graphs.drawing import Drawable, Edge, drawable
from graphs.turn import turn_graph
from turngraph.clock import from_ms
from turngraph.decisions import NodeRun
from turngraph.viewer.layout import NODE_HEIGHT, lay_out
from turngraph.viewer.path_taken import path_taken


def run(ordinal: int, node: str, route: str | None = None, why: str | None = None) -> NodeRun:
    return NodeRun(ordinal, node, from_ms(0), 1.0, route=route, why=why)


def test_the_usual_way_of_the_real_graph_is_one_column() -> None:
    layout = lay_out(drawable(turn_graph()))
    usual = ("__start__", "load_history", "prune", "budget", "prompt:assemble", "prompt:model", "persist", "__end__")
    assert {layout.boxes[name].column for name in usual} == {0}
    assert layout.boxes["compact"].column == layout.boxes["memory_flush"].column == layout.boxes["shrink"].column == 1
    assert layout.boxes["prompt:tools"].column == layout.boxes["command"].column == -1


def test_boxes_never_overlap_and_stay_inside() -> None:
    layout = lay_out(drawable(turn_graph()))
    boxes = list(layout.boxes.values())
    for index, box in enumerate(boxes):
        assert box.left > 0
        assert box.right < layout.width
        assert box.y + NODE_HEIGHT / 2 < layout.height
        assert all((box.column, box.rank) != (other.column, other.rank) for other in boxes[index + 1 :])


def test_every_edge_is_drawn_once() -> None:
    picture = drawable(turn_graph())
    assert [line.edge for line in lay_out(picture).lines] == list(picture.edges)


def test_edges_taken_are_pairs_of_runs_with_their_count() -> None:
    picture = Drawable(
        ("__start__", "a", "b", "c", "persist", "__end__"),
        (
            Edge("__start__", "a"),
            Edge("a", "b", "again", True),
            Edge("a", "c", "other", True),
            Edge("b", "a"),
            Edge("a", "persist", "done", True),
            Edge("persist", "__end__"),
        ),
    )
    runs = [
        run(0, "a", "again", "1 < 2"),
        run(1, "b"),
        run(2, "a", "again", "1 < 2"),
        run(3, "b"),
        run(4, "a", "done", "2"),
    ]
    path = path_taken(picture, [*runs, run(5, "persist")])
    assert path.edges[Edge("a", "b", "again", True)] == 2
    assert path.edges[Edge("a", "c", "other", True)] == 0
    assert path.edges[Edge("persist", "__end__")] == 1
    assert [(choice.taken, choice.others) for choice in path.choices][-1] == ("done", ("again", "other"))


def test_a_turn_that_failed_does_not_reach_the_end() -> None:
    picture = Drawable(("__start__", "a", "__end__"), (Edge("__start__", "a"), Edge("a", "__end__")))
    failed = NodeRun(0, "a", from_ms(0), 1.0, error="OSError: disk")
    assert path_taken(picture, [failed]).edges[Edge("a", "__end__")] == 0
