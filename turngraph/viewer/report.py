"""The turn report: one HTML file that shows what the model saw in a turn, and why.

Source: spec/seeing.md section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphs.drawing import Drawable
from turngraph.config import AgentSettings
from turngraph.decisions import TurnTrace
from turngraph.viewer.charts import ribbon_shape, strip_shape, together, waterfall_shape
from turngraph.viewer.html import json_script, render
from turngraph.viewer.layout import lay_out
from turngraph.viewer.prompt_parts import SIGNS
from turngraph.viewer.texts import Texts
from turngraph.viewer.turn_data import STRIP_TURNS, PageRules, TurnPage, strip_row, turn_page

LARGEST_BYTES = 5_000_000  # spec/seeing.md 3.10
TEXT_CHARS = (6_000, 2_000, 600, 160, 60, 0)  # tried in turn until the file is small enough
REPORT_SCHEMA = "turngraph.report/1"
INDEX_FROM_TURNS = 2
IDS_SHOWN = 6  # of a decision, in a report of many turns
DIGEST_SHOWN = 16


def turn_report(
    turns: Sequence[TurnTrace],
    *,
    earlier: Sequence[TurnTrace],
    picture: Drawable,
    texts: Texts,
    settings: AgentSettings,
    rules: PageRules | None = None,
    verdicts: dict[int, str] | None = None,
) -> str:
    """Return the report of one turn or of several as one HTML page.

    Args:
        turns: what is shown, oldest first.
        earlier: turns of the session before the first of them, oldest first.
        picture: the compiled graph.
        texts: where texts are found.
        settings: for prices and the cache model.
        rules: what is shown of texts; long texts are cut further until the file is below 5 MB, and when that is not
            enough the oldest turns are left out.
        verdicts: of a check against an earlier replay, by turn.
    """
    base = rules or PageRules()
    limits = [chars for chars in TEXT_CHARS if chars <= base.text_chars]
    pages: list[TurnPage] = []
    html = ""
    while limits:
        limit = limits.pop(0)
        pages = _pages(turns, earlier, picture, texts, settings, replace(base, text_chars=limit), verdicts or {})
        html = page_html(pages)
        if _is_small(html):
            return html
        markup = len(html) - _text_chars(pages, limit)
        while len(limits) > 1 and markup + _text_chars(pages, limits[0]) > LARGEST_BYTES:
            limits.pop(0)
    while not _is_small(html) and len(pages) > 1:
        pages = pages[-(len(pages) * 3 // 4) :]
        html = page_html(pages, left_out=len(turns) - len(pages))
    return html


def _text_chars(pages: Sequence[TurnPage], limit: int) -> int:
    """Return how many characters of texts the pages show when each is cut to ``limit``."""
    several = len(pages) >= INDEX_FROM_TURNS
    shown = (part.text for page in pages for part in page.prompt.parts if part.text and not (several and part.shared))
    return sum(min(len(text), limit) for text in shown)


def _is_small(html: str) -> bool:
    return len(html) * 4 <= LARGEST_BYTES or len(html.encode("utf-8", "replace")) <= LARGEST_BYTES


def page_html(
    pages: Sequence[TurnPage],
    *,
    around: Mapping[str, Any] | None = None,
    left_out: int = 0,
    style: tuple[str, ...] = ("report.css",),
    script: tuple[str, ...] = ("report.js",),
) -> str:
    """Draw pages; several stand below one another behind an index.

    Args:
        pages: what is drawn.
        around: on our own server the session, and the turns before and after for the links between pages.
        left_out: older turns that the page has no room for.
        style, script: assets.
    """
    layout = lay_out(pages[0].picture)
    several = len(pages) >= INDEX_FROM_TURNS
    return render(
        "report.html.j2",
        style=style,
        script=script,
        server=around is not None,
        title=_title(pages),
        pages=pages,
        layout=layout,
        signs=SIGNS,
        several=several,
        waterfalls=[waterfall_shape(together(page.waterfall) if several else page.waterfall) for page in pages],
        ribbons=[ribbon_shape(page.waterfall) for page in pages],
        strips=[strip_shape(page.data["strip"], page.trace.trace_id) for page in pages],
        whole_strip=strip_shape([strip_row(page.trace) for page in pages]),
        data=json_script(_data(pages)),
        around=around,
        left_out=left_out,
        anchors=_anchors(pages),
    )


def _pages(
    turns: Sequence[TurnTrace],
    earlier: Sequence[TurnTrace],
    picture: Drawable,
    texts: Texts,
    settings: AgentSettings,
    rules: PageRules,
    verdicts: dict[int, str],
) -> list[TurnPage]:
    before = list(earlier)
    pages = []
    for trace in turns:
        own = replace(rules, verdict=verdicts.get(trace.turn, rules.verdict))
        pages.append(turn_page(trace, before[-STRIP_TURNS:], picture, texts, settings, own))
        before.append(trace)
    return pages


def _anchors(pages: Sequence[TurnPage]) -> dict[str, str]:
    """Return a name for each trace: the number of its turn, and which of that number after a reset."""
    seen: Counter[int] = Counter()
    anchors = {}
    for page in pages:
        seen[page.trace.turn] += 1
        again = seen[page.trace.turn]
        anchors[page.trace.trace_id] = f"{page.trace.turn}" if again == 1 else f"{page.trace.turn}-{again}"
    return anchors


def _data(pages: Sequence[TurnPage]) -> Any:
    if len(pages) == 1:
        return pages[0].data
    return {"schema": REPORT_SCHEMA, "turns": [_brief(page) for page in pages]}


def _brief(page: TurnPage) -> dict[str, Any]:
    """Return the data of one page among many: what equals the turn before is not said again, long lists are counted."""
    data, shared = page.data, page.prompt.shared
    return {
        **data,
        "path": _taken(data["path"]),
        "waterfall": _brief_waterfall(page),
        "nodes": [_brief_node(node) for node in data["nodes"] if _has_card(node)],
        "prompt": {**data["prompt"], "segments": data["prompt"]["segments"][shared:]},
        "toolResults": [row for row in data["toolResults"] if row["segment"] > shared],
        "strip": data["strip"][-1:],
    }


def _taken(path: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the graph that the turn went through."""
    return {
        **path,
        "nodes": [node for node in path["nodes"] if node["runs"]],
        "edges": [edge for edge in path["edges"] if edge["taken"]],
    }


