"""What a pass over the working set returns, and the walk that applies rules message by message."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from turngraph.decisions import Decision, What
from turngraph.history import as_history, places, replaced
from turngraph.messages import Message, entry_ids

NODE = "sanitize"
Pass = Callable[["tuple[Message, ...]"], "Step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The working set after a pass (the same tuple when nothing changed) and what was decided."""

    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()


def as_tuple(messages: Sequence[Message]) -> tuple[Message, ...]:
    return messages if isinstance(messages, tuple) else tuple(messages)


@dataclass(frozen=True, slots=True)
class Rule:
    """A repair of one message that looks at no other.

    Attributes:
        apply: returns the same object when there is nothing to do, ``None`` to drop the message.
        roles: roles it is about.
        why: the decision's sentence, behind the count of touched messages.
        what: of the decision; ``None`` for what no model is sent, which is not worth one.
    """

    apply: Callable[[Message], Message | None]
    roles: frozenset[str]
    why: str
    what: What | None = "repaired"

    def __call__(self, messages: Sequence[Message]) -> Step:
        """Run this rule alone over a history."""
        asked = ((place, _ask(message, ((0, self),))) for place, message in enumerate(messages))
        return _walk(messages, (self,), {place: outcome for place, outcome in asked if outcome is not None})


_Outcome = tuple["Message | None", tuple[int, ...]]
_Numbered = Sequence[tuple[int, Rule]]


def _ask(message: Message, rules: _Numbered) -> _Outcome | None:
    """Return what becomes of a message, and the numbers of the rules that did it; ``None`` when it stays."""
    role = message.raw.get("role")
    current: Message | None = message
    numbers: list[int] = []
    for number, rule in rules:
        if role in rule.roles and (changed := rule.apply(current)) is not current:  # type: ignore[arg-type]
            numbers.append(number)
            current = changed
            if changed is None:
                break
    return (current, tuple(numbers)) if numbers else None


def _walk(
    messages: Sequence[Message], rules: Sequence[Rule], outcomes: Mapping[int, _Outcome], key: Hashable | None = None
) -> Step:
    if not outcomes:
        return Step(as_tuple(messages))
    touched: dict[int, list[Message]] = {}
    dropped: dict[int, int] = {}
    for place, (current, numbers) in outcomes.items():
        for number in numbers:
            touched.setdefault(number, []).append(messages[place])
        if current is None:
            dropped[numbers[-1]] = dropped.get(numbers[-1], 0) + 1
    decisions = (_decision(rules[n], touched[n], len(messages), dropped.get(n, 0)) for n in sorted(touched))
    changes = {place: current for place, (current, _) in outcomes.items()}
    return Step(
        replaced(messages, changes, key or rules), tuple(decision for decision in decisions if decision is not None)
    )


def _decision(rule: Rule, touched: Sequence[Message], before: int, dropped: int) -> Decision | None:
    if rule.what is None:
        return None
    return decide(rule.what, f"{len(touched)} {rule.why}", touched, before, before - dropped)


class Rules:
    """Rules applied in their order to every message, in one walk; one decision for each rule that did anything.

    What they make of a message is one of its facts, and which messages they touch is one of a history's, so that a
    history which is prepared again before every model call costs a look at what is new. Keep the object to profit.

    Args:
        rules: in their order.
        is_plain: tells of a message that no rule would change, so that none is asked.
    """

    def __init__(self, *rules: Rule, is_plain: Callable[[Message], bool] = lambda _message: False) -> None:
        self._rules = rules
        self._is_plain = is_plain
        self._touched = places(lambda message: message.fact(self, self._outcome) is not None)
        self._by_role: dict[object, list[tuple[int, Rule]]] = {}
        for number, rule in enumerate(rules):
            for role in rule.roles:
                self._by_role.setdefault(role, []).append((number, rule))

    def __call__(self, messages: Sequence[Message]) -> Step:
        outcomes = ((place, messages[place].fact(self, self._outcome)) for place in self._touched(messages))
        return _walk(messages, self._rules, {place: o for place, o in outcomes if o is not None}, key=self)

    def _outcome(self, message: Message) -> _Outcome | None:
        rules = self._by_role.get(message.raw.get("role"))
        return None if not rules or self._is_plain(message) else _ask(message, rules)


def decide(what: What, why: str, touched: Iterable[Message], before: int, after: int, *, node: str = NODE) -> Decision:
    """Make the decision of a pass about the messages it touched."""
    return Decision(node, what, why, entry_ids(touched), count_before=before, count_after=after)


def chain(messages: Sequence[Message], *passes: Pass) -> Step:
    """Run passes one after the other and gather their decisions."""
    begun = current = as_history(messages)
    decisions: list[Decision] = []
    for apply in passes:
        step = apply(current)
        current = as_history(step.messages)
        decisions.extend(step.decisions)
    return Step(as_tuple(messages) if current is begun else current, tuple(decisions))
