"""What a heartbeat may send beside its answer: the reasoning behind it, and a warning when tools failed silently.

Source: spec/scheduling.md A1, ``includeReasoning`` and ``suppressToolErrorWarnings``.
"""

from __future__ import annotations

from collections.abc import Sequence

from turngraph.messages import Message
from turngraph.text import head, js_trim

WARNING_CHARS = 200  # of what a failed tool said


def of_this_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last one of a user."""
    start = max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)
    return messages[start + 1 :]


def reasoning(messages: Sequence[Message]) -> str | None:
    """Return the thinking of the newest answer as a text of its own; ``None`` when there is none."""
    answer = next((message for message in reversed(messages) if message.role == "assistant"), None)
    thoughts = [] if answer is None else [str(block.get("thinking") or "") for block in answer.blocks]
    text = js_trim("\n".join(thought for thought in thoughts if thought))
    return f"Reasoning:\n{text}" if text else None


def tool_warning(messages: Sequence[Message]) -> str | None:
    """Return a warning about the last tool call when it failed; ``None`` when it did not, or there was none."""
    last = next((message for message in reversed(of_this_turn(messages)) if message.role == "toolResult"), None)
    if last is None or not last.is_error:
        return None
    return f"The tool {last.raw.get('toolName') or ''} failed: {head(js_trim(last.text), WARNING_CHARS)}"
