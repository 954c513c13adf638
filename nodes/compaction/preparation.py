"""preparation: divide the visible history into what is folded into the summary and what stays in sight.

Everything visible is either folded or kept, nothing is in both (spec/compaction.md 2.3, known-faults 2.6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodes.compaction.cut_point import CutPoint, Step, cut_at, find_cut_point, steps_of
from nodes.compaction.file_lists import FileOperations, collect_file_operations, previous_file_operations
from nodes.compaction.settings import Limits
from stores.transcript_context import message_of, visible_entries
from stores.transcript_entries import Entry
from stores.transcript_tree import last_boundary
from turngraph.messages import Message, entry_ids
from turngraph.tokens import Counter, total

TOO_SMALL = "Nothing to compact (session too small)"
ALREADY_COMPACTED = "Already compacted"


@dataclass(frozen=True, slots=True)
class NotPrepared:
    """There is nothing to compact; ``reason`` says why, in words for the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a compaction will fold and keep.

    Attributes:
        first_kept_id: entry at which the kept tail begins.
        folded: messages for the summary, oldest first, without the beginning of a split turn.
        prefix: the folded beginning of a turn whose end is kept.
        kept: messages of the kept tail.
        cut_turns: messages of the last user turns that did not fit into the kept tail; they are folded too.
        previous_summary: the summary in force, which the new one continues.
        tokens_before: size of the visible context.
        files: files read and changed, the earlier summary's included.
    """

    first_kept_id: str
    folded: tuple[Message, ...]
    prefix: tuple[Message, ...]
    kept: tuple[Message, ...]
    cut_turns: tuple[Message, ...]
    previous_summary: str | None
    tokens_before: int
    files: FileOperations

    @property
    def all_folded(self) -> tuple[Message, ...]:
        return (*self.folded, *self.prefix)

    @property
    def replaced_ids(self) -> tuple[str, ...]:
        """Ids of the entries that the summary will stand for."""
        return entry_ids(self.all_folded)


def prepare_compaction(path: Sequence[Entry], limits: Limits, counter: Counter) -> Preparation | NotPrepared:
    """Plan the compaction of the active path, oldest entry first.

    The boundary is the first entry that the previous compaction kept, so that what it kept is folded or kept again.
    """
    boundary = last_boundary(path)
    previous = path[boundary] if boundary is not None and path[boundary].type == "compaction" else None
    steps = steps_of(path[_start(path, boundary) :])
    spoken_since = any(step.message for step in steps_of(path[(boundary or 0) + 1 :])) if previous else True
    if previous is not None and not spoken_since and previous.raw.get("fromHook") is True:
        return NotPrepared(ALREADY_COMPACTED)
    cut = _cut(steps, limits, counter)
    history_end = cut.first_kept if cut.turn_start is None else cut.turn_start
    folded = _messages(steps[:history_end])
    prefix = _messages(steps[history_end : cut.first_kept])
    if not folded and not prefix:
        return NotPrepared(TOO_SMALL if spoken_since else ALREADY_COMPACTED)
    return Preparation(
        first_kept_id=steps[cut.first_kept].entry.id,
        folded=folded,
        prefix=prefix,
        kept=_messages(steps[cut.first_kept :]),
        cut_turns=_cut_turns(steps, cut, limits.recent_turns),
        previous_summary=previous.text_field("summary") if previous else None,
        tokens_before=total(counter, [message_of(entry) for entry in visible_entries(path)]),
        files=_previous_files(previous) | collect_file_operations((*folded, *prefix)),
    )


def _start(path: Sequence[Entry], boundary: int | None) -> int:
    if boundary is None:
        return 0
    kept_id = path[boundary].text_field("firstKeptEntryId")
    return next((index for index in range(boundary) if path[index].id == kept_id), boundary + 1)


def _cut(steps: Sequence[Step], limits: Limits, counter: Counter) -> CutPoint:
    """Cut by size, then move back to keep as many of the last user turns whole as fit (design decision 1)."""
    cut = _behind_unsendable(steps, find_cut_point(steps, limits.keep_tokens, counter), limits, counter)
    fitting = cut.first_kept
    tail_tokens = 0
    turns = 0
    for index in range(len(steps) - 1, -1, -1):
        message = steps[index].message
        tail_tokens += counter.message(message) if message else 0
        if turns >= limits.recent_turns or tail_tokens > limits.recent_turn_tokens:
            break
        if steps[index].is_user:
            turns += 1
            fitting = min(fitting, index)
    return cut if fitting >= cut.first_kept else cut_at(steps, fitting)


def _behind_unsendable(steps: Sequence[Step], cut: CutPoint, limits: Limits, counter: Counter) -> CutPoint:
    """Move the cut behind a user message that alone is more than a request may hold: kept, no turn would fit again."""
    following = len(steps)
    for index in range(len(steps) - 1, cut.first_kept - 1, -1):
        step = steps[index]
        if step.is_user and step.message and counter.message(step.message) > limits.threshold_tokens:
            return cut_at(steps, following) if following < len(steps) else cut
        following = index if step.may_be_first else following
    return cut


def _cut_turns(steps: Sequence[Step], cut: CutPoint, recent_turns: int) -> tuple[Message, ...]:
    starts = [index for index, step in enumerate(steps) if step.is_user][-recent_turns:] if recent_turns else []
    return _messages(steps[starts[0] : cut.first_kept]) if starts else ()


def _messages(steps: Sequence[Step]) -> tuple[Message, ...]:
    return tuple(step.message for step in steps if step.message is not None)


def _previous_files(previous: Entry | None) -> FileOperations:
    if previous is None:
        return FileOperations()
    return previous_file_operations(previous.raw.get("details"), from_hook=previous.raw.get("fromHook") is True)
