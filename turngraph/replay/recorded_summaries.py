"""Summaries on record: which one stands for a compaction of the replay, and which turns only made ready for one.

Pure. Source: spec/seeing.md 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nodes.silent import SILENT_TOKEN
from stores.transcript_entries import Entry
from turngraph.messages import Message

# A flush names the note of a day, and the answer for nothing to note; the words around them differ by release.
_DAY_NOTE = re.compile(r"memory/(?:\d{4}-\d{2}-\d{2}|YYYY-MM-DD)\.md")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a kept tail begins. Ids differ between record and working copy, what was said and when does not."""

    role: str
    timestamp_ms: float | None
    text: str
    calls: tuple[str, ...]

    @classmethod
    def of(cls, message: Message) -> Place:
        """Return the place of a message; a tool result is known by its call, since results are stamped anew."""
        if message.role == "toolResult":
            return cls(message.role, None, "", (message.tool_call_id,))
        return cls(message.role, message.timestamp_ms, message.text, tuple(call.id for call in message.tool_calls))


def recorded_summaries(branch: Sequence[Entry], message_of: Callable[[Entry], Message]) -> Mapping[Place, str]:
    """Return the summaries of a recorded branch by the first message that each compaction kept; the newest counts."""
    positions = {entry.id: position for position, entry in enumerate(branch)}
    found: dict[Place, str] = {}
    for at, entry in enumerate(branch):
        summary, kept_id = entry.text_field("summary"), entry.text_field("firstKeptEntryId")
        if entry.type != "compaction" or summary is None or kept_id not in positions:
            continue
        tail = (kept for kept in branch[positions[kept_id] : at] if kept.type == "message")
        if (first := next(tail, None)) is not None:
            found[Place.of(message_of(first))] = summary
    return found


def is_flush(user: Message) -> bool:
    """Return whether a user message of the record only asked to note things before a compaction."""
    return SILENT_TOKEN in user.text and _DAY_NOTE.search(user.text) is not None
