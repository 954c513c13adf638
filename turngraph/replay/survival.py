"""Evidence survival: was the source of what is used later still in sight of the model when it was used?

Pure: the record and the model calls of a replay in, grades out. Source: spec/seeing.md section 6, design decision 12.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from turngraph.decisions import TurnTrace
from turngraph.messages import Message
from turngraph.replay.calls import ModelCall
from turngraph.replay.earlier import EarlierSearch
from turngraph.replay.evidence import Item, evidence_text, items_in
from turngraph.replay.source import RecordedTurn
from turngraph.waterfall import TAKING

Grade = Literal["verbatim", "summary", "searchable", "gone"]
GRADES: tuple[Grade, ...] = ("verbatim", "summary", "searchable", "gone")
SEARCH_RESULTS = 6
DISTANCES = ((1, "1 turn"), (3, "2-3 turns"), (10, "4-10 turns"), (30, "11-30 turns"))
FARTHEST = "more than 30 turns"
LIMITS = (
    "Paraphrase is missed. A reference that was never made because its source was gone is not counted. "
    "The record assumes the recorded answers."
)


@dataclass(frozen=True, slots=True)
class Use:
    """One later use of something first seen earlier.

    Attributes:
        item: what was used. turn: where; first_turn, first_entry: where it was first seen in the record.
        grade: what the model had of it at that moment.
        removed_by: for ``gone``, the decision that took the source away, in words, where one can be named.
    """

    item: Item
    turn: int
    first_turn: int
    first_entry: str | None
    grade: Grade
    removed_by: str | None = None

    @property
    def distance(self) -> str:
        """How far back the source lies, in words."""
        turns = self.turn - self.first_turn
        return next((name for limit, name in DISTANCES if turns <= limit), FARTHEST)


@dataclass(frozen=True, slots=True)
class Survival:
    """All graded uses, and how many of the record's could not be played."""

    uses: tuple[Use, ...]
    unplayed: int = 0

    @property
    def shares(self) -> dict[Grade, float]:
        """Share of each grade, 0 to 1; all 0 where nothing was used."""
        return _shares(self.uses)

    @property
    def visible(self) -> float:
        """Share of uses whose source the model had word for word or in a summary; 1 where nothing was used."""
        if not self.uses:
            return 1.0
        return self.shares["verbatim"] + self.shares["summary"]

    def by(self, what: Literal["distance", "kind"]) -> dict[str, dict[Grade, float]]:
        """Return the shares by distance in turns, or by kind of item."""
        groups: dict[str, list[Use]] = defaultdict(list)
        for use in self.uses:
            groups[use.distance if what == "distance" else use.item.kind].append(use)
        return {name: _shares(uses) for name, uses in sorted(groups.items())}

    def as_json(self, gone: int = 100) -> dict[str, Any]:
        """Return the figures, with at most ``gone`` of the uses whose source was gone."""
        lost = [use for use in self.uses if use.grade == "gone"]
        return {
            "uses": len(self.uses),
            "unplayed": self.unplayed,
            "shares": {grade: round(share, 4) for grade, share in self.shares.items()},
            "byDistance": self.by("distance"),
            "byKind": self.by("kind"),
            "gone": [
                {
                    "item": use.item.text,
                    "kind": use.item.kind,
                    "turn": use.turn,
                    "firstTurn": use.first_turn,
                    "firstEntry": use.first_entry,
                    "removedBy": use.removed_by,
                }
                for use in lost[:gone]
            ],
            "limits": LIMITS,
        }


def _shares(uses: Sequence[Use]) -> dict[Grade, float]:
    counts = Counter(use.grade for use in uses)
    return {grade: counts[grade] / len(uses) if uses else 0.0 for grade in GRADES}


def evidence_survival(
    turns: Sequence[RecordedTurn], calls: Sequence[ModelCall], traces: Sequence[TurnTrace] = ()
) -> Survival:
    """Grade every later use of evidence.

    Args:
        turns: the record, oldest first.
        calls: the model calls of the replay, in order.
        traces: of the replay, to name what removed a source.
    """
    answered = {id(call.answer): index for index, call in enumerate(calls)}
    first_call: dict[int, int] = {}
    for number, call in enumerate(calls):
        first_call.setdefault(call.turn, number)
    evidence = _Evidence()
    sight = _Sight(calls, evidence)
    search = EarlierSearch()
    blame = _Blame(calls, traces, sight)
    first: dict[Item, tuple[int, str | None]] = {}
    uses: list[Use] = []
    unplayed = 0
    for turn in turns:
        for message in _in_order(turn):
            index: int | None = first_call.get(turn.number) if message is turn.user else answered.get(id(message))
            items = evidence.of(message)
            for item in sorted(items, key=lambda item: (item.text, item.kind)):
                seen = first.get(item)
                if seen is None or seen[0] >= turn.number or message.role == "toolResult":
                    continue
                if index is None:
                    unplayed += 1
                    continue
                grade = sight.grade(item, index, own=turn.user) or _found(search, item, calls[index].notes)
                removed = blame.of(item, index) if grade == "gone" else None
                uses.append(Use(item, turn.number, *seen, grade, removed))
            for item in items:
                first.setdefault(item, (turn.number, message.entry_id))
            search.add(message)
    return Survival(tuple(uses), unplayed)


