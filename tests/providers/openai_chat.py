"""OpenAI's chat completions on the wire: its rules for a request, its answers, its errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.providers.protocol_server import Answer, Body, Call, Refusal, pieces, sse
from turngraph.messages import compact_json

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ROLES = ("system", "developer", "user", "assistant", "tool")
_IMAGE_TEXT = "image " * 1000  # about what a picture costs


class OpenAIChat:
    """``POST /v1/chat/completions``."""

    name = "openai"
    key_headers: tuple[str, ...] = ("authorization",)

    def knows(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def streams(self, path: str, body: Body) -> bool:
        return bool(body.get("stream"))

    def problem(self, path: str, body: Body) -> str | None:
        return next(_problems(body), None)

    def texts(self, body: Body) -> Iterator[str]:
        for tool in body.get("tools", ()):
            yield compact_json(tool["function"])
        for message in body["messages"]:
            content = message.get("content") or ""
            for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                yield part["text"] if part["type"] == "text" else _IMAGE_TEXT
            for call in message.get("tool_calls", ()):
                yield call["function"]["name"] + call["function"]["arguments"]

    def overflow(self, tokens: int, window: int, body: Body) -> Refusal | None:
        answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        if tokens + answer <= window:
            return None
        text = (
            f"This model's maximum context length is {window} tokens. However, you requested {tokens + answer} tokens "
            f"({tokens} in the messages, {answer} in the completion). Please reduce the length of the messages or "
            "completion."
        )
        return Refusal(text, kind="context_length_exceeded")

    def error(self, status: int, message: str, kind: str) -> Body:
        types = {400: "invalid_request_error", 401: "invalid_request_error", 429: "requests", 500: "server_error"}
        return {"error": {"message": message, "type": types.get(status), "param": "messages", "code": kind or None}}

    def whole(self, answer: Answer, usage: tuple[int, int], number: int) -> Body:
        message: Body = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [_call(call, index, number) for index, call in enumerate(answer.calls)]
        choice = {"index": 0, "message": message, "finish_reason": _reason(answer)}
        return _envelope(number, "chat.completion") | {"choices": [choice], "usage": _usage(answer, usage)}

    def events(self, answer: Answer, usage: tuple[int, int], number: int) -> Iterator[bytes]:
        yield _chunk(number, {"role": "assistant", "content": ""})
        for piece in pieces(answer.text):
            yield _chunk(number, {"content": piece})
        for index, call in enumerate(answer.calls):
            whole = _call(call, index, number)
            whole["function"]["arguments"] = ""
            yield _chunk(number, {"tool_calls": [{"index": index, **whole}]})
            for piece in pieces(call.text):
                yield _chunk(number, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield _chunk(number, {}, _reason(answer))
        yield sse(_envelope(number, "chat.completion.chunk") | {"choices": [], "usage": _usage(answer, usage)})
        yield sse("[DONE]")


def _envelope(number: int, kind: str) -> Body:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_773_000_000, "model": "gpt-test"}


def _chunk(number: int, delta: Body, reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return sse(_envelope(number, "chat.completion.chunk") | {"choices": [choice]})


def _call(call: Call, index: int, number: int) -> Body:
    call_id = call.id or f"call_{number:04}{index:04}aBcDeFgHiJkLmNoP"
    return {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.text}}


def _reason(answer: Answer) -> str:
    return answer.stop or ("tool_calls" if answer.calls else "stop")


def _usage(answer: Answer, usage: tuple[int, int]) -> Body:
    return {
        "prompt_tokens": usage[0],
        "completion_tokens": usage[1],
        "total_tokens": sum(usage),
        "prompt_tokens_details": {"cached_tokens": answer.cache_read},
    }


def _problems(body: Body) -> Iterator[str]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
        return
    for name in ("max_completion_tokens", "max_tokens"):
        if name in body and not (isinstance(body[name], int) and body[name] >= 1):
            yield f"Invalid '{name}': integer below minimum value. Expected a value >= 1."
    for tool in body.get("tools", ()):
        function = tool.get("function", {})
        if not _NAME.fullmatch(function.get("name", "")) or function.get("parameters", {}).get("type") != "object":
            yield "Invalid 'tools[0].function'"
    for index, message in enumerate(messages):
        yield from _of_message(index, message)
    yield from _pairs(messages)


def _of_message(index: int, message: Body) -> Iterator[str]:
    where, role, content = f"messages[{index}]", message.get("role"), message.get("content")
    if role not in _ROLES:
        yield f"Invalid value: '{role}'. Supported values are: {', '.join(_ROLES)}."
    if unknown := message.keys() - {"role", "content", "name", "tool_calls", "tool_call_id"}:
        yield f"Additional properties are not allowed ({unknown} was unexpected) - '{where}'"
    if content is None and not (role == "assistant" and message.get("tool_calls")):
        yield f"Invalid value for 'content': expected a string, got null. - '{where}'"
    if isinstance(content, list):
        if not content:
            yield f"Invalid '{where}.content': empty array."
        for part in content:
            yield from _of_part(where, role, part)
    if "tool_calls" in message:
        yield from _of_calls(where, message["tool_calls"])
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        yield f"Missing parameter 'tool_call_id': '{where}'"


def _of_part(where: str, role: Any, part: Body) -> Iterator[str]:
    kind = part.get("type")
    if kind == "text":
        if part.keys() != {"type", "text"} or not isinstance(part["text"], str):
            yield f"Invalid '{where}.content': a text part with other fields"
    elif kind == "image_url":
        if role != "user":
            yield f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user', not {role}."
        if not re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*$", part["image_url"]["url"]):
            yield f"Invalid '{where}.content': You uploaded an unsupported image."
    else:
        yield f"Invalid value: '{kind}'. Supported values are: 'text', 'image_url' ... - '{where}'"


def _of_calls(where: str, calls: Any) -> Iterator[str]:
    if not calls:
        yield f"Invalid '{where}.tool_calls': empty array."
    for call in calls:
        call_id, function = call.get("id"), call.get("function", {})
        if not isinstance(call_id, str) or not 1 <= len(call_id) <= 40:
            yield f"Invalid '{where}.tool_calls[0].id': string too long. Expected a string with maximum length 40."
        if not _NAME.fullmatch(function.get("name", "")):
            yield f"Invalid '{where}.tool_calls[0].function.name': string does not match pattern."
        if not isinstance(function.get("arguments"), str):
            yield f"Invalid type for '{where}.tool_calls[0].function.arguments': expected a string."


def _pairs(messages: list[Body]) -> Iterator[str]:
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                yield (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                    f"'tool_calls'. - 'messages[{index}]'"
                )
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield _unanswered(waiting)
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(waiting)) < len(waiting):
            yield f"Duplicate tool_call ids - 'messages[{index}]'"
    if waiting:
        yield _unanswered(waiting)


def _unanswered(waiting: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )
