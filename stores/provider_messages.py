"""Messages as a provider takes them: user, assistant and tool result, made from what a transcript holds.

Source: spec/sessions.md 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from turngraph.messages import Message, text_block

COMPACTION_INTRO = "Earlier parts of this conversation were summarised to save room. The summary reads:"
BRANCH_INTRO = "The conversation went on along another branch before it came back here. That branch in short:"


def to_provider_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Turn every message into one that providers know; those that are not meant for them are left out.

    User messages, answers and tool results stay the same objects. Origins are kept.
    """
    turned = (to_provider_message(message) for message in messages)
    return tuple(message for message in turned if message is not None)


def to_provider_message(message: Message) -> Message | None:
    """Turn one message; ``None`` when providers do not get it (excluded shell runs, unknown roles)."""
    raw = message.raw
    match message.role:
        case "user" | "assistant" | "toolResult":
            return message
        case "bashExecution":
            return None if raw.get("excludeFromContext") else _as_user(message, [text_block(shell_text(message))])
        case "custom":
            content = message.content
            return _as_user(message, [text_block(content)] if isinstance(content, str) else content)
        case "compactionSummary":
            text = f"{COMPACTION_INTRO}\n\n<summary>\n{raw.get('summary', '')}\n</summary>"
            return _as_user(message, [text_block(text)])
        case "branchSummary":
            text = f"{BRANCH_INTRO}\n\n<summary>\n{raw.get('summary', '')}</summary>"
            return _as_user(message, [text_block(text)])
    return None


def shell_text(message: Message) -> str:
    """Describe a shell run of the user: command, output, how it ended, and where the whole output lies."""
    raw = message.raw
    output = raw.get("output")
    text = f"Ran `{raw.get('command', '')}`\n" + (f"```\n{output}\n```" if output else "(no output)")
    code = raw.get("exitCode")
    if raw.get("cancelled"):
        text += "\n\n(command cancelled)"
    elif isinstance(code, int) and code != 0:
        text += f"\n\nCommand exited with code {code}"
    if raw.get("truncated") and raw.get("fullOutputPath"):
        text += f"\n\n[Output truncated. Full output: {raw['fullOutputPath']}]"
    return text


def _as_user(message: Message, content: Any) -> Message:
    raw = {"role": "user", "content": content, "timestamp": message.raw.get("timestamp")}
    return replace(message, raw=raw, derived=True)
