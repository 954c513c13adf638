"""Messages to langchain-core and back.

What a langchain message cannot carry travels in ``additional_kwargs["turngraph"]``, so that the way there and back
loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turngraph.messages import TOOL_CALL_TYPES, Message, ToolCall, block_text

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

OURS = "turngraph"
STOP_REASONS = {  # provider finish reasons -> Pi's stop reasons (spec/sessions.md 4.3)
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "STOP": "stop",
    "length": "length",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
}


def to_langchain(messages: Iterable[Message]) -> list[BaseMessage]:
    """Convert messages that a provider accepts: user, assistant and toolResult roles.

    Raises:
        ValueError: another role; those are turned into user messages before a request.
    """
    return [_to_langchain(message) for message in messages]


def _to_langchain(message: Message) -> BaseMessage:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    carried = {OURS: {"raw": dict(message.raw)}}
    role = message.role
    if role == "user":
        return HumanMessage(content=_blocks_out(message), additional_kwargs=carried)
    if role == "assistant":
        calls = [_call_out(call) for call in message.tool_calls]
        return AIMessage(content=_blocks_out(message), tool_calls=calls, additional_kwargs=carried)
    if role == "toolResult":
        return ToolMessage(
            content=_blocks_out(message),
            tool_call_id=message.tool_call_id,
            name=message.tool_name or None,
            status="error" if message.is_error else "success",
            additional_kwargs=carried,
        )
    raise ValueError(f"a message of role {role!r} cannot be sent to a model; convert it to a user message first")


def _call_out(call: ToolCall) -> Any:
    return {"id": call.id, "name": call.name, "args": dict(call.arguments), "type": "tool_call"}


def _blocks_out(message: Message) -> str | list[str | dict[str, Any]]:
    content: list[str | dict[str, Any]] = []
    for block in message.blocks:
        kind = block.get("type")
        if kind == "text":
            content.append({"type": "text", "text": block_text(block)})
        elif kind == "image":
            content.append(
                {
                    "type": "image",
                    "source_type": "base64",
                    "data": block.get("data", ""),
                    "mime_type": block.get("mimeType", "image/png"),
                }
            )
        elif kind == "thinking":
            signature = block.get("thinkingSignature")
            if isinstance(signature, str) and signature:
                content.append({"type": "thinking", "thinking": block.get("thinking", ""), "signature": signature})
        elif kind == "redacted_thinking":
            content.append(dict(block))
    if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
        return str(content[0]["text"])
    return content if content else ""


def from_langchain(messages: Sequence[BaseMessage], timestamp_ms: float) -> list[Message]:
    """Convert langchain messages to ours; those that came from :func:`to_langchain` come back as they were."""
    return [_from_langchain(message, timestamp_ms) for message in messages]


def _from_langchain(message: BaseMessage, timestamp_ms: float) -> Message:
    from langchain_core.messages import AIMessage, ToolMessage

    carried = message.additional_kwargs.get(OURS)
    if isinstance(carried, Mapping) and isinstance(carried.get("raw"), Mapping):
        return Message(dict(carried["raw"]))
    if isinstance(message, AIMessage):
        return assistant_message(message, timestamp_ms=timestamp_ms, provider="langchain", model="unknown", api=None)
    if isinstance(message, ToolMessage):
        raw = {
            "role": "toolResult",
            "toolCallId": message.tool_call_id,
            "toolName": message.name or "unknown",
            "content": _blocks_in(message.content),
            "isError": message.status == "error",
            "timestamp": timestamp_ms,
        }
        return Message(raw)
    return Message({"role": "user", "content": _blocks_in(message.content), "timestamp": timestamp_ms})


def assistant_message(
    message: AIMessage, *, timestamp_ms: float, provider: str, model: str, api: str | None
) -> Message:
    """Convert a model's answer to the assistant message that a transcript holds, with usage and stop reason."""
    blocks = [block for block in _blocks_in(message.content) if block.get("type") not in TOOL_CALL_TYPES]
    calls = [
        {"type": "toolCall", "id": call.get("id") or "", "name": call["name"], "arguments": call["args"]}
        for call in message.tool_calls
    ]
    metadata = message.response_metadata or {}
    reason = str(metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason") or "stop")
    raw: dict[str, Any] = {
        "role": "assistant",
        "content": [*blocks, *calls],
        "api": api or provider,
        "provider": provider,
        "model": model,
        "stopReason": "toolUse" if calls else STOP_REASONS.get(reason, "stop"),
        "timestamp": timestamp_ms,
    }
    usage = _usage(message)
    if usage:
        raw["usage"] = usage
    return Message(raw)


def _usage(message: AIMessage) -> dict[str, Any] | None:
    counts = message.usage_metadata
    if not counts:
        return None
    details = counts.get("input_token_details") or {}
    cache_read = int(details.get("cache_read") or 0)
    cache_write = int(details.get("cache_creation") or 0)
    return {
        "input": max(0, int(counts["input_tokens"]) - cache_read - cache_write),
        "output": int(counts["output_tokens"]),
        "cacheRead": cache_read,
        "cacheWrite": cache_write,
        "totalTokens": int(counts["total_tokens"]),
    }


def _blocks_in(content: str | list[Any]) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [block for part in content if (block := _block_in(part)) is not None]


def _block_in(part: Any) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part} if part else None
    kind = part.get("type")
    if kind == "text":
        return {"type": "text", "text": part.get("text", "")} if part.get("text") else None
    if kind in ("thinking", "reasoning"):
        block = {"type": "thinking", "thinking": str(part.get("thinking") or part.get("reasoning") or "")}
        signature = part.get("signature")
        return block | {"thinkingSignature": signature} if signature else block
    if kind == "image":
        return {"type": "image", "data": part.get("data", ""), "mimeType": part.get("mime_type", "image/png")}
    if kind in ("tool_use", "tool_call", "input_json_delta"):
        return None
    return dict(part)
