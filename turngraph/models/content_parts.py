"""Content blocks as the parts of a langchain message, and back, in the dialect of each message protocol.

Thinking and its signatures go back only to the provider that made them: another one refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngraph.messages import TOOL_CALL_TYPES, Block, Message, block_text
from turngraph.models.model import ModelFacts
from turngraph.text import well_formed

Part = dict[str, Any]

ANTHROPIC, GEMINI = "anthropic-messages", "google-generative-ai"
# The key under which langchain-google-genai keeps the signatures of calls.
GEMINI_CALL_SIGNATURES = "__gemini_function_call_thought_signatures__"
IMAGE_LEFT_OUT = "[image left out: the model takes none here]"


def sendable_value(value: Any) -> Any:
    """Return a JSON value with every text in it as UTF-8 can hold it."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {well_formed(str(key)): sendable_value(item) for key, item in value.items()}
    return [sendable_value(item) for item in value] if isinstance(value, list) else value


def parts_out(message: Message, facts: ModelFacts | None) -> str | list[str | Part]:
    """Return the content of a message for the model that ``facts`` describe; a single text stands alone."""
    api = facts.api if facts else None
    own = facts is not None and message.raw.get("provider") == facts.provider
    images = facts is None or (facts.images and (message.role != "assistant" or api == GEMINI))
    parts: list[str | Part] = []
    for block in message.blocks:
        part = _part_out(block, api, own=own, images=images)
        if part is not None:
            parts.append(part)
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts if parts else ""


def _part_out(block: Block, api: str | None, *, own: bool, images: bool) -> Part | None:
    kind = block.get("type")
    if kind == "text":
        part: Part = {"type": "text", "text": well_formed(block_text(block))}
        signature = block.get("textSignature")
        return part | {"extras": {"signature": signature}} if own and api == GEMINI and signature else part
    if kind == "image":
        if not images:
            return {"type": "text", "text": IMAGE_LEFT_OUT}
        return {"type": "image", "base64": block.get("data", ""), "mime_type": block.get("mimeType", "image/png")}
    if kind in ("thinking", "redacted_thinking"):
        return _thinking_out(block, api) if own else None
    if kind in TOOL_CALL_TYPES and api == ANTHROPIC:  # in place: what stands around a call keeps its order
        arguments = block.get("arguments", block.get("input"))
        return {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": arguments}
    return None


def _thinking_out(block: Block, api: str | None) -> Part | None:
    signature = block.get("thinkingSignature") or block.get("signature")
    if api == ANTHROPIC:
        if block.get("type") == "redacted_thinking" or block.get("redacted"):
            data = block.get("data") or signature
            return {"type": "redacted_thinking", "data": data} if data else None
        return {"type": "thinking", "thinking": _thought(block), "signature": signature} if signature else None
    if api == GEMINI and (_thought(block) or signature):
        part: Part = {"type": "thinking", "thinking": _thought(block)}
        return part | {"signature": signature} if signature else part
    return None


def _thought(block: Block) -> str:
    value = block.get("thinking")
    return well_formed(value) if isinstance(value, str) else ""


def parts_in(content: str | list[Any]) -> list[Part]:
    """Return langchain content as our blocks, without tool calls, which langchain holds apart; empty texts go."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks = [block for part in content if (block := _block_in(part)) is not None]
    return _joined(blocks)


def _block_in(part: Any) -> Part | None:
    if isinstance(part, str):
        return {"type": "text", "text": part} if part else None
    kind = part.get("type")
    if kind == "text":
        return _text_in(part)
    if kind in ("thinking", "reasoning"):
        block = {"type": "thinking", "thinking": str(part.get("thinking") or part.get("reasoning") or "")}
        signature = _signature(part)
        return block | {"thinkingSignature": signature} if signature else block
    if kind == "redacted_thinking":
        return {"type": "thinking", "thinking": "", "thinkingSignature": part.get("data", ""), "redacted": True}
    if kind == "image":
        data = part.get("base64") or part.get("data", "")
        return {"type": "image", "data": data, "mimeType": part.get("mime_type", "image/png")}
    if kind in ("tool_use", "tool_call", "function_call", "input_json_delta"):
        return None
    return {key: value for key, value in part.items() if key != "index"}  # a place in the stream, not in the message


def _text_in(part: Mapping[str, Any]) -> Part | None:
    text, signature = part.get("text") or "", _signature(part)
    if not text and not signature:
        return None
    return {"type": "text", "text": text} | ({"textSignature": signature} if signature else {})


def _signature(part: Mapping[str, Any]) -> Any:
    extras = part.get("extras")
    return part.get("signature") or (extras.get("signature") if isinstance(extras, Mapping) else None)


def _joined(blocks: list[Part]) -> list[Part]:
    """Join texts in a row without signature: a stream may deliver one text in several parts."""
    joined: list[Part] = []
    for block in blocks:
        if joined and block.keys() == joined[-1].keys() == {"type", "text"}:
            joined[-1] = {"type": "text", "text": joined[-1]["text"] + block["text"]}
        else:
            joined.append(block)
    return joined
