"""Gemini's generateContent on the wire: its rules for a request, its answers, its errors."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from tests.providers.protocol_server import Answer, Body, Refusal, pieces, sse
from turngraph.messages import compact_json

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_IMAGE_TEXT = "image " * 260
_DATA = ("text", "functionCall", "functionResponse", "inlineData")
# What the provider documents for a call of another origin; it is sent as it stands, not as base64.
_NO_SIGNATURE = "skip_thought_signature_validator"


class GeminiGenerate:
    """``POST /v1/models/<model>:generateContent`` and ``:streamGenerateContent``.

    Args:
        max_output: longest answer that the model gives.
        signatures: signatures that the server takes; ``None`` takes any that is base64.
    """

    name = "google_genai"
    key_headers: tuple[str, ...] = ("x-goog-api-key",)

    def __init__(self, max_output: int = 65_536, signatures: set[str] | None = None) -> None:
        self.max_output = max_output
        self.signatures = signatures

    def knows(self, path: str) -> bool:
        return re.fullmatch(r"/v1(beta)?/models/[^/:]+:(stream)?[gG]enerateContent(\?alt=sse)?", path) is not None

    def streams(self, path: str, body: Body) -> bool:
        return ":stream" in path

    def problem(self, path: str, body: Body) -> str | None:
        return next(self._problems(path, body), None)

    def texts(self, body: Body) -> Iterator[str]:
        for tool in body.get("tools", ()):
            yield compact_json(tool)
        for content in (body.get("systemInstruction") or {"parts": []}, *body["contents"]):
            for part in content["parts"]:
                if "inlineData" in part:
                    yield _IMAGE_TEXT
                elif "text" in part:
                    yield part["text"]
                else:
                    yield compact_json(part.get("functionCall") or part.get("functionResponse"))

    def overflow(self, tokens: int, window: int, body: Body) -> Refusal | None:
        if tokens <= window:
            return None
        text = f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window})."
        return Refusal(text, kind="INVALID_ARGUMENT")

    def error(self, status: int, message: str, kind: str) -> Body:
        kinds = {
            400: "INVALID_ARGUMENT",
            401: "UNAUTHENTICATED",
            404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED",
            500: "INTERNAL",
            503: "UNAVAILABLE",
        }
        error: Body = {"code": status, "message": message, "status": kinds.get(status, "UNKNOWN")}
        if kind.startswith("retry "):
            info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": kind.removeprefix("retry ")}
            error["details"] = [info]
        return {"error": error}

    def whole(self, answer: Answer, usage: tuple[int, int], number: int) -> Body:
        parts = list(_thoughts(answer))
        if answer.text:
            parts.append({"text": answer.text})
        return _response([*parts, *_calls(answer)], answer, usage, _reason(answer))

    def events(self, answer: Answer, usage: tuple[int, int], number: int) -> Iterator[bytes]:
        for part in _thoughts(answer):
            yield sse(_response([part], answer, usage))
        for piece in pieces(answer.text):
            yield sse(_response([{"text": piece}], answer, usage))
        calls = list(_calls(answer))
        for call in calls[:-1]:
            yield sse(_response([call], answer, usage))
        yield sse(_response(calls[-1:] or [{"text": ""}], answer, usage, _reason(answer)))

    def _problems(self, path: str, body: Body) -> Iterator[str]:
        contents = body.get("contents") or []
        if not contents:
            yield "GenerateContentRequest.contents: contents is not specified"
            return
        limit = body.get("generationConfig", {}).get("maxOutputTokens")
        if limit is not None and not 1 <= limit <= self.max_output:
            yield f"Unable to submit request because it has a maxOutputTokens value of {limit}"
        for tool in body.get("tools", ()):
            for function in tool.get("functionDeclarations", ()):
                if not _NAME.fullmatch(function.get("name", "")):
                    yield "GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name."
        for index, content in enumerate(contents):
            if content.get("role") not in ("user", "model"):
                yield "Please use a valid role: user, model."
            if not content.get("parts"):
                yield f"GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
            for place, part in enumerate(content.get("parts") or ()):
                yield from self._of_part(f"contents[{index}].parts[{place}]", content["role"], part)
        yield from _turns(contents)
        if "models/gemini-3" in path:
            yield from _needs_signature(contents)

    def _of_part(self, where: str, role: str, part: Body) -> Iterator[str]:
        kinds = [kind for kind in _DATA if kind in part]
        if len(kinds) != 1 or (kinds == ["text"] and not part["text"]):
            yield f"{where}.data: required oneof field 'data' must have one initialized field"
            return
        if unknown := part.keys() - {*_DATA, "thought", "thoughtSignature"}:
            yield f"Invalid JSON payload received. Unknown name \"{min(unknown)}\" at '{where}': Cannot find field."
        signature = part.get("thoughtSignature")
        if signature not in (None, _NO_SIGNATURE) and not self._is_signature(signature):
            yield f"Invalid value at '{where}.thought_signature' (TYPE_BYTES), Base64 decoding failed or not ours"
        call = part.get("functionCall")
        if call is not None and not (_NAME.fullmatch(call.get("name", "")) and isinstance(call.get("args", {}), dict)):
            yield f"{where}.function_call: Invalid function call"
        if call is not None and role != "model":
            yield "Please ensure that function call turns come from the model."
        response = part.get("functionResponse")
        if response is not None and not (response.get("name") and isinstance(response.get("response"), dict)):
            yield f"{where}.function_response: Name cannot be empty; response must be an object."

    def _is_signature(self, value: Any) -> bool:
        if self.signatures is not None:
            return value in self.signatures
        try:
            return bool(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            return False


def _thoughts(answer: Answer) -> Iterator[Body]:
    if answer.thinking or answer.signature:
        part: Body = {"text": answer.thinking, "thought": True}
        yield part | ({"thoughtSignature": answer.signature} if answer.signature else {})


def _calls(answer: Answer) -> Iterator[Body]:
    for call in answer.calls:
        named: Body = {"name": call.name, "args": call.arguments} | ({"id": call.id} if call.id else {})
        part: Body = {"functionCall": named}
        yield part | ({"thoughtSignature": call.signature} if call.signature else {})


def _reason(answer: Answer) -> str:
    return answer.stop or "STOP"


def _response(parts: list[Body], answer: Answer, usage: tuple[int, int], reason: str | None = None) -> Body:
    candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage[0],
            "candidatesTokenCount": usage[1],
            "totalTokenCount": sum(usage),
            "cachedContentTokenCount": answer.cache_read,
        },
        "modelVersion": "gemini-test",
    }


def _turns(contents: list[Body]) -> Iterator[str]:
    previous: Body | None = None
    for content in contents:
        calls, responses = _count(previous, "functionCall"), _count(content, "functionResponse")
        if previous is None and content["role"] != "user":
            yield "Please ensure that multiturn requests begin with a user turn."
        if calls != responses:
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
        if previous is not None and previous["role"] == content["role"] == "model":
            yield "Please ensure that function call turn comes immediately after a user turn."
        previous = content
    if previous is not None and previous["role"] == "model":
        yield "Please ensure that single turn requests end with a user role or a function response."


def _count(content: Body | None, kind: str) -> int:
    return sum(kind in part for part in content["parts"]) if content else 0


def _needs_signature(contents: list[Body]) -> Iterator[str]:
    """Since Gemini 3 the first call of each step of the running turn must carry its signature."""
    start = max(
        (
            index
            for index, content in enumerate(contents)
            if content["role"] == "user" and not _count(content, "functionResponse")
        ),
        default=0,
    )
    for content in contents[start + 1 :]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            yield f"Function call `{calls[0]['functionCall']['name']}` is missing a thought_signature."