def _found(search: EarlierSearch, item: Item, notes: Mapping[str, str]) -> Grade:
    """Return whether a search for ``item`` at that moment finds it in the first results."""
    search.take(notes)
    return "searchable" if any(item.text in hit.text for hit in search.find(item.text, SEARCH_RESULTS)) else "gone"


def _in_order(turn: RecordedTurn) -> Iterator[Message]:
    """Yield the messages of a turn as they were written: each answer before the results of its calls."""
    yield turn.user
    results = list(turn.results)
    for answer in turn.answers:
        yield answer
        wanted = {call.id for call in answer.tool_calls}
        yield from (result for result in results if result.tool_call_id in wanted)
        results = [result for result in results if result.tool_call_id not in wanted]
    yield from results


@dataclass(frozen=True, slots=True)
class _Window:
    """What a model call had in sight: message keys, and the texts that are no messages."""

    keys: frozenset[bytes]
    summaries: tuple[Message, ...]
    system: str


def _is_summary(message: Message) -> bool:
    return message.origin is not None and message.origin.kind == "summary"


class _Evidence:
    """The evidence in messages; the record and the replay hold the same texts in several messages."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[Item]] = {}

    def of(self, message: Message) -> frozenset[Item]:
        return message.fact("evidence", self._read)

    def _read(self, message: Message) -> frozenset[Item]:
        text = evidence_text(message)
        if text not in self._known:
            self._known[text] = items_in(text)
        return self._known[text]


class _Sight:
    """What each model call could see; messages that several requests share are read once."""

    def __init__(self, calls: Sequence[ModelCall], evidence: _Evidence) -> None:
        self._evidence = evidence
        self._holding: dict[Item, set[bytes]] = defaultdict(set)
        self._messages: dict[bytes, Message] = {}
        self._system: dict[str, frozenset[Item]] = {}
        self.windows = [self._window(call) for call in calls]

    def _window(self, call: ModelCall) -> _Window:
        said = {message.digest: message for message in call.request.messages if not _is_summary(message)}
        for key in said.keys() - self._messages.keys():
            self._messages[key] = said[key]
            for item in self._evidence.of(said[key]):
                self._holding[item].add(key)
        summaries = tuple(filter(_is_summary, call.request.messages))
        return _Window(frozenset(said), summaries, call.request.system)

    def grade(self, item: Item, index: int, own: Message) -> Grade | None:
        """Return what call ``index`` had of ``item``; the user's own message of this turn is no source."""
        window = self.windows[index]
        keys = [key for key in self._holding[item] & window.keys if not self._is_own(key, own)]
        if keys or self._in_system(item, window.system) or self._inside(item, window, own):
            return "verbatim"
        if any(item.text in message.text for message in window.summaries):
            return "summary"
        return None

    def holders(self, item: Item, index: int) -> list[Message]:
        """Return the messages of call ``index`` that hold ``item``."""
        return [self._messages[key] for key in self._holding[item] & self.windows[index].keys]

    def _inside(self, item: Item, window: _Window, own: Message) -> bool:
        """Return whether the item stands inside a larger one, as a file name inside a path does."""
        return any(
            item.text in text
            for key in window.keys
            for text in self._larger(key)
            if len(text) > len(item.text) and not self._is_own(key, own)
        )

    def _larger(self, key: bytes) -> tuple[str, ...]:
        return self._messages[key].fact("evidence texts", lambda m: tuple(item.text for item in self._evidence.of(m)))

    def _is_own(self, key: bytes, own: Message) -> bool:
        message = self._messages[key]
        return message.role == "user" and message.timestamp_ms == own.timestamp_ms and message.text == own.text

    def _in_system(self, item: Item, system: str) -> bool:
        if system not in self._system:
            self._system[system] = items_in(system)
        return item in self._system[system]


class _Blame:
    """Names the decision that took a source out of sight."""

    def __init__(self, calls: Sequence[ModelCall], traces: Sequence[TurnTrace], sight: _Sight) -> None:
        self._calls = calls
        self._sight = sight
        self._traces = {trace.turn: trace for trace in traces}

    def of(self, item: Item, index: int) -> str | None:
        """Return the decision after which ``item`` was not in sight of call ``index`` any more."""
        last = next((i for i in range(index - 1, -1, -1) if self._sight.holders(item, i)), None)
        if last is None:
            return "cut before the model first saw it"
        entries = {message.entry_id for message in self._sight.holders(item, last)}
        for turn in range(self._calls[last].turn, self._calls[index].turn + 1):
            trace = self._traces.get(turn)
            for _, decision in trace.decisions if trace else ():
                if decision.what in TAKING and entries & set(decision.entry_ids):
                    return f"turn {turn}, {decision.node} {decision.what}: {decision.why}"
        return None
