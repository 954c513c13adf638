"""How large a message is, in weighted characters: the estimates of the guard and of pruning.

The two differ on purpose (spec/context.md 5.3 and 6.3): the guard takes tool output at two characters a token and
counts what is stored with it, pruning counts what a model reads.
"""

from __future__ import annotations

from typing import Any

from turngraph.messages import TOOL_CALL_TYPES, Message, Raw, compact_json
from turngraph.text import weighted_chars

IMAGE_CHARS = 8_000  # 2,000 tokens
OTHER_ROLE_CHARS = 256
UNREADABLE_ARGUMENTS_CHARS = 128
_TOOL_OUTPUT_WEIGHT = 2  # two characters a token


def guard_chars(message: Message) -> int:
    """Return the guard's estimate: tool results weigh double, other blocks count as JSON."""
    raw = message.raw
    role = raw.get("role")
    if role == "user":
        return _content_chars(raw.get("content"), 1)
    if role == "assistant":
        return _answer_chars(raw, others=True)
    if role in ("toolResult", "tool") or raw.get("type") == "toolResult":
        details = raw.get("details")
        size = _content_chars(raw.get("content"), _TOOL_OUTPUT_WEIGHT)
        if details is not None:
            size += weighted_chars(details if isinstance(details, str) else compact_json(details), _TOOL_OUTPUT_WEIGHT)
        return size
    return OTHER_ROLE_CHARS


def prune_chars(message: Message) -> int:
    """Return pruning's estimate: text, thinking, arguments and images."""
    raw = message.raw
    role = raw.get("role")
    if role in ("user", "toolResult"):
        return _content_chars(raw.get("content"), 1, others=False)
    if role == "assistant":
        return _answer_chars(raw, others=False)
    return OTHER_ROLE_CHARS


def _content_chars(content: Any, weight: int, *, others: bool = True) -> int:
    if isinstance(content, str):
        return weighted_chars(content, weight)
    if not isinstance(content, list):
        return 0
    size = 0
    for block in content:
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        text = block.get("text")
        if kind == "text" and isinstance(text, str):
            size += len(text) * weight if text.isascii() else weighted_chars(text, weight)
        elif kind == "image":
            size += IMAGE_CHARS * weight
        elif others or kind == "text":
            size += weighted_chars(compact_json(block), weight)
    return size


def _answer_chars(raw: Raw, *, others: bool) -> int:
    content = raw.get("content")
    if not isinstance(content, list):
        return weighted_chars(content) if isinstance(content, str) else 0
    size = 0
    for block in content:
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind in TOOL_CALL_TYPES:
            size += _arguments_chars(block.get("arguments", block.get("input", {})))
        elif kind in ("text", "thinking") and isinstance(block.get(kind), str):
            size += weighted_chars(block[kind])
        elif others or kind == "text":
            size += weighted_chars(compact_json(block))
    return size


def _arguments_chars(arguments: Any) -> int:
    try:
        return weighted_chars(compact_json(arguments))
    except (TypeError, ValueError):
        return UNREADABLE_ARGUMENTS_CHARS
