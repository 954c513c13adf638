"""What a pass over the working set returns, and the two loops that most passes are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from turngraph.decisions import Decision, What
from turngraph.messages import Message, entry_ids

NODE = "sanitize"
Pass = Callable[["tuple[Message, ...]"], "Step"]
Rule = Callable[[Message], Message | None]


@dataclass(frozen=True, slots=True)
class Step:
    """The working set after a pass (the same tuple when nothing changed) and what was decided."""

    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.decisions)


def as_tuple(messages: Sequence[Message]) -> tuple[Message, ...]:
    return messages if isinstance(messages, tuple) else tuple(messages)


def each(
    messages: Sequence[Message],
    rule: Rule,
    why: str,
    *,
    roles: Iterable[str],
    what: What = "repaired",
    node: str = NODE,
) -> Step:
    """Apply ``rule`` to every message of ``roles``; ``None`` drops the message.

    Args:
        messages: the working set, oldest first.
        rule: returns the same object when there is nothing to do.
        why: the decision's sentence behind the count of touched messages.
        roles: roles that the rule is about.
        what, node: of the decision.
    """
    wanted = frozenset(roles)
    touched: list[Message] = []
    kept: list[Message] = []
    for message in messages:
        if message.raw.get("role") not in wanted:
            kept.append(message)
            continue
        changed = rule(message)
        if changed is not message:
            touched.append(message)
        if changed is not None:
            kept.append(changed)
    if not touched:
        return Step(as_tuple(messages))
    return Step(tuple(kept), (decide(what, f"{len(touched)} {why}", touched, len(messages), len(kept), node=node),))


def decide(what: What, why: str, touched: Iterable[Message], before: int, after: int, *, node: str = NODE) -> Decision:
    """Make the decision of a pass about the messages it touched."""
    return Decision(node, what, why, entry_ids(touched), count_before=before, count_after=after)


def chain(messages: Sequence[Message], *passes: Pass) -> Step:
    """Run passes one after the other and gather their decisions."""
    current = as_tuple(messages)
    decisions: list[Decision] = []
    for apply in passes:
        step = apply(current)
        current = step.messages
        decisions.extend(step.decisions)
    return Step(current, tuple(decisions))
