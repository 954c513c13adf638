"""``turngraph graph``: the compiled turn graph, with the path of a turn if one is named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, find_home, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphs.drawing import Drawable
    from turngraph.decisions import NodeRun


def graph(
    format: Annotated[
        Literal["mermaid", "ascii", "svg", "json"], typer.Option("--format", help="How to draw it.")
    ] = "ascii",
    turn: Annotated[int | None, typer.Option("--turn", min=1, help="Mark the path that this turn took.")] = None,
    session: Annotated[str, typer.Option("--session", help="Session of the turn.")] = "main",
    home: HomeOption = None,
    agent: AgentOption = None,
    traces: Annotated[
        Path | None, typer.Option("--traces", help="Read the output folder of a replay in place of the home.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Draw the turn graph as LangGraph compiled it; --turn marks the path taken.

    Example: turngraph graph --format svg --turn 3 > turn.svg
    """
    from graphs.drawing import drawable, to_ascii
    from graphs.turn import turn_graph

    compiled = turn_graph()
    picture = drawable(compiled)
    runs: Sequence[NodeRun] = ()
    if turn is not None:
        from turngraph.viewer.sources import TurnSource

        source = TurnSource.of_folder(traces) if traces else TurnSource.of_home(find_home(home), agent)
        runs = source.reader.trace_of_turn(source.key(session), turn).nodes
    if json or format == "json":
        print_json(_plain(picture, runs))
    elif format == "mermaid":
        print(compiled.get_graph(xray=True).draw_mermaid() + _mermaid_path(picture, runs))
    elif format == "svg":
        from turngraph.viewer.graph_svg import graph_svg

        print(graph_svg(picture, runs), end="")
    else:
        print(_marked(to_ascii(picture), runs))


def _plain(picture: Drawable, runs: Sequence[NodeRun]) -> dict[str, object]:
    from turngraph.viewer.path_taken import path_taken

    path = path_taken(picture, runs)
    return {
        "nodes": list(picture.nodes),
        "edges": [
            {
                "from": edge.source,
                "to": edge.target,
                "label": edge.label,
                "conditional": edge.conditional,
                **({"taken": path.edges[edge]} if runs else {}),
            }
            for edge in picture.edges
        ],
        **({"path": [run.node for run in runs]} if runs else {}),
    }


def _mermaid_path(picture: Drawable, runs: Sequence[NodeRun]) -> str:
    """Colour the nodes that ran; mermaid writes the colon of a subgraph's node by its code."""
    ran = sorted({run.node.replace(":", "\\3a") for run in runs if run.node in picture.nodes})
    return f"\tclassDef ran stroke-width:3px,stroke:#0b57a4\n\tclass {','.join(ran)} ran\n" if ran else ""


def _marked(drawn: str, runs: Sequence[NodeRun]) -> str:
    """Put the number of runs behind the nodes that ran, and a mark before the edges taken."""
    if not runs:
        return drawn
    counts: dict[str, int] = {}
    for run in runs:
        counts[run.node] = counts.get(run.node, 0) + 1
    lines = [f"{line}  ×{counts[line]}" if line in counts else line for line in drawn.splitlines()]
    return "\n".join([*lines, "", "path: " + " -> ".join(run.node for run in runs)])
