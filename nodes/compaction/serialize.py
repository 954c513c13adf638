"""serialize: a conversation as text for the summariser, so that it cannot be mistaken for one to continue.

Source: spec/compaction.md 2.5, newer release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from turngraph.messages import TOOL_CALL_TYPES, Block, Message, compact_json
from turngraph.text import head, tail

TOOL_RESULT_MAX_CHARS = 2_000
DIAGNOSTIC_TAIL_CHARS = 600
NOTED_MEDIA_MESSAGES = 8

_IMAGE_NOTE = "[image data omitted from summary input]"
_DATA_NOTE = "[non-text data omitted from summary input]"
_FURTHER_NOTE = "[further non-text data omitted from summary input]"
_SILENT_TYPES = frozenset({"text", "thinking", "redacted_thinking"}) | TOOL_CALL_TYPES
_DIAGNOSTIC = re.compile(
    r"\b(?:error|exception|failed|fatal|traceback|panic|errno|exit code)\b|错误|失败|异常", re.IGNORECASE | re.ASCII
)


def serialize_conversation(messages: Iterable[Message], tool_result_max_chars: int = TOOL_RESULT_MAX_CHARS) -> str:
    """Return ``messages`` as labelled paragraphs, oldest first.

    Thinking is left out; images and other data leave a note (the first eight messages that have some, then one for
    the rest); long tool results are cut, keeping an error at their end.
    """
    paragraphs: list[str] = []
    noted = 0
    for message in messages:
        notes = _media_notes(message)
        if notes:
            noted += 1
            notes = (
                notes if noted <= NOTED_MEDIA_MESSAGES else [_FURTHER_NOTE] if noted == NOTED_MEDIA_MESSAGES + 1 else []
            )
        paragraphs += _paragraphs(message, notes, tool_result_max_chars)
    return "\n\n".join(paragraphs)


def _paragraphs(message: Message, notes: Sequence[str], max_chars: int) -> list[str]:
    text = "\n".join(part for part in (message.text, *notes) if part)
    if message.role == "user":
        return [f"[User{_sender(message)}]: {text}"] if text else []
    if message.role == "toolResult":
        return [f"[Tool result]: {_cut_result(text, max_chars)}"] if text else []
    if message.role != "assistant":
        return []
    calls = "; ".join(
        f"{call.name}({', '.join(f'{key}={compact_json(value)}' for key, value in call.arguments.items())})"
        for call in message.tool_calls
    )
    return [*([f"[Assistant]: {text}"] if text else []), *([f"[Assistant tool calls]: {calls}"] if calls else [])]


def _cut_result(text: str, max_chars: int) -> str:
    if len(text) <= max_chars:
        return text
    ending = tail(text, DIAGNOSTIC_TAIL_CHARS) if max_chars > 2 * DIAGNOSTIC_TAIL_CHARS else ""
    if not _DIAGNOSTIC.search(ending):
        kept = head(text, max_chars)
        return f"{kept}\n\n[... {len(text) - len(kept)} more characters truncated]"
    kept = head(text, max_chars - len(ending))
    return f"{kept}\n\n[... {len(text) - len(kept) - len(ending)} more characters truncated]\n\n{ending}"


def _media_notes(message: Message) -> list[str]:
    kinds = [_note(block) for block in message.blocks if block.get("type") not in _SILENT_TYPES]
    return list(dict.fromkeys(kinds))


def _note(block: Block) -> str:
    return _IMAGE_NOTE if block.get("type") == "image" else _DATA_NOTE


def _sender(message: Message) -> str:
    sender = message.raw.get("sender")
    return f" sender={compact_json(sender)}" if sender else ""


def recent_turn_lines(messages: Iterable[Message], max_chars: int) -> list[str]:
    """Return messages as single list items, each cut to ``max_chars`` and marked as cut where it was."""
    names = {"user": "User", "assistant": "Assistant"}
    lines = []
    for message in messages:
        label = (
            f"Tool result ({message.tool_name or 'tool'})" if message.role == "toolResult" else names.get(message.role)
        )
        text = " ".join(part for part in (message.text.strip(), _other_content(message)) if part)
        if label and text:
            cut = text if len(text) <= max_chars else f"{head(text, max_chars)}... [cut: {len(text)} characters in all]"
            lines.append(f"- {label}: {cut}")
    return lines


def _other_content(message: Message) -> str:
    counts: dict[str, int] = {}
    for block in message.blocks:
        kind = block.get("type")
        if isinstance(kind, str) and kind not in ("text", "thinking", "redacted_thinking"):
            counts[kind] = counts.get(kind, 0) + 1
    parts = [kind if count == 1 else f"{kind} x{count}" for kind, count in counts.items()]
    return f"[non-text content: {', '.join(parts)}]" if parts else ""
