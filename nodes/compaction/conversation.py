"""conversation: is there anything in a history worth a summary? (spec/compaction.md 4.1)"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nodes.silent import is_silent
from turngraph.messages import TOOL_CALL_TYPES, Message

LOOKBACK = 20  # messages before a tool result in which somebody must have spoken
_ACKNOWLEDGED = re.compile(r"(?:\s*HEARTBEAT_OK[^\w]{0,4})+\s*")
_WORDLESS_TYPES = frozenset({"text", "thinking", "redacted_thinking", "reasoning"}) | TOOL_CALL_TYPES


def real_conversation_flags(messages: Sequence[Message], lookback: int = LOOKBACK) -> list[bool]:
    """Tell for each message whether it belongs to a conversation, and not to heartbeats and silent replies."""
    spoken = [message.role in ("user", "assistant") and _says_something(message) for message in messages]
    asked = [message.role == "user" and flag for message, flag in zip(messages, spoken, strict=True)]
    return [
        any(asked[max(0, index - lookback) : index]) if message.role == "toolResult" else spoken[index]
        for index, message in enumerate(messages)
    ]


def has_real_conversation(messages: Sequence[Message]) -> bool:
    """Whether any message belongs to a conversation."""
    return any(real_conversation_flags(messages))


def _says_something(message: Message) -> bool:
    if any(block.get("type") not in _WORDLESS_TYPES for block in message.blocks):
        return True
    text = message.text
    return bool(text.strip()) and not is_silent(text) and _ACKNOWLEDGED.fullmatch(text) is None
