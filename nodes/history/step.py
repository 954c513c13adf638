"""What a pass over the working set returns, and the walk that applies rules message by message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from turngraph.decisions import Decision, What
from turngraph.messages import Message, entry_ids

NODE = "sanitize"
Pass = Callable[["tuple[Message, ...]"], "Step"]


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A repair of one message that looks at no other.

    Attributes:
        apply: returns the same object when there is nothing to do, ``None`` to drop the message.
        roles: roles it is about.
        why: the decision's sentence, behind the count of touched messages.
        what: of the decision.
    """

    apply: Callable[[Message], Message | None]
    roles: frozenset[str]
    why: str
    what: What = "repaired"

    def __call__(self, messages: Sequence[Message]) -> Step:
        """Run this rule alone over a history."""
        return rewrite(messages, (self,))


def rewrite(
    messages: Sequence[Message], rules: Sequence[Rule], is_plain: Callable[[Message], bool] = lambda _message: False
) -> Step:
    """Apply ``rules`` in their order to every message, in one walk; one decision for each rule that did anything.

    ``is_plain`` tells of a message that no rule would change, so that none is asked.
    """
    by_role: dict[object, list[tuple[int, Callable[[Message], Message | None]]]] = {}
    for number, rule in enumerate(rules):
        for role in rule.roles:
            by_role.setdefault(role, []).append((number, rule.apply))
    touched: dict[int, list[Message]] = {}
    dropped: dict[int, int] = {}
    out: list[Message] = []
    for message in messages:
        if is_plain(message):
            out.append(message)
            continue
        current: Message | None = message
        for number, apply in by_role.get(message.raw.get("role"), ()):
            changed = apply(current)  # type: ignore[arg-type]  # the loop ends when a rule drops the message
            if changed is not current:
                touched.setdefault(number, []).append(message)
                current = changed
                if changed is None:
                    dropped[number] = dropped.get(number, 0) + 1
                    break
        if current is not None:
            out.append(current)
    if not touched:
        return Step(as_tuple(messages))
    return Step(
        tuple(out), tuple(_decision(rules[n], touched[n], len(messages), dropped.get(n, 0)) for n in sorted(touched))
    )


def _decision(rule: Rule, touched: Sequence[Message], before: int, dropped: int) -> Decision:
    return decide(rule.what, f"{len(touched)} {rule.why}", touched, before, before - dropped)


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
