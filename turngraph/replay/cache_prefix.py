"""How much of a request the one before it had begun with already, and which decision ended the common beginning.

Pure. A provider's prompt cache serves what two consecutive requests share from the start; each break should have a
reason that the trace names. Source: issue "Context", cache stability; spec/context.md 3.2 and 6.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from turngraph.decisions import Decision, TurnTrace
from turngraph.models.model import ModelRequest
from turngraph.replay.calls import ModelCall, request_parts
from turngraph.replay.cost import Part, shared_prefix
from turngraph.tokens import Counter

# What takes the place of the history, or of its beginning, whatever entries it names.
_WHOLE_HISTORY = frozenset({"summarised", "limited", "reset"})
# Nodes that do the same to the same message in every turn.
_SAME_AGAIN = frozenset({"sanitize"})
# Nodes that make up what stands in front of the messages.
_FRONT = frozenset({"load_bootstrap", "prompt", "session_hooks"})


@dataclass(frozen=True, slots=True)
class Prefix:
    """What two consecutive requests share.

    Attributes:
        turn: of the later request, from 1; call: its number in the turn, from 1.
        shared_tokens: that both begin with. before_tokens, now_tokens: of each request.
        broken_at: where the later one leaves the earlier (``tools``, ``system`` or ``message N``, from 0); ``None``
            when it holds all of the earlier one and goes on.
        entry_ids: transcript entries of the messages that differ there.
        why: sentences of the decisions that explain the break; empty for one that nothing explains.
    """

    turn: int
    call: int
    shared_tokens: int
    before_tokens: int
    now_tokens: int
    broken_at: str | None = None
    entry_ids: tuple[str, ...] = ()
    why: tuple[str, ...] = ()

    @property
    def is_explained(self) -> bool:
        return self.broken_at is None or bool(self.why)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self)


def common_prefixes(calls: Sequence[ModelCall], traces: Sequence[TurnTrace], counter: Counter) -> tuple[Prefix, ...]:
    """Compare every request of a session with the one before it, oldest first.

    Args:
        calls: model calls of the session in order.
        traces: of its turns in order, the first of turn 1.
        counter: counts tokens.
    """
    found: list[Prefix] = []
    number = 1
    parts = [request_parts(call.request, counter) for call in calls]
    for (before, old), (now, new) in pairwise(zip(calls, parts, strict=True)):
        number = number + 1 if now.turn == before.turn else 1
        sizes = (sum(part.tokens for part in old), sum(part.tokens for part in new))
        figures = Prefix(now.turn, number, shared_prefix(old, new, counter), *sizes)
        earlier = _decisions(traces, before.turn) if now.turn != before.turn else ()
        found.append(
            _explained(figures, (before.request, old), (now.request, new), earlier, _decisions(traces, now.turn))
        )
    return tuple(found)


def _decisions(traces: Sequence[TurnTrace], turn: int) -> tuple[Decision, ...]:
    return tuple(decision for _, decision in traces[turn - 1].decisions)


_Taken = tuple[ModelRequest, Sequence[Part]]


def _explained(
    figures: Prefix, before: _Taken, now: _Taken, earlier: Sequence[Decision], decisions: Sequence[Decision]
) -> Prefix:
    (old_request, old), (request, new) = before, now
    place = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a.key != b.key), min(len(old), len(new)))
    if place == len(old):
        return figures
    front = len(new) - len(request.messages)
    if place < front:
        where = "tools" if place < len(request.tools) else "system"
        why = tuple(f"{decision.node}: {decision.why}" for decision in decisions if decision.node in _FRONT)
        return replace(figures, broken_at=where, why=why)
    index = place - front
    differing = [messages[index] for messages in (old_request.messages, request.messages) if index < len(messages)]
    ids = tuple(dict.fromkeys(m.origin.entry_id for m in differing if m.origin and m.origin.entry_id))
    why = tuple(_reasons(ids, earlier, decisions))
    return replace(figures, broken_at=f"message {index}", entry_ids=ids, why=why)


def _reasons(ids: Sequence[str], earlier: Sequence[Decision], decisions: Sequence[Decision]) -> Iterator[str]:
    """Tell which decisions made the messages ``ids`` look other than before.

    A repair that the turn before had made as well gives the same message again, so it explains nothing.
    """
    known = {(_kind(decision), entry_id) for decision in earlier for entry_id in decision.entry_ids}
    for decision in decisions:
        touched = [entry_id for entry_id in ids if entry_id in decision.entry_ids]
        if decision.what == "kept" or not (touched or decision.what in _WHOLE_HISTORY):
            continue
        # What joins or drops messages gives another message as soon as it takes in one more.
        about = touched if decision.count_before == decision.count_after else decision.entry_ids
        is_new = any((_kind(decision), entry_id) not in known for entry_id in about)
        if is_new or decision.node not in _SAME_AGAIN:
            yield f"{decision.node}: {decision.why}"


def _kind(decision: Decision) -> str:
    return f"{decision.node} {decision.what} {re.sub('[0-9]+', '', decision.why)}"


def stability(prefixes: Sequence[Prefix]) -> dict[str, Any]:
    """Return the figures of a session: tokens that were shared, breaks, and breaks that nothing explains."""
    before = sum(prefix.before_tokens for prefix in prefixes)
    breaks = [prefix for prefix in prefixes if prefix.broken_at is not None]
    return {
        "requests": len(prefixes) + 1 if prefixes else 0,
        "sharedTokens": sum(prefix.shared_tokens for prefix in prefixes),
        "sharedShare": round(sum(prefix.shared_tokens for prefix in prefixes) / before, 4) if before else 1.0,
        "breaks": len(breaks),
        "unexplained": sum(not prefix.is_explained for prefix in breaks),
    }
