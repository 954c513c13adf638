"""What one replay measured, as one flat row: the columns of a sweep.

Pure. Source: spec/seeing.md 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turngraph.replay.driver import ReplayedTurn
from turngraph.replay.source import RecordedSession
from turngraph.replay.survival import GRADES, Survival, evidence_survival


def survival_of(session: RecordedSession, turns: Sequence[ReplayedTurn]) -> Survival:
    """Grade the evidence of a replayed session."""
    calls = [call for turn in turns for call in turn.calls]
    return evidence_survival(session.turns, calls, [turn.trace for turn in turns])


def measures(turns: Sequence[ReplayedTurn], survival: Survival) -> dict[str, Any]:
    """Return the figures of a replay, plain values."""
    costs = [call for turn in turns for call in turn.trace.facts.get("calls") or ()]
    prompts = sorted(int(cost["prompt_tokens"]) for cost in costs)
    usd = [cost["usd"] for cost in costs]
    shares = survival.shares
    return {
        "turns": len(turns),
        "calls": len(costs),
        "promptTokensP50": _quantile(prompts, 0.5),
        "promptTokensP95": _quantile(prompts, 0.95),
        "promptTokensMax": prompts[-1] if prompts else 0,
        "promptTokensSum": sum(prompts),
        "compactions": _sum(turns, "compactions"),
        "flushes": _sum(turns, "flushes"),
        "overflows": _sum(turns, "overflows"),
        **{f"{what}Chars": shortened(turns, what) for what in ("trimmed", "cleared", "truncated")},
        "cacheRead": sum(int(cost["cache_read"]) for cost in costs),
        "cacheWrite": sum(int(cost["cache_write"]) for cost in costs),
        "uncached": sum(int(cost["uncached"]) for cost in costs),
        "outputTokens": sum(int(cost["output_tokens"]) for cost in costs),
        "usd": None if any(value is None for value in usd) else round(sum(usd), 6),
        "uses": len(survival.uses),
        "survival": round(survival.visible, 6),
        **{f"{grade}Share": round(shares[grade], 6) for grade in GRADES},
        "counterfactual": sum(turn.counterfactual for turn in turns),
        "errors": sum(bool(turn.trace.facts.get("error")) for turn in turns),
    }


def shortened(turns: Sequence[ReplayedTurn], what: str) -> int:
    """Return the characters of tool results that nodes took out of the working set, each time they first did so."""
    total = 0
    for turn in turns:
        for _, decision in turn.trace.decisions:
            if decision.what != what or decision.chars_before is None or decision.chars_after is None:
                continue
            total += max(0, decision.chars_before - decision.chars_after)
    return total


def _sum(turns: Sequence[ReplayedTurn], fact: str) -> int:
    return sum(int(turn.trace.facts.get(fact) or 0) for turn in turns)


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def mean_row(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one row for several transcripts under the same settings: sums, and survival weighted by uses."""
    uses = sum(int(row["uses"]) for row in rows)
    usd = [row["usd"] for row in rows]
    return {
        "usd": None if any(value is None for value in usd) else sum(usd),
        "survival": sum(row["survival"] * row["uses"] for row in rows) / uses if uses else 1.0,
        **{
            name: sum(int(row[name]) for row in rows)
            for name in (
                "promptTokensSum",
                "compactions",
                "flushes",
                "overflows",
                "clearedChars",
                "trimmedChars",
                "uses",
            )
        },
    }
