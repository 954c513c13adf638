"""branch: what of an abandoned branch goes into the summary of it (spec/compaction.md 2.7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodes.compaction.cut_point import steps_of
from nodes.compaction.file_lists import FileOperations, collect_file_operations, previous_file_operations
from stores.transcript_context import message_of
from stores.transcript_entries import Entry
from turngraph.messages import Message
from turngraph.tokens import Counter

NEARLY_FULL_RATIO = 0.9  # below it a summary that overflows the budget is still taken


@dataclass(frozen=True, slots=True)
class Branch:
    """Messages of an abandoned branch that fit the budget, oldest first, their size, and all its files."""

    messages: tuple[Message, ...]
    tokens: int
    files: FileOperations


def prepare_branch(entries: Sequence[Entry], budget_tokens: int, counter: Counter) -> Branch:
    """Take the newest messages of a branch within ``budget_tokens`` (0: no limit); tool results are left out."""
    files = FileOperations()
    for entry in entries:
        if entry.type == "branch_summary":
            from_hook = entry.raw.get("fromHook") is True
            files |= previous_file_operations(entry.raw.get("details"), from_hook=from_hook)
    taken: list[Message] = []
    tokens = 0
    for step in reversed(steps_of(entries)):
        message = message_of(step.entry) if step.entry.type == "compaction" else step.message
        if message is None or message.role == "toolResult":
            continue
        size = counter.message(message)
        if budget_tokens and tokens + size > budget_tokens:
            is_summary = step.entry.type in ("compaction", "branch_summary")
            if is_summary and tokens < budget_tokens * NEARLY_FULL_RATIO:
                taken.append(message)
                tokens += size
            break
        taken.append(message)
        tokens += size
    every = [step.message for step in steps_of(entries) if step.message is not None]
    return Branch(tuple(reversed(taken)), tokens, files | collect_file_operations(every))
