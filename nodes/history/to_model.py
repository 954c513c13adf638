"""From session roles to what a model takes: user, assistant and tool result (spec/sessions.md 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turngraph.history import places, replaced
from turngraph.messages import Message, text_block

COMPACTION_INTRO = "The conversation up to this point was condensed. What follows stands for everything before it:"
BRANCH_INTRO = "Another branch of this conversation was left before it returned here. In short, that branch held:"
MODEL_ROLES = frozenset({"user", "assistant", "toolResult"})
_FOREIGN = places(lambda message: message.raw.get("role") not in MODEL_ROLES)


def to_model(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Project a working set to model roles; roles that are not known are left out.

    Messages that are fit already stay the same objects, and the same tuple comes back when all are.
    """
    foreign = _FOREIGN(messages)
    if not foreign:
        return messages if isinstance(messages, tuple) else tuple(messages)
    changes = {place: messages[place].fact("for the model", _projected) for place in foreign}
    return replaced(messages, changes, key="for the model")


def _projected(message: Message) -> Message | None:
    raw = message.raw
    match raw.get("role"):
        case "compactionSummary":
            return _user(message, f"{COMPACTION_INTRO}\n\n<summary>\n{raw.get('summary') or ''}\n</summary>")
        case "branchSummary":
            return _user(message, f"{BRANCH_INTRO}\n\n<summary>\n{raw.get('summary') or ''}</summary>")
        case "bashExecution":
            return None if raw.get("excludeFromContext") else _user(message, _shell_text(message))
        case "custom":
            return _user(message, raw.get("content"))
    return None


def _user(message: Message, content: Any) -> Message:
    if isinstance(content, str):
        content = [text_block(content)]
    raw = {"role": "user", "content": content if isinstance(content, list) else []}
    if "timestamp" in message.raw:
        raw["timestamp"] = message.raw["timestamp"]
    return Message(raw, message.origin, derived=True)


def _shell_text(message: Message) -> str:
    raw = message.raw
    output = raw.get("output")
    text = f"Ran `{raw.get('command', '')}`\n"
    text += f"```\n{output}\n```" if output else "(no output)"
    code = raw.get("exitCode")
    if raw.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif code is not None and code != 0:
        text += f"\n\nCommand exited with code {code}"
    if raw.get("truncated") and raw.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {raw['fullOutputPath']}]"
    return text
