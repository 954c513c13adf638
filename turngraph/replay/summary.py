"""What a replay did, as numbers: one row a turn, and the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from turngraph.decisions import QUIET, acting_nodes
from turngraph.replay.cost import Payoff
from turngraph.replay.driver import ReplayedTurn


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One line of the table.

    Attributes:
        number: turn, from 1. tokens_in: visible history that the turn began with.
        tokens_out: prompt of the last model call. decided: nodes that changed something, in order.
        calls: model calls. error: what went wrong, if anything.
        compactions, flushes: done in the turn. usd: of all its calls under the cost model, where a price is known.
    """

    number: int
    tokens_in: int
    tokens_out: int
    calls: int
    decided: tuple[str, ...]
    counterfactual: bool
    error: str | None
    compactions: int = 0
    flushes: int = 0
    usd: float | None = None


def turn_row(turn: ReplayedTurn) -> TurnRow:
    """Return the table line of a replayed turn."""
    trace = turn.trace
    loaded = next((run.tokens_out for run in trace.nodes if run.node == "load_history"), None)
    usd = [call["usd"] for call in trace.facts.get("calls") or ()]
    return TurnRow(
        number=turn.recorded.number,
        tokens_in=loaded or 0,
        tokens_out=int(trace.facts.get("prompt_tokens") or 0),
        calls=int(trace.facts.get("model_calls") or 0),
        decided=acting_nodes(decision for _, decision in trace.decisions),
        counterfactual=turn.counterfactual,
        error=trace.facts.get("error"),
        compactions=int(trace.facts.get("compactions") or 0),
        flushes=int(trace.facts.get("flushes") or 0),
        usd=None if not usd or any(value is None for value in usd) else sum(usd),
    )


def write_turns(rows: Sequence[TurnRow], path: Path) -> None:
    """Write the table of turns as Parquet.

    Raises:
        OSError: the file cannot be written.
    """
    import pyarrow as pa

    from stores.traces.tables import write_table

    kinds = {"int": pa.int64(), "bool": pa.bool_(), "str | None": pa.string(), "float | None": pa.float64()}
    columns = [pa.field(f.name, kinds.get(str(f.type), pa.list_(pa.string()))) for f in fields(TurnRow)]
    records = [{**asdict(row), "decided": list(row.decided)} for row in rows]
    write_table(pa.Table.from_pylist(records, schema=pa.schema(columns)), path)


def summarise(turns: Sequence[ReplayedTurn]) -> Mapping[str, Any]:
    """Return the figures of a whole replay, plain JSON values."""
    rows = [turn_row(turn) for turn in turns]
    acts: Counter[str] = Counter()
    for turn in turns:
        acts.update(f"{d.node}: {d.what}" for _, d in turn.trace.decisions if d.what not in QUIET)
    prompts = sorted(row.tokens_out for row in rows)
    return {
        "turns": len(rows),
        "modelCalls": sum(row.calls for row in rows),
        "compactions": sum(int(turn.trace.facts.get("compactions") or 0) for turn in turns),
        "flushes": sum(int(turn.trace.facts.get("flushes") or 0) for turn in turns),
        "summaries": dict(sorted(_makers(turns).items())),
        "overflows": sum(int(turn.trace.facts.get("overflows") or 0) for turn in turns),
        "counterfactual": sum(row.counterfactual for row in rows),
        "errors": sum(row.error is not None for row in rows),
        "promptTokens": {
            "p50": prompts[len(prompts) // 2] if prompts else 0,
            "max": prompts[-1] if prompts else 0,
            "sum": sum(prompts),
        },
        "decisions": dict(sorted(acts.items())),
    }


def _makers(turns: Sequence[ReplayedTurn]) -> Counter[str]:
    """Count the summaries by who made them: the record, a model, or an extract where the record has none."""
    return Counter(
        str(decision.data["maker"])
        for turn in turns
        for _, decision in turn.trace.decisions
        if decision.what == "summarised" and "maker" in decision.data
    )


def pruning_summary(weighed: Sequence[Payoff]) -> Mapping[str, Any]:
    """Return how many prunings paid, and what they saved and spent."""
    return {
        "prunings": len(weighed),
        "paid": sum(one.paid for one in weighed),
        "savedUsd": round(sum(one.saved_usd for one in weighed), 6),
        "spentUsd": round(sum(one.spent_usd for one in weighed), 6),
    }
