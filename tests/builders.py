"""Short builders for messages, so that a history fits on a screen."""

from __future__ import annotations

from typing import Any

from turngraph.decisions import Origin
from turngraph.messages import Message

_STEP_MS = 1000
START_MS = 1_772_000_000_000


def _message(raw: dict[str, Any], entry: str | None, at: int | None) -> Message:
    raw = {**raw, "timestamp": START_MS if at is None else START_MS + at * _STEP_MS}
    return Message(raw, Origin("entry", entry_id=entry) if entry else None)


def user(
    content: str | list[dict[str, Any]], *, entry: str | None = None, at: int | None = None, **fields: Any
) -> Message:
    """A user message."""
    return _message({"role": "user", "content": content, **fields}, entry, at)


def assistant(
    *content: str | dict[str, Any],
    stop: str = "stop",
    entry: str | None = None,
    at: int | None = None,
    provider: str = "anthropic",
    model: str = "claude-test",
    **fields: Any,
) -> Message:
    """An assistant message; texts become text blocks, dicts (see :func:`call`, :func:`thinking`) stand as they are."""
    blocks = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    raw = {"role": "assistant", "content": blocks, "provider": provider, "model": model, "stopReason": stop, **fields}
    return _message(raw, entry, at)


def call(call_id: str, name: str = "read", **arguments: Any) -> dict[str, Any]:
    """A tool-call block."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def thinking(text: str, signature: str | None = None) -> dict[str, Any]:
    """A thinking block."""
    block = {"type": "thinking", "thinking": text}
    return block | {"thinkingSignature": signature} if signature else block


def result(
    call_id: str,
    content: str | list[dict[str, Any]] = "ok",
    name: str = "read",
    *,
    error: bool = False,
    entry: str | None = None,
    at: int | None = None,
    **fields: Any,
) -> Message:
    """A tool result."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    raw = {"role": "toolResult", "toolCallId": call_id, "toolName": name, "content": blocks, "isError": error, **fields}
    return _message(raw, entry, at)


def summary(text: str, *, entry: str | None = None, at: int | None = None, tokens_before: int = 0) -> Message:
    """A compaction summary as it stands in the working set."""
    return _message({"role": "compactionSummary", "summary": text, "tokensBefore": tokens_before}, entry, at)
