"""Anthropic's messages on the wire: its rules for a request, its answers, its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.providers.protocol_server import Answer, Body, Refusal, pieces, sse
from turngraph.messages import compact_json

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_IMAGE_TEXT = "image " * 1500
_MAX_IMAGE_BYTES = 5 * 1024 * 1024
_MAX_MARKS = 4
_KEYS = {
    "text": {"text"},
    "image": {"source"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
    "tool_use": {"id", "name", "input"},
    "tool_result": {"tool_use_id", "content", "is_error"},
}


class AnthropicMessages:
    """``POST /v1/messages``.

    Args:
        max_output: longest answer that the model gives.
        signatures: signatures that the server takes in thinking blocks; ``None`` takes any.
    """

    name = "anthropic"
    key_headers: tuple[str, ...] = ("authorization", "x-api-key")

    def __init__(self, max_output: int = 128_000, signatures: set[str] | None = None) -> None:
        self.max_output = max_output
        self.signatures = signatures

    def knows(self, path: str) -> bool:
        return path == "/v1/messages"

    def streams(self, path: str, body: Body) -> bool:
        return bool(body.get("stream"))

    def problem(self, path: str, body: Body) -> str | None:
        return next(self._problems(body), None)

    def texts(self, body: Body) -> Iterator[str]:
        for tool in body.get("tools", ()):
            yield compact_json(tool)
        system = body.get("system") or ""
        yield system if isinstance(system, str) else "".join(block["text"] for block in system)
        for message in body["messages"]:
            for block in _blocks(message):
                yield from _texts(block)

    def overflow(self, tokens: int, window: int, body: Body) -> Refusal | None:
        if tokens > window:
            return Refusal(f"prompt is too long: {tokens} tokens > {window} maximum")
        if tokens + body["max_tokens"] > window:
            return Refusal(
                f"input length and `max_tokens` exceed context limit: {tokens} + {body['max_tokens']} > {window}, "
                "decrease input length or `max_tokens` and try again"
            )
        return None

    def error(self, status: int, message: str, kind: str) -> Body:
        kinds = {
            400: "invalid_request_error",
            401: "authentication_error",
            403: "permission_error",
            404: "not_found_error",
            413: "request_too_large",
            429: "rate_limit_error",
            529: "overloaded_error",
        }
        return {"type": "error", "error": {"type": kind or kinds.get(status, "api_error"), "message": message}}

    def whole(self, answer: Answer, usage: tuple[int, int], number: int) -> Body:
        content: list[Body] = []
        if answer.thinking or answer.signature:
            content.append({"type": "thinking", "thinking": answer.thinking, "signature": answer.signature})
        if answer.text:
            content.append({"type": "text", "text": answer.text})
        for index, call in enumerate(answer.calls):
            content.append(_tool_use(call.id, call.name, index, number) | {"input": call.arguments})
        return _message(number) | {
            "content": content,
            "stop_reason": _reason(answer),
            "usage": _usage(answer, usage[0]) | {"output_tokens": usage[1]},
        }

    def events(self, answer: Answer, usage: tuple[int, int], number: int) -> Iterator[bytes]:
        started = _message(number) | {"content": [], "stop_reason": None, "usage": _usage(answer, usage[0])}
        yield _event("message_start", message=started)
        index = 0
        if answer.thinking or answer.signature:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(answer.thinking)]
            deltas.append({"type": "signature_delta", "signature": answer.signature})
            yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
            index += 1
        if answer.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
            yield from _block(index, {"type": "text", "text": ""}, deltas)
            index += 1
        for place, call in enumerate(answer.calls):
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(call.text)]
            yield from _block(index, _tool_use(call.id, call.name, place, number) | {"input": {}}, deltas)
            index += 1
        delta = {"stop_reason": _reason(answer), "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage=_usage(answer, usage[0]) | {"output_tokens": usage[1]})
        yield _event("message_stop")

    def _problems(self, body: Body) -> Iterator[str]:
        limit = body.get("max_tokens")
        if not isinstance(limit, int) or limit < 1:
            yield "max_tokens: Field required"
            return
        if limit > self.max_output:
            yield f"max_tokens: {limit} > {self.max_output}, which is the maximum allowed number of output tokens"
        messages = body.get("messages") or []
        if not messages:
            yield "messages: at least one message is required"
            return
        system = body.get("system")
        for block in system if isinstance(system, list) else ():
            if not block.get("text", "").strip():
                yield "system: text content blocks must be non-empty"
        if _marks(body) > _MAX_MARKS:
            yield f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided."
        yield from _roles(messages)
        for index, message in enumerate(messages):
            yield from self._content(index, message)
        yield from _pairs(messages)
        yield from _thinking_rules(body, messages)

    def _content(self, index: int, message: Body) -> Iterator[str]:
        where, blocks = f"messages.{index}", _blocks(message)
        if not blocks:
            yield f"{where}: all messages must have non-empty content except for the optional final assistant message"
        for place, block in enumerate(blocks):
            yield from self._of_block(f"{where}.content.{place}", message["role"], block)
        kinds = [block.get("type") for block in blocks]
        if "tool_result" in kinds and "tool_result" in kinds[len([k for k in kinds if k == "tool_result"]) :]:
            yield f"{where}: `tool_result` blocks must come first in the content"

    def _of_block(self, where: str, role: str, block: Body) -> Iterator[str]:
        kind = str(block.get("type"))
        if kind not in _KEYS:
            yield f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
            return
        if unknown := block.keys() - _KEYS[kind] - {"type", "cache_control"}:
            yield f"{where}.{kind}.{min(unknown)}: Extra inputs are not permitted"
        if kind == "text" and not block["text"].strip():
            yield f"{where}: text content blocks must contain non-whitespace text"
        if kind in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
            yield f"{where}: `{kind}` blocks can only be in `assistant` messages"
        if kind in ("tool_result", "image") and role != "user":
            yield f"{where}: `{kind}` blocks can only be in `user` messages"
        if kind == "thinking":
            yield from self._of_thinking(where, block)
        if kind == "tool_use":
            yield from _of_call(where, block)
        if kind == "tool_result":
            for part in block["content"] if isinstance(block.get("content"), list) else ():
                if part.get("type") not in ("text", "image") or "cache_control" in part:
                    yield f"{where}.content: Input tag does not match any of the expected tags"
        if kind == "image" and len(block["source"]["data"]) * 3 // 4 > _MAX_IMAGE_BYTES:
            yield f"{where}.image.source.base64: image exceeds 5 MB maximum"

    def _of_thinking(self, where: str, block: Body) -> Iterator[str]:
        signature = block.get("signature")
        if "cache_control" in block:
            yield f"{where}.thinking.cache_control: Extra inputs are not permitted"
        if not signature or (self.signatures is not None and signature not in self.signatures):
            yield f"{where}: Invalid `signature` in `thinking` block"


def _message(number: int) -> Body:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "stop_sequence": None,
    }


def _tool_use(call_id: str, name: str, index: int, number: int) -> Body:
    return {"type": "tool_use", "id": call_id or f"toolu_{number:06}_{index:02}", "name": name}


def _reason(answer: Answer) -> str:
    return answer.stop or ("tool_use" if answer.calls else "end_turn")


def _usage(answer: Answer, prompt: int) -> Body:
    return {
        "input_tokens": max(0, prompt - answer.cache_read - answer.cache_write),
        "cache_read_input_tokens": answer.cache_read,
        "cache_creation_input_tokens": answer.cache_write,
        "cache_creation": {"ephemeral_5m_input_tokens": answer.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 1,
    }


def _event(kind: str, **data: Any) -> bytes:
    return sse({"type": kind, **data}, kind)


def _block(index: int, start: Body, deltas: list[Body]) -> Iterator[bytes]:
    yield _event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _blocks(message: Body) -> list[Body]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _texts(block: Body) -> Iterator[str]:
    kind = block.get("type")
    if kind == "image":
        yield _IMAGE_TEXT
    elif kind == "tool_use":
        yield block["name"] + compact_json(block["input"])
    elif kind == "tool_result":
        content = block.get("content") or ""
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield from _texts(part)
    else:
        yield str(block.get("text") or block.get("thinking") or "")


def _marks(body: Body) -> int:
    system = body.get("system")
    marked = [block for block in (system if isinstance(system, list) else ()) if "cache_control" in block]
    marked += [block for message in body["messages"] for block in _blocks(message) if "cache_control" in block]
    return len(marked)


def _roles(messages: list[Body]) -> Iterator[str]:
    previous = "assistant"
    for index, message in enumerate(messages):
        if message["role"] not in ("user", "assistant"):
            yield f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if message["role"] == previous:
            what = 'first message must use the "user" role' if not index else "roles must alternate"
            yield f"messages.{index}: {what}"
        previous = message["role"]
    if previous == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _of_call(where: str, block: Body) -> Iterator[str]:
    if not _ID.fullmatch(str(block.get("id"))):
        yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not _NAME.fullmatch(str(block.get("name"))):
        yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: Input should be a valid dictionary"


def _pairs(messages: list[Body]) -> Iterator[str]:
    waiting: list[str] = []
    used: set[str] = set()
    for index, message in enumerate(messages):
        blocks = _blocks(message)
        answered = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        for call_id in answered:
            if call_id not in waiting:
                yield (
                    f"messages.{index}.content.0: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        if len(set(answered)) < len(answered):
            yield f"messages.{index}: each tool_use must have a single result"
        if missing := [call_id for call_id in waiting if call_id not in answered]:
            yield (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        if used.intersection(waiting) or len(set(waiting)) < len(waiting):
            yield f"messages.{index}: `tool_use` ids must be unique"
        used.update(waiting)


def _thinking_rules(body: Body, messages: list[Body]) -> Iterator[str]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return
    if not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`, which must be at least 1024"
    results = [block for block in _blocks(messages[-1]) if block.get("type") == "tool_result"]
    if results and len(messages) > 1:
        first = _blocks(messages[-2])[0].get("type")
        if first not in ("thinking", "redacted_thinking"):
            yield (
                f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
            )
