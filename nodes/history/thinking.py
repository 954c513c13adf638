"""Thinking blocks: which ones a provider may be sent again, and which signatures are worth keeping.

Source: spec/context.md 4.2.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import orjson

from nodes.history.pairing import FAILED
from nodes.history.step import Rule, Step, as_tuple, decide
from turngraph.history import places, replaced
from turngraph.messages import THINKING_TYPES, TOOL_CALL_TYPES, Block, Message, text_block

REASONING_OMITTED = "[assistant reasoning omitted]"
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]+", re.ASCII)
_ASSISTANT = frozenset({"assistant"})
_SIGNATURES = ("thinkingSignature", "signature", "thought_signature")


def is_base64(text: str) -> bool:
    """Whether ``text`` is base64 of at least one byte, in the standard or the URL alphabet, padded or not.

    >>> is_base64(" aGVs\\nbG8= "), is_base64("msg_abc123")
    (True, False)
    """
    compact = re.sub(r"\s+", "", text)
    if not _BASE64.fullmatch(compact):
        return False
    altchars = b"-_" if re.search(r"[-_]", compact) else b"+/"
    body = compact.rstrip("=")
    try:
        data = base64.b64decode(body + "=" * (-len(body) % 4), altchars=altchars, validate=True)
    except (binascii.Error, ValueError):
        return False
    return bool(data) and base64.b64encode(data, altchars=altchars).decode().rstrip("=") == body


def strip_signatures(content: Sequence[Any], *, base64_only: bool = False) -> list[Any]:
    """Delete thought signatures that the receiving provider did not make.

    Args:
        content: blocks of one message.
        base64_only: for Gemini: delete every signature (both spellings) that is not base64. Otherwise only the
            message ids of OpenAI (``msg_...``) go.
    """
    keys = ("thought_signature", "thoughtSignature") if base64_only else ("thought_signature",)
    return [_without_signature(block, keys, base64_only) if isinstance(block, dict) else block for block in content]


def _without_signature(block: Block, keys: tuple[str, ...], base64_only: bool) -> Block:
    gone = {key for key in keys if key in block and _is_foreign(block[key], base64_only)}
    return {key: value for key, value in block.items() if key not in gone} if gone else block


def _is_foreign(value: Any, base64_only: bool) -> bool:
    if base64_only:
        return not (isinstance(value, str) and is_base64(value))
    return isinstance(value, str) and value.startswith("msg_")


@cache
def foreign_signatures(*, base64_only: bool, failed_too: bool = False) -> Rule:
    """Make the rule that runs :func:`strip_signatures` over answers; over failed ones only with ``failed_too``."""

    def apply(message: Message) -> Message:
        content = message.raw.get("content")
        if not isinstance(content, list) or (message.raw.get("stopReason") == "error" and not failed_too):
            return message
        stripped = strip_signatures(content, base64_only=base64_only)
        if all(new is old for new, old in zip(stripped, content, strict=True)):
            return message
        return message.evolve(content=stripped)

    return Rule(apply, _ASSISTANT, "answers with signatures of another provider")


def _latest_assistant(messages: Sequence[Message]) -> Message | None:
    return next((m for m in reversed(messages) if m.raw.get("role") == "assistant"), None)


def has_thinking(messages: Sequence[Message]) -> bool:
    """Whether any answer holds thinking."""
    return bool(_THINKING(messages))


def drop_thinking(messages: Sequence[Message]) -> Step:
    """Drop thinking from all answers but the newest, which providers want unchanged."""
    latest = _latest_assistant(messages)
    return _drop(messages, lambda m: m is not latest, _without_thinking, "earlier answers without their thinking")


def drop_reasoning(messages: Sequence[Message]) -> Step:
    """Drop thinking from every answer outside the tool round that is running (after the newest user message)."""
    start = max((i for i, m in enumerate(messages) if m.raw.get("role") == "user"), default=-1)
    running = {id(m) for m in messages[start + 1 :] if m.tool_calls and m.raw.get("stopReason") not in FAILED}
    why = "finished answers without their reasoning"
    return _drop(messages, lambda m: id(m) not in running, _without_thinking, why)


def strip_unsigned(messages: Sequence[Message], *, latest_too: bool = False) -> Step:
    """Drop thinking without a signature, which Anthropic refuses; the newest answer only with ``latest_too``."""
    latest = None if latest_too else _latest_assistant(messages)
    return _drop(messages, lambda m: m is not latest, _all_signed, "answers with unsigned thinking")


def _drop(
    messages: Sequence[Message], concerns: Callable[[Message], bool], strip: Callable[[Message], Message], why: str
) -> Step:
    changes: dict[int, Message | None] = {}
    for place in _THINKING(messages):
        message = messages[place]
        if concerns(message) and (stripped := message.fact(strip, strip)) is not message:
            changes[place] = stripped
    if not changes:
        return Step(as_tuple(messages))
    touched = [messages[place] for place in changes]
    decision = decide("dropped", f"{len(changes)} {why}", touched, len(messages), len(messages))
    return Step(replaced(messages, changes, strip), (decision,))


def _thinks(message: Message) -> bool:
    content = message.raw.get("content")
    if message.raw.get("role") != "assistant" or not isinstance(content, list):
        return False
    return any(isinstance(block, dict) and block.get("type") in THINKING_TYPES for block in content)


_THINKING = places(_thinks)


def _all_signed(message: Message) -> Message:
    return _without_thinking(message, unsigned_only=True)


def _without_thinking(message: Message, *, unsigned_only: bool = False) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message
    kept = [
        block
        for block in content
        if not (
            isinstance(block, dict) and block.get("type") in THINKING_TYPES and not (unsigned_only and is_signed(block))
        )
    ]
    if len(kept) == len(content):
        return message
    return message.evolve(content=kept or [text_block(REASONING_OMITTED)])


def is_signed(block: Block) -> bool:
    keys = (*_SIGNATURES, "data") if block.get("type") == "redacted_thinking" else _SIGNATURES
    return any(isinstance(block.get(key), str) and block[key].strip() for key in keys)


def is_replayable(block: Any) -> bool:
    """Whether a thinking block is a reasoning item of the Responses API that can be sent back."""
    if not isinstance(block, dict) or block.get("type") != "thinking":
        return False
    signature = block.get("thinkingSignature")
    if isinstance(signature, str) and signature.strip().startswith("{"):
        try:
            signature = orjson.loads(signature)
        except orjson.JSONDecodeError:
            return False
    if not isinstance(signature, Mapping):
        return False
    item_id, kind = signature.get("id"), signature.get("type")
    return (
        isinstance(item_id, str)
        and item_id.startswith("rs_")
        and isinstance(kind, str)
        and (kind == "reasoning" or kind.startswith("reasoning."))
    )


def _followed_reasoning(message: Message) -> Message | None:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message
    last = max((i for i, b in enumerate(content) if not _is_thinking(b)), default=-1)
    kept = [block for index, block in enumerate(content) if index < last or not is_replayable(block)]
    if len(kept) == len(content):
        return message
    return message.evolve(content=kept) if kept else None


# The Responses API refuses a reasoning item that nothing follows.
LONE_REASONING = Rule(_followed_reasoning, _ASSISTANT, "answers with reasoning that nothing follows")


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "thinking"


def unpair_calls(messages: Sequence[Message]) -> Step:
    """Cut the item id (``|fc_...``) from calls whose reasoning item is gone, and from their results."""
    renamed: dict[str, str] = {}
    out: list[Message] = []
    touched: list[Message] = []
    for message in messages:
        role = message.raw.get("role")
        new = message
        if role == "assistant":
            new, renamed = _unpaired(message)
        elif role == "toolResult":
            changes = {
                key: renamed[value]
                for key in ("toolCallId", "toolUseId")
                if isinstance(value := message.raw.get(key), str) and value in renamed
            }
            new = message.evolve(**changes) if changes else message
        else:
            renamed = {}
        if new is not message:
            touched.append(message)
        out.append(new)
    if not touched:
        return Step(as_tuple(messages))
    why = f"calls or results of {len(touched)} messages no longer tied to a reasoning item"
    return Step(tuple(out), (decide("repaired", why, touched, len(messages), len(out)),))


def _unpaired(message: Message) -> tuple[Message, dict[str, str]]:
    content = message.raw.get("content")
    renamed: dict[str, str] = {}
    if not isinstance(content, list):
        return message, renamed
    blocks = list(content)
    for index, block in enumerate(content):
        if is_replayable(block):
            break
        call_id = block.get("id") if isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES else None
        if not isinstance(call_id, str):
            continue
        head, bar, item = call_id.partition("|")
        if bar and head and item.startswith("fc_"):
            renamed[call_id] = head
            blocks[index] = {**block, "id": head}
    return (message.evolve(content=blocks), renamed) if renamed else (message, renamed)
