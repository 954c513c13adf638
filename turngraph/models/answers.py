"""A model's answer in langchain's form as the assistant message of a transcript: blocks, calls, usage, stop reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from turngraph.messages import Message
from turngraph.models.content_parts import GEMINI_CALL_SIGNATURES, parts_in

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

# Providers' finish reasons, lower case -> Pi's stop reasons (spec/sessions.md 4.3).
STOP_REASONS: Mapping[str, str] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "tool_calls": "toolUse",
    "tool_use": "toolUse",
    "function_call": "toolUse",
    "refusal": "error",
    "content_filter": "error",
    "safety": "error",
    "prohibited_content": "error",
    "blocklist": "error",
    "recitation": "error",
    "malformed_function_call": "error",
}


def finish_reason(message: AIMessage) -> str | None:
    """Return why the provider says that the answer ended, ``None`` when it did not say."""
    metadata = message.response_metadata or {}
    for key in ("finish_reason", "stop_reason", "done_reason"):
        if metadata.get(key):
            return str(metadata[key])
    return None


def assistant_message(
    message: AIMessage, *, timestamp_ms: float, provider: str, model: str, api: str | None
) -> Message:
    """Convert a model's answer to the assistant message that a transcript holds, with usage and stop reason.

    Arguments of a call that are not JSON stay as the text that came, for the loop to read or to refuse.
    """
    calls = calls_of(message)
    reason = finish_reason(message) or "stop"
    stop = STOP_REASONS.get(reason.lower(), "stop")
    if calls and stop == "stop":
        stop = "toolUse"
    raw: dict[str, Any] = {
        "role": "assistant",
        "content": [*parts_in(message.content), *calls],
        "api": api or provider,
        "provider": provider,
        "model": model,
        "stopReason": stop,
        "timestamp": timestamp_ms,
    }
    if stop == "error":
        raw["errorMessage"] = f"the provider ended the answer: {reason}"
    usage = usage_of(message)
    return Message(raw | {"usage": usage} if usage else raw)


def calls_of(message: AIMessage) -> list[dict[str, Any]]:
    """Return the tool calls of an answer as blocks, in order."""
    signatures = message.additional_kwargs.get(GEMINI_CALL_SIGNATURES) or {}
    blocks = []
    for call_id, name, arguments in _calls(message):
        block = {"type": "toolCall", "id": call_id or "", "name": name or "", "arguments": arguments}
        signature = signatures.get(call_id)
        blocks.append(block | {"thoughtSignature": signature} if signature else block)
    return blocks


def _calls(message: AIMessage) -> list[tuple[str | None, str | None, Any]]:
    # The chunks of a stream are read here and not by langchain, which closes JSON that was cut off: a file would
    # be written with half of its text.
    chunks = getattr(message, "tool_call_chunks", None)
    if chunks:
        return [(chunk.get("id"), chunk.get("name"), _arguments(chunk.get("args"))) for chunk in chunks]
    whole = [(call.get("id"), call["name"], call["args"]) for call in message.tool_calls]
    return whole + [(call.get("id"), call.get("name"), call.get("args") or "") for call in message.invalid_tool_calls]


def _arguments(text: str | None) -> Any:
    if not text or not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text


def usage_of(message: AIMessage) -> dict[str, Any] | None:
    """Return the usage in Pi's form; ``input`` is what was read neither from the cache nor written to it."""
    counts = message.usage_metadata
    if not counts:
        return None
    details: Mapping[str, Any] = counts.get("input_token_details") or {}
    cache_read = int(details.get("cache_read") or 0)
    # Anthropic splits what it wrote by lifetime; langchain then leaves the sum at zero.
    by_lifetime = sum(int(details.get(f"ephemeral_{life}_input_tokens") or 0) for life in ("5m", "1h"))
    cache_write = int(details.get("cache_creation") or 0) or by_lifetime
    return {
        "input": max(0, int(counts["input_tokens"]) - cache_read - cache_write),
        "output": int(counts["output_tokens"]),
        "cacheRead": cache_read,
        "cacheWrite": cache_write,
        "totalTokens": int(counts["total_tokens"]),
    }
