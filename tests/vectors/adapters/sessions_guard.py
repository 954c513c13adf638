"""The write guard as the session vectors see it: what is written, in short, and what is still pending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nodes.history.pairing import is_synthetic
from nodes.write_guard import Guarded, WriteRules, flush_pending, guard_write
from tests.vectors.runner import Case
from turngraph.messages import Message

TOPIC = "sessions"
NOW_MS = 1_700_000_000_000
_CAPPED = 'assistant toolCall id 1 read, then toolResult of 500000 x "z"'


def guarded_append(case: Case) -> Any:
    options = case.input["options"]
    blocked = options.get("blockRole")
    rules = WriteRules(
        allowed_tools=options.get("allowedToolNames"),
        synthetic_results=options.get("allowSynthetic") is not False,
        provenance=options.get("provenance"),
        on_write=lambda message: None if message.role == blocked else message,
    )
    pending: Mapping[str, str] = {}
    written: list[Message] = []

    def take(step: Guarded) -> None:
        nonlocal pending
        written.extend(step.writes)
        pending = step.pending

    for raw in _inputs(case.input["messages"]):
        take(guard_write(Message(raw), pending, rules, NOW_MS))
    before_end = list(pending)
    if options.get("flushAtEnd"):
        take(flush_pending(pending, rules, NOW_MS))
    return {"pendingBeforeEnd": before_end, "written": [_short(message) for message in written]}


def _inputs(messages: Any) -> list[dict[str, Any]]:
    if messages != _CAPPED:
        return list(messages)
    call = {"type": "toolCall", "id": "1", "name": "read", "arguments": {}}
    content = [{"type": "text", "text": "z" * 500_000}]
    return [
        {"role": "assistant", "content": [call], "stopReason": "toolUse"},
        {"role": "toolResult", "toolCallId": "1", "toolName": "read", "content": content, "isError": False},
    ]


def _short(message: Message) -> dict[str, Any]:
    raw = message.raw
    if message.role == "user":
        return {"role": "user", "provenance": raw.get("provenance")}
    if message.role == "assistant":
        return {"role": "assistant", "blocks": [_block_name(block) for block in message.blocks]}
    return {
        "role": message.role,
        "toolCallId": message.tool_call_id,
        "toolName": raw.get("toolName"),
        "isError": raw.get("isError"),
        "textLength": len(message.text),
        "synthetic": is_synthetic(message),
    }


def _block_name(block: Mapping[str, Any]) -> Any:
    return f"call:{block['id']}:{block['name']}" if block.get("type") == "toolCall" else block.get("type")


ADAPTERS: dict[str, Callable[[Case], Any]] = {"guarded_append": guarded_append}
