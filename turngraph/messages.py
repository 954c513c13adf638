"""Messages: one frozen type around the raw mapping of a transcript, with typed views.

The raw mapping is what the transcript holds, field for field; what we do not understand stays in it. Nothing
edits it: a policy that changes a message makes a new one with :meth:`Message.evolve`, and returns the same object
when nothing changed (design decision 16, spec/context.md section 0).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, TypeVar

import orjson

from turngraph.clock import to_ms
from turngraph.decisions import Origin

Block = Mapping[str, Any]
Raw = Mapping[str, Any]
Value = TypeVar("Value")

TOOL_CALL_TYPES = frozenset({"toolCall", "toolUse", "functionCall"})
TEXT_TYPES = frozenset({"text"})
THINKING_TYPES = frozenset({"thinking", "redacted_thinking"})

# Readers of Pi and OpenClaw transcripts recognise this text: spec/context.md 4.2.
MISSING_RESULT_TEXT = (
    "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
)
ZERO_USAGE: Mapping[str, Any] = {
    "input": 0,
    "output": 0,
    "cacheRead": 0,
    "cacheWrite": 0,
    "totalTokens": 0,
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of an assistant message; ``block`` is its index in the content list."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    block: int


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message of a transcript or of the working set.

    Attributes:
        raw: the mapping as it stands in the transcript; never edited.
        origin: where it came from.
        derived: whether a node changed it, so that it differs from what its origin holds.
    """

    raw: Raw
    origin: Origin | None = None
    derived: bool = False
    _known: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def fact(self, name: Hashable, compute: Callable[[Message], Value]) -> Value:
        """Return a fact about this message, computed once under that name: the mapping never changes."""
        known = self._known
        try:
            return known[name]  # type: ignore[no-any-return]
        except KeyError:
            value = known[name] = compute(self)
            return value

    @property
    def digest(self) -> bytes:
        """SHA-256 of the raw mapping."""
        return self.fact("sha256", _sha256)

    @property
    def role(self) -> str:
        role = self.raw.get("role")
        return role if isinstance(role, str) else ""

    @property
    def content(self) -> Any:
        """The content as it stands: text, a list of blocks, or something malformed."""
        return self.raw.get("content")

    @property
    def blocks(self) -> Sequence[Block]:
        """The content as blocks: plain text becomes one text block, malformed blocks are left out."""
        content = self.raw.get("content")
        if isinstance(content, list):
            for block in content:
                if not isinstance(block, dict):
                    return [block for block in content if isinstance(block, dict)]
            return content
        return [{"type": "text", "text": content}] if isinstance(content, str) else []

    @property
    def text(self) -> str:
        """All text blocks, joined by a newline."""
        content = self.raw.get("content")
        if isinstance(content, str):
            return content
        return "\n".join(block_text(block) for block in self.blocks if block.get("type") == "text")

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        if self.raw.get("role") != "assistant":
            return ()
        content = self.raw.get("content")
        if not isinstance(content, list):
            return ()
        calls = []
        for index, block in enumerate(content):
            if isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES:
                arguments = block.get("arguments", block.get("input"))
                calls.append(
                    ToolCall(
                        id=block["id"] if isinstance(block.get("id"), str) else "",
                        name=block["name"] if isinstance(block.get("name"), str) else "",
                        arguments=arguments if isinstance(arguments, dict) else {},
                        block=index,
                    )
                )
        return tuple(calls)

    @property
    def tool_call_id(self) -> str:
        """Of a tool result: the id of its call (``toolCallId``, else the legacy ``toolUseId``)."""
        for key in ("toolCallId", "toolUseId"):
            value = self.raw.get(key)
            if isinstance(value, str) and value:
                return value
        return ""

    @property
    def tool_name(self) -> str:
        value = self.raw.get("toolName")
        return value if isinstance(value, str) else ""

    @property
    def is_error(self) -> bool:
        return self.raw.get("isError") is True

    @property
    def stop_reason(self) -> str:
        value = self.raw.get("stopReason")
        return value if isinstance(value, str) else ""

    @property
    def usage(self) -> Mapping[str, Any] | None:
        value = self.raw.get("usage")
        return value if isinstance(value, dict) else None

    @property
    def timestamp_ms(self) -> float | None:
        value = self.raw.get("timestamp")
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def entry_id(self) -> str | None:
        """Id of the transcript entry it came from, if any."""
        return self.origin.entry_id if self.origin else None

    def evolve(self, *, drop: Iterable[str] = (), **changes: Any) -> Message:
        """Return a copy with ``changes`` to the raw mapping (``drop`` removes keys), marked as derived."""
        raw = dict(self.raw)
        for key in drop:
            raw.pop(key, None)
        raw.update(changes)
        return Message(raw, self.origin, derived=True)


def _sha256(message: Message) -> bytes:
    options = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
    try:
        data = orjson.dumps(message.raw, option=options, default=str)
    except TypeError:
        data = json.dumps(message.raw, sort_keys=True, default=str).encode()
    return sha256(data).digest()


def block_text(block: Block) -> str:
    """Return the text of a text block; a malformed one has none."""
    value = block.get("text")
    return value if isinstance(value, str) else ""


def entry_ids(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the transcript entry ids of ``messages``, without those that have none."""
    return tuple(message.origin.entry_id for message in messages if message.origin and message.origin.entry_id)


def compact_json(value: Any) -> str:
    """Write ``value`` as JavaScript's ``JSON.stringify`` does: no spaces, non-ASCII kept, 1.0 as 1."""
    plain = _javascript_numbers(value)
    try:
        return orjson.dumps(plain).decode()
    except TypeError:  # lone surrogates and integers beyond 64 bits, which JSON allows and orjson does not write
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))


def _javascript_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _javascript_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_javascript_numbers(item) for item in value]
    return value


def user_message(content: str | list[dict[str, Any]], at: datetime, **fields: Any) -> Message:
    """Make a user message as a transcript holds it."""
    return Message({"role": "user", "content": content, "timestamp": to_ms(at), **fields})


def text_block(text: str) -> dict[str, Any]:
    """Make a text block."""
    return {"type": "text", "text": text}


def tool_result_message(
    call: ToolCall,
    content: list[dict[str, Any]],
    at: datetime,
    *,
    is_error: bool = False,
    details: Mapping[str, Any] | None = None,
) -> Message:
    """Make the result message of ``call``."""
    raw: dict[str, Any] = {"role": "toolResult", "toolCallId": call.id, "toolName": call.name, "content": content}
    if details is not None:
        raw["details"] = dict(details)
    return Message(raw | {"isError": is_error, "timestamp": to_ms(at)})


def missing_result(call_id: str, name: str, timestamp_ms: float) -> Message:
    """Make the synthetic error result for a call that has none (spec/context.md 4.2)."""
    raw = {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name or "unknown",
        "content": [text_block(MISSING_RESULT_TEXT)],
        "details": {"openclawSyntheticMissingToolResult": True, "reason": "missing_tool_result"},
        "isError": True,
        "timestamp": timestamp_ms,
    }
    return Message(raw, Origin("synthetic", name="missing result"), derived=True)