def _brief_waterfall(page: TurnPage) -> dict[str, Any]:
    """Return the numbers of the waterfall; its decisions stand at the nodes."""
    made = together(page.waterfall).as_json()
    return {**made, "nodes": [{key: value for key, value in n.items() if key != "decisions"} for n in made["nodes"]]}


def _has_card(node: dict[str, Any]) -> bool:
    """Return whether a page among many shows a node run: those of a subgraph only when they have something to say."""
    return ":" not in node["node"] or bool(node["decisions"] or node.get("error"))


def _brief_node(node: dict[str, Any]) -> dict[str, Any]:
    short = {"digest": node["digest"][:DIGEST_SHOWN]} if "digest" in node else {}
    return {**node, **short, "decisions": [_counted(decision) for decision in node["decisions"]]}


def _counted(decision: dict[str, Any]) -> dict[str, Any]:
    ids = decision.get("entry_ids") or []
    return decision if len(ids) <= IDS_SHOWN else {**decision, "entry_ids": ids[:IDS_SHOWN], "entry_count": len(ids)}


def _title(pages: Sequence[TurnPage]) -> str:
    first, last = pages[0].trace, pages[-1].trace
    turns = f"turn {first.turn}" if len(pages) == 1 else f"turns {first.turn} to {last.turn}"
    return f"{first.session_key}, {turns}"
