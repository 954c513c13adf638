"""What a model would see of a session: the messages of the visible entries, and the settings that are in force.

Everything here is pure: entries in, values out.
Source: spec/sessions.md section 4.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stores.transcript_entries import Entry
from stores.transcript_tree import last_boundary
from turngraph.decisions import Origin
from turngraph.history import History
from turngraph.messages import Message

DEFAULT_THINKING_LEVEL = "off"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the entries of a path set: thinking level and model; ``None`` where none of them does."""

    thinking_level: str | None = None
    model: tuple[str, str] | None = None

    def over(self, older: Settings) -> Settings:
        """Return these settings, completed from older ones."""
        return Settings(self.thinking_level or older.thinking_level, self.model or older.model)


LookedUp = tuple[Settings, str | None]


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What a model would see of a session.

    Attributes:
        messages: oldest first; a compaction's summary comes first. The same objects from call to call.
        compaction: the compaction in force.
        lookup: finds settings and session name. They may lie before the part of the file that was read, so they are
            looked for when asked; ask before the next append.
    """

    messages: History
    compaction: Entry | None
    lookup: Callable[[], LookedUp]

    @property
    def thinking_level(self) -> str:
        return self.lookup()[0].thinking_level or DEFAULT_THINKING_LEVEL

    @property
    def model(self) -> tuple[str, str] | None:
        """Provider and model id of the last answer or model change."""
        return self.lookup()[0].model

    @property
    def name(self) -> str | None:
        """The name that the user gave the session."""
        return self.lookup()[1]


def settings_of(path: Iterable[Entry]) -> Settings:
    """Read thinking level and model off a path, oldest first; the last one wins."""
    thinking_level: str | None = None
    model: tuple[str, str] | None = None
    for entry in path:
        if entry.type == "thinking_level_change":
            thinking_level = entry.text_field("thinkingLevel") or thinking_level
        else:
            model = model_of(entry) or model
    return Settings(thinking_level, model)


def model_of(entry: Entry) -> tuple[str, str] | None:
    """Return the model that an entry sets: a model change, or the answer of a model."""
    if entry.type == "model_change":
        provider, model = entry.raw.get("provider"), entry.raw.get("modelId")
    elif (message := entry.message) is not None and message.get("role") == "assistant":
        provider, model = message.get("provider"), message.get("model")
    else:
        return None
    return (provider, model) if isinstance(provider, str) and isinstance(model, str) else None


def name_of(raw: Mapping[str, Any]) -> str | None:
    """Return the session name that an entry gives, ``None`` when it gives none."""
    name = raw.get("name") if raw.get("type") == "session_info" else None
    return name.strip() or None if isinstance(name, str) else None


def visible_entries(path: Sequence[Entry]) -> tuple[Entry, ...]:
    """Select the entries of a path that speak to the model, in the order in which they do.

    A compaction comes first as its summary, then what it kept, then what came after it. A reset has no summary
    and keeps user messages, answers and results that have their call. Earlier boundaries say nothing.
    """
    at = last_boundary(path)
    if at is None:
        return tuple(entry for entry in path if speaks(entry))
    boundary = path[at]
    kept_id = boundary.text_field("firstKeptEntryId")
    start = next((i for i in range(at) if path[i].id == kept_id), at)
    kept = [entry for entry in path[start:at] if speaks(entry)]
    after = [entry for entry in path[at + 1 :] if speaks(entry)]
    if boundary.type == "reset":
        return (*_kept_by_reset(kept), *after)
    return (boundary, *kept, *after)


def speaks(entry: Entry) -> bool:
    """Tell whether an entry (boundaries aside) adds a message to the context."""
    if entry.type == "message":
        message = entry.message
        return message is not None and message.get("excludeFromContext") is not True
    return entry.type == "custom_message" or (
        entry.type == "branch_summary" and entry.text_field("summary") is not None
    )


def _kept_by_reset(entries: Sequence[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    open_calls: set[str] = set()
    for entry in entries:
        if entry.message is None:
            continue
        message = Message(entry.message)
        if message.role == "assistant":
            open_calls |= {call.id for call in message.tool_calls}
        elif message.role == "toolResult":
            if message.tool_call_id not in open_calls:
                continue
            open_calls.discard(message.tool_call_id)
        elif message.role != "user":
            continue
        kept.append(entry)
    return kept


def message_of(entry: Entry, replaced: tuple[str, ...] = ()) -> Message:
    """Make the message that an entry adds to the context.

    Args:
        entry: one of :func:`visible_entries`.
        replaced: for a compaction, the ids of the entries its summary stands for, where known.
    """
    raw = entry.raw
    if entry.type == "compaction":
        summary = {
            "role": "compactionSummary",
            "summary": raw.get("summary", ""),
            "tokensBefore": raw.get("tokensBefore"),
            "timestamp": entry.at_ms,
        }
        return Message(summary, Origin("summary", entry_id=entry.id, replaced=replaced))
    origin = Origin("entry", entry_id=entry.id)
    if entry.type == "branch_summary":
        branch = {"role": "branchSummary", "summary": raw.get("summary"), "fromId": raw.get("fromId")}
        return Message(branch | {"timestamp": entry.at_ms}, origin)
    if entry.type == "custom_message":
        custom: dict[str, Any] = {"role": "custom"}
        custom |= {key: raw[key] for key in ("customType", "content", "display", "details") if key in raw}
        return Message(custom | {"timestamp": entry.at_ms}, origin)
    return Message(_with_blocks(entry.message or {}), origin)


def _with_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read plain text of an answer or a tool result as one text block (spec/sessions.md 4.3)."""
    content = message.get("content")
    if isinstance(content, str) and message.get("role") in ("assistant", "toolResult"):
        return {**message, "content": [{"type": "text", "text": content}]}
    return message


def replaced_by(path: Sequence[Entry]) -> tuple[str, ...]:
    """Return the ids of the path's entries that the last compaction's summary stands for."""
    at = last_boundary(path)
    if at is None:
        return ()
    kept_id = path[at].text_field("firstKeptEntryId")
    end = next((i for i in range(at) if path[i].id == kept_id), at)
    return tuple(entry.id for entry in path[:end])
