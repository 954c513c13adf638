"""What each pruning of a replay cost and saved, given the calls that really came after it.

Pure. Source: spec/seeing.md 7.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from turngraph.decisions import TurnTrace
from turngraph.replay.cache_prefix import Prefix
from turngraph.replay.calls import ModelCall
from turngraph.replay.cost import CallCost, Payoff, Prices, payoff
from turngraph.tokens import Counter

NODE = "prune"
TAKEN = frozenset({"trimmed", "cleared"})


def payoffs(
    calls: Sequence[ModelCall],
    prefixes: Sequence[Prefix],
    traces: Sequence[TurnTrace],
    prices: Prices | None,
    counter: Counter,
) -> tuple[Payoff, ...]:
    """Weigh every request that shows a tool result shorter than the request before it did, oldest first.

    Args:
        calls: model calls of the session in order; prefixes: of each consecutive pair of them.
        traces: of its turns; ``facts["calls"]`` are the costs of the calls in order.
        prices: of the model; without them nothing can be weighed.
        counter: counts tokens.
    """
    if prices is None:
        return ()
    costs = [CallCost(**cost) for trace in traces for cost in trace.facts.get("calls") or ()]
    pruned = {trace.turn: ids for trace in traces if (ids := _pruned_ids(trace))}
    return tuple(_weighed(calls, costs, prefixes, pruned, prices, counter))


def _pruned_ids(trace: TurnTrace) -> frozenset[str]:
    taken = (d for _, d in trace.decisions if d.node == NODE and d.what in TAKEN)
    return frozenset(entry_id for decision in taken for entry_id in decision.entry_ids)


def _weighed(
    calls: Sequence[ModelCall],
    costs: Sequence[CallCost],
    prefixes: Sequence[Prefix],
    pruned: dict[int, frozenset[str]],
    prices: Prices,
    counter: Counter,
) -> Iterator[Payoff]:
    for index, ((before, now), prefix) in enumerate(zip(pairwise(calls), prefixes, strict=True), start=1):
        ids = pruned.get(now.turn)
        removed, shortened = _removed(before, now, ids, counter) if ids else (0, frozenset())
        if removed <= 0:
            continue
        behind = max(0, prefix.before_tokens - prefix.shared_tokens - removed) if costs[index].warm else 0
        yield payoff(now.turn, removed, behind, _spared(calls, costs, index, shortened), prices)


def _removed(before: ModelCall, now: ModelCall, ids: frozenset[str], counter: Counter) -> tuple[int, frozenset[str]]:
    """Return the tokens by which messages of ``ids`` became shorter, and which of them did."""
    old = {m.entry_id: counter.message(m) for m in before.request.messages if m.entry_id in ids}
    fewer = {m.entry_id: old[m.entry_id] - counter.message(m) for m in now.request.messages if m.entry_id in old}
    shortened = {entry_id: tokens for entry_id, tokens in fewer.items() if entry_id and tokens > 0}
    return sum(shortened.values()), frozenset(shortened)


def _spared(
    calls: Sequence[ModelCall], costs: Sequence[CallCost], first: int, shortened: frozenset[str]
) -> list[CallCost]:
    """Return the calls from ``first`` on, as long as the shortened messages would have been in the prompt."""
    spared = []
    for call, cost in zip(calls[first:], costs[first:], strict=True):
        if not any(message.entry_id in shortened for message in call.request.messages):
            break
        spared.append(cost)
    return spared
