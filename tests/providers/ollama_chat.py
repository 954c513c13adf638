"""Ollama's chat on the wire: the shape of a request, and answers as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.providers.protocol_server import Answer, Body, Refusal, pieces
from turngraph.messages import compact_json

_KEYS = {"role", "content", "images", "tool_calls", "tool_call_id", "tool_name", "thinking"}
_AT = "2026-03-16T12:00:00Z"


class OllamaChat:
    """``POST /api/chat``."""

    name = "ollama"
    key_headers: tuple[str, ...] = ()

    def knows(self, path: str) -> bool:
        return path == "/api/chat"

    def streams(self, path: str, body: Body) -> bool:
        return body.get("stream", True) is True

    def problem(self, path: str, body: Body) -> str | None:
        return next(_problems(body), None)

    def texts(self, body: Body) -> Iterator[str]:
        for message in body["messages"]:
            yield message["content"] + compact_json(message.get("tool_calls") or [])

    def overflow(self, tokens: int, window: int, body: Body) -> Refusal | None:
        return None  # the real one cuts the prompt without a word

    def error(self, status: int, message: str, kind: str) -> Body:
        return {"error": message}

    def whole(self, answer: Answer, usage: tuple[int, int], number: int) -> Body:
        message: Body = {"role": "assistant", "content": answer.text}
        if answer.calls:
            message["tool_calls"] = [{"function": {"name": c.name, "arguments": c.arguments}} for c in answer.calls]
        return _line(message) | _end(answer, usage)

    def events(self, answer: Answer, usage: tuple[int, int], number: int) -> Iterator[bytes]:
        for piece in pieces(answer.text):
            yield _bytes(_line({"role": "assistant", "content": piece}))
        for call in answer.calls:
            function = {"name": call.name, "arguments": call.arguments}
            yield _bytes(_line({"role": "assistant", "content": "", "tool_calls": [{"function": function}]}))
        yield _bytes(_line({"role": "assistant", "content": ""}) | _end(answer, usage))


def _bytes(line: Body) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _line(message: Body) -> Body:
    return {"model": "llama-test", "created_at": _AT, "message": message, "done": False}


def _end(answer: Answer, usage: tuple[int, int]) -> Body:
    counts = {"prompt_eval_count": usage[0], "eval_count": usage[1]}
    return {"done": True, "done_reason": answer.stop or "stop", **counts}


def _problems(body: Body) -> Iterator[str]:
    if not body.get("model"):
        yield "model is required"
    for index, message in enumerate(body.get("messages") or ()):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield f"invalid role in message {index}"
        if unknown := message.keys() - _KEYS:
            yield f"unknown field {min(unknown)} in message {index}"
        if not isinstance(message.get("content"), str):
            yield f"json: cannot unmarshal content of message {index} into a string"
        for call in message.get("tool_calls") or ():
            if not isinstance(call["function"]["arguments"], dict):
                yield f"json: cannot unmarshal arguments of message {index}"
