"""cut_point: where the kept tail begins (spec/compaction.md 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stores.transcript_context import message_of, speaks
from stores.transcript_entries import Entry
from turngraph.messages import Message
from turngraph.tokens import Counter

_TURN_STARTS = frozenset({"user", "bashExecution", "custom", "branchSummary", "compactionSummary"})
_STOPS = frozenset({"compaction", "reset", "message"})  # entries that are not drawn into the kept tail


@dataclass(frozen=True, slots=True)
class Step:
    """An entry of the active path with the message it adds to the context, if any."""

    entry: Entry
    message: Message | None

    @property
    def may_be_first(self) -> bool:
        """Whether the kept tail may begin here: a tool result may not, it belongs to its call."""
        return self.message is not None and self.message.role != "toolResult"

    @property
    def starts_turn(self) -> bool:
        return self.message is not None and self.message.role in _TURN_STARTS

    @property
    def is_user(self) -> bool:
        return self.message is not None and self.message.role == "user"


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Where the kept tail begins.

    Attributes:
        first_kept: index of the first kept entry.
        turn_start: index of the entry that begins the turn which the cut splits; ``None`` when it splits none.
    """

    first_kept: int
    turn_start: int | None = None


def steps_of(entries: Sequence[Entry]) -> tuple[Step, ...]:
    """Pair entries of the active path with their messages; a compaction adds none here."""
    return tuple(Step(entry, message_of(entry) if speaks(entry) else None) for entry in entries)


def find_cut_point(
    steps: Sequence[Step], keep_tokens: int, counter: Counter, *, start: int = 0, end: int | None = None
) -> CutPoint:
    """Find the cut that keeps about ``keep_tokens`` of the steps ``[start, end)``, never between call and result.

    Entries that add no message and stand right before the cut are kept with it.
    """
    end = len(steps) if end is None else end
    allowed = [index for index in range(start, end) if steps[index].may_be_first]
    if not allowed:
        return CutPoint(start)
    reached = _budget_reached(steps, keep_tokens, counter, start, end)
    cut = allowed[0]
    if reached is not None:
        cut = next((index for index in allowed if index >= reached), allowed[-1])
    return cut_at(steps, cut, start)


def cut_at(steps: Sequence[Step], index: int, start: int = 0) -> CutPoint:
    """Make the cut at ``index``, taking along the settings entries before it."""
    while index > start and steps[index - 1].message is None and steps[index - 1].entry.type not in _STOPS:
        index -= 1
    if steps[index].is_user:
        return CutPoint(index)
    turn_start = find_turn_start(steps, index, start)
    return CutPoint(index, None if turn_start == index else turn_start)


def find_turn_start(steps: Sequence[Step], index: int, start: int = 0) -> int | None:
    """Return the nearest index at or before ``index`` that begins a turn."""
    return next((at for at in range(index, start - 1, -1) if steps[at].starts_turn), None)


def _budget_reached(steps: Sequence[Step], keep_tokens: int, counter: Counter, start: int, end: int) -> int | None:
    kept_tokens = 0
    for index in range(end - 1, start - 1, -1):
        message = steps[index].message
        if message is not None:
            kept_tokens += counter.message(message)
            if kept_tokens >= keep_tokens:
                return index
    return None
