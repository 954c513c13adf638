"""``turngraph graph``: the compiled turn graph as text."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turngraph.cli.options import JsonOption, print_json


def graph(
    format: Annotated[Literal["mermaid", "ascii", "json"], typer.Option("--format", help="How to draw it.")] = "ascii",
    json: JsonOption = False,
) -> None:
    """Draw the turn graph as LangGraph compiled it.

    Example: turngraph graph --format mermaid > turn.mmd
    """
    from graphs.drawing import drawable, to_ascii
    from graphs.turn import turn_graph

    compiled = turn_graph()
    if json or format == "json":
        picture = drawable(compiled)
        print_json(
            {
                "nodes": list(picture.nodes),
                "edges": [
                    {"from": edge.source, "to": edge.target, "label": edge.label, "conditional": edge.conditional}
                    for edge in picture.edges
                ],
            }
        )
    elif format == "mermaid":
        print(compiled.get_graph(xray=True).draw_mermaid())
    else:
        print(to_ascii(drawable(compiled)))
