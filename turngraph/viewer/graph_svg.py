"""The compiled graph as an SVG file of its own. Source: spec/seeing.md 2.4."""

from __future__ import annotations

from collections.abc import Sequence

from graphs.drawing import Drawable
from turngraph.decisions import NodeRun
from turngraph.viewer.html import templates
from turngraph.viewer.layout import lay_out
from turngraph.viewer.path_taken import path_taken

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1d2126; } .edge path { fill: none; stroke: #b9b6ae; }
.edge text { font-size: 10.5px; fill: #6b6f76; } .edge.taken path { stroke: #1d2126; stroke-width: 2.4; }
.edge.taken text { fill: #1d2126; font-weight: 650; } .tip { fill: #1d2126; } .tip.idle { fill: #b9b6ae; }
.box rect { fill: #fff; stroke: #7b8794; } .box text { text-anchor: middle; }
.box.ran rect { stroke: #1d2126; stroke-width: 1.6; }
.box.mark rect { fill: #1d2126; } .box.mark text { fill: #fff; } .times { fill: #0b57a4; }
"""


def graph_svg(picture: Drawable, runs: Sequence[NodeRun] = ()) -> str:
    """Return the picture of a graph; with the runs of a turn its path is bold."""
    module = templates().get_template("graph.html.j2").make_module({})
    drawn = str(module.graph(lay_out(picture), path_taken(picture, runs), "graph"))  # type: ignore[attr-defined]
    opened = drawn.strip().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return opened.replace("<defs>", f"<style>{STYLE}</style>\n<defs>", 1) + "\n"
