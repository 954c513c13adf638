"""Searches and tool results of a turn for the report: score parts per hit, and what was used of it later.

Pure. Source: spec/seeing.md 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from turngraph.decisions import TurnTrace
from turngraph.viewer.prompt_parts import PromptPart

SEARCH_TOOL = "memory_search"
SCORE_PARTS = (
    *("keyword_rank", "bm25", "coverage", "text_score", "text_weight", "vector_rank", "vector_score"),
    *("vector_weight", "combined", "age_days", "decay", "mmr_penalty", "score"),
)
QUOTED_CHARS = 24  # so much of a snippet word for word counts as using it


def searches(trace: TurnTrace, parts: Sequence[PromptPart], answer: str) -> list[dict[str, Any]]:
    """Return the searches of the turn, hits best first; ``used`` says whether a hit was named or quoted later.

    Scores come from the decisions where the search was explained, else from the tool's own answer.
    """
    explained = {
        str(decision.data.get("query")): decision.data
        for _, decision in trace.decisions
        if decision.what == "recalled" and "hits" in decision.data
    }
    found = []
    current = _current(parts)
    for index in range(current, len(parts)):
        part = parts[index]
        if part.segment.role != "toolResult" or part.segment.name != SEARCH_TOOL or part.text is None:
            continue
        query = _query(parts, index, current)
        answered = _json(part.text)
        later = "\n".join([*(p.text or "" for p in parts[index + 1 :] if p.segment.role == "assistant"), answer])
        hits = explained.get(query, {}).get("hits") or answered.get("results") or []
        found.append(
            {
                "query": query,
                "segment": part.number,
                "mode": answered.get("mode"),
                "model": answered.get("model"),
                "hits": [_hit(hit, later) for hit in hits if isinstance(hit, Mapping)],
            }
        )
    return found


def tool_results(parts: Sequence[PromptPart]) -> list[dict[str, Any]]:
    """Return the tool results in the prompt with the size they have there and in the transcript."""
    rows = []
    for part in parts:
        if part.segment.role == "toolResult":
            original = part.original_chars if part.original_chars is not None else part.chars
            known = part.original_chars is not None or not part.segment.derived
            rows.append(
                {
                    "segment": part.number,
                    "tool": part.segment.name or "",
                    "visibleChars": part.chars,
                    "originalChars": original if known else None,
                    "tokens": part.segment.tokens,
                }
            )
    return rows


def _hit(hit: Mapping[str, Any], later: str) -> dict[str, Any]:
    """Return a hit as the page wants it; the answer of a tool may hold anything."""
    path, snippet = str(hit.get("path") or ""), str(hit.get("snippet") or "")
    quoted = len(snippet) >= QUOTED_CHARS and any(
        snippet[start : start + QUOTED_CHARS] in later
        for start in range(0, len(snippet) - QUOTED_CHARS + 1, QUOTED_CHARS // 2)
    )
    explanation = hit.get("explanation")
    parts = explanation if isinstance(explanation, Mapping) else {}
    return {
        "path": path,
        "startLine": _number(hit.get("startLine")),
        "score": _number(hit.get("score")),
        "explanation": {name: value for name in SCORE_PARTS if (value := _number(parts.get(name))) is not None},
        "used": quoted or bool(path and path in later),
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _current(parts: Sequence[PromptPart]) -> int:
    return next((i for i, part in enumerate(parts) if part.segment.kind == "current message"), 0)


def _query(parts: Sequence[PromptPart], result: int, current: int) -> str:
    """Return the query of the call that a result answers: results stand in the order of their calls."""
    place = sum(p.segment.role == "toolResult" and p.segment.name == SEARCH_TOOL for p in parts[current:result])
    calls = [
        p.text.removeprefix(SEARCH_TOOL).strip()
        for p in parts[current:result]
        if p.segment.role == "assistant" and p.text and p.text.startswith(f"{SEARCH_TOOL} ")
    ]
    return str(_json(calls[place]).get("query", "")) if place < len(calls) else ""


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
