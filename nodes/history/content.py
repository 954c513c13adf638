"""Content of messages: its form, blank text, unknown blocks, provenance marks, details of tool results.

Source: spec/context.md 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from nodes.history.step import Rule, Step, as_tuple, decide
from nodes.silent import is_silent
from turngraph.history import places
from turngraph.messages import TEXT_TYPES, THINKING_TYPES, TOOL_CALL_TYPES, Block, Message, block_text, text_block
from turngraph.text import js_trim

EMPTY_CONTENT = "[empty content omitted]"
INTER_SESSION = "[Inter-session message]"
RESULT_BLOCK_TYPES = frozenset({"toolResult", "tool_result"})
_KNOWN_TYPES = TEXT_TYPES | THINKING_TYPES | TOOL_CALL_TYPES | {"image"}
_SHOWN_TYPES = TEXT_TYPES | {"image"}
_PROVENANCE_FIELDS = (
    ("sourceSession", "sourceSessionKey"),
    ("sourceChannel", "sourceChannel"),
    ("sourceTool", "sourceTool"),
)


_USER, _ASSISTANT, _RESULT = frozenset({"user"}), frozenset({"assistant"}), frozenset({"toolResult"})


def is_blank(block: Block) -> bool:
    """Whether a block is a text block without visible text; a malformed one is blank."""
    if block.get("type") != "text":
        return False
    text = block.get("text")
    return not isinstance(text, str) or not js_trim(text)


def has_blank(content: list[Any]) -> bool:
    """Whether one of the blocks is blank text."""
    return any(isinstance(block, dict) and is_blank(block) for block in content)


def without_blank(content: list[Any]) -> list[Any]:
    """Return the blocks that are not blank text."""
    return [block for block in content if not (isinstance(block, dict) and is_blank(block))]


def says_something(message: Message) -> bool:
    """Whether an assistant message holds anything that a provider reads besides thinking."""
    content = message.raw.get("content")
    if not isinstance(content, list):
        return isinstance(content, str) and bool(js_trim(content))
    for block in content:
        if isinstance(block, dict) and block.get("type") not in THINKING_TYPES and not is_blank(block):
            return True
    return False


def is_plain(message: Message) -> bool:
    """Whether a message is in the form that all but a few have, so that no rule about its content has anything to do.

    One look at the blocks here saves several rules a look of their own.
    """
    raw = message.raw
    role, content = raw.get("role"), raw.get("content")
    if "provenance" in raw:
        return False
    if isinstance(content, str):
        return role == "user" and bool(js_trim(content))
    if not isinstance(content, list) or (role == "toolResult" and not raw.get("toolCallId")):
        return False
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "text":
            text = block.get("text")
            if not isinstance(text, str) or not js_trim(text) or "thought_signature" in block:
                return False
        elif kind != "toolCall" or role != "assistant" or "thoughtSignature" in block:
            return False
    return bool(content)


def _annotated(message: Message) -> Message:
    provenance = message.raw.get("provenance")
    if not isinstance(provenance, dict) or provenance.get("kind") != "inter_session":
        return message
    mark = INTER_SESSION
    for label, key in _PROVENANCE_FIELDS:
        value = provenance.get(key)
        if isinstance(value, str) and js_trim(value):
            mark += f" {label}={js_trim(value)}"
    content = message.raw.get("content")
    if isinstance(content, str):
        return message if content.startswith(mark) else message.evolve(content=f"{mark}\n{content}")
    if not isinstance(content, list):
        return message
    if any(isinstance(block, dict) and block_text(block).startswith(mark) for block in content):
        return message
    for index, block in enumerate(content):
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            marked = {**block, "text": f"{mark}\n{block['text']}"}
            return message.evolve(content=[*content[:index], marked, *content[index + 1 :]])
    return message.evolve(content=[text_block(mark), *content])


ANNOTATE_INTER_SESSION = Rule(_annotated, _USER, "messages of other sessions marked", "injected")


def _as_blocks(message: Message) -> Message:
    content = message.raw.get("content")
    if isinstance(content, list):
        return message
    return message.evolve(content=[text_block(content if isinstance(content, str) else "")])


CANONICAL_CONTENT = Rule(_as_blocks, _ASSISTANT | _RESULT, "messages given a list of blocks")


def _known(message: Message) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message if isinstance(content, str) else message.evolve(content=[])
    allowed = _KNOWN_TYPES if message.raw.get("role") == "assistant" else _SHOWN_TYPES
    for block in content:
        if not (isinstance(block, dict) and _is_sound(block, allowed)):
            break
    else:
        return message
    kept: list[Any] = []
    for block in content:
        if isinstance(block, str):
            kept.append(text_block(block))
        elif isinstance(block, dict) and _is_sound(block, allowed):
            kept.append(block)
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            kept.append(text_block(block["text"]))
    return message.evolve(content=kept)


def _is_sound(block: Block, allowed: frozenset[str]) -> bool:
    kind = block.get("type")
    if kind == "text":
        return isinstance(block.get("text"), str)
    return isinstance(kind, str) and kind in allowed


# A foreign block that holds a text becomes a text block, so that no words are lost.
KNOWN_BLOCKS = Rule(_known, _USER | _ASSISTANT | _RESULT, "messages with foreign blocks")


def lift_result_blocks(messages: Sequence[Message]) -> Step:
    """Turn tool-result blocks inside user messages (Anthropic's own form) into tool-result messages before them."""
    if not _WITH_RESULTS(messages):
        return Step(as_tuple(messages))
    lifted: list[Message] = []
    out: list[Message] = []
    for message in messages:
        blocks = message.fact("result blocks", _result_blocks)
        if not blocks:
            out.append(message)
            continue
        lifted.append(message)
        out.extend(_result_from(message, block) for block in blocks)
        rest = [block for block in message.raw["content"] if block not in blocks]
        if rest:
            out.append(message.evolve(content=rest))
    why = f"{len(lifted)} user messages held tool results; made messages of their own"
    return Step(tuple(out), (decide("repaired", why, lifted, len(messages), len(out)),))


def _result_blocks(message: Message) -> list[Block]:
    if message.raw.get("role") != "user" or not isinstance(content := message.raw.get("content"), list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") in RESULT_BLOCK_TYPES]


_WITH_RESULTS = places(lambda message: message.fact("result blocks", _result_blocks))


def _result_from(message: Message, block: Block) -> Message:
    content = block.get("content")
    call_id = next((block[key] for key in ("toolUseId", "tool_use_id", "toolCallId") if block.get(key)), "")
    return message.evolve(
        drop=("provenance",),
        role="toolResult",
        toolCallId=call_id,
        toolName=block.get("toolName", ""),
        content=content if isinstance(content, list) else [text_block(content if isinstance(content, str) else "")],
        isError=block.get("isError") is True or block.get("is_error") is True,
    )


def _if_said(message: Message) -> Message | None:
    content = message.raw.get("content")
    if isinstance(content, str):
        return message if js_trim(content) else None
    return message if isinstance(content, list) and without_blank(content) else None


BLANK_USERS = Rule(_if_said, _USER, "blank user messages", "dropped")


def _full(message: Message) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list) or (content and not has_blank(content)):
        return message
    return message.evolve(content=without_blank(content) or [text_block(EMPTY_CONTENT)])


# A user message or a tool result that is emptied says that it was empty.
BLANK_TEXT = Rule(_full, _USER | _RESULT, "messages with blank text")


def _spoken(message: Message) -> Message | None:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message
    for block in content:
        if isinstance(block, dict) and block.get("type") == "text" and is_silent(block_text(block)):
            break
    else:
        return message
    said = [block for block in without_blank(content) if block.get("type") not in THINKING_TYPES]
    return message if len(said) > 1 else None


# An answer of nothing but NO_REPLY only teaches the model to be silent.
SILENT_ANSWERS = Rule(_spoken, _ASSISTANT, "silent answers", "dropped")


@cache
def assistant_blanks(*, keep_beside_thinking: bool) -> Rule:
    """Make the rule that drops blank text from answers that did not fail; an emptied one goes."""

    def apply(message: Message) -> Message | None:
        content = message.raw.get("content")
        if not isinstance(content, list) or message.raw.get("stopReason") == "error":
            return message
        if (content and not has_blank(content)) or (keep_beside_thinking and _thinks(message)):
            return message
        kept = without_blank(content)
        return message.evolve(content=kept) if kept else None

    return Rule(apply, _ASSISTANT, "answers with blank text")


def _thinks(message: Message) -> bool:
    return any(block.get("type") in THINKING_TYPES for block in message.blocks)


@cache
def unsaid_answers(*, blank_text_refused: bool, keep_thinking: bool) -> Rule:
    """Make the rule that drops answers that hold nothing a provider reads, and blank text where it is refused.

    With ``keep_thinking`` an answer of nothing but thinking stays: Anthropic wants its newest turn as it was.
    """

    def apply(message: Message) -> Message | None:
        content = message.raw.get("content")
        if not says_something(message) and not (keep_thinking and _thinks(message)):
            return None
        if blank_text_refused and isinstance(content, list) and has_blank(content):
            return message.evolve(content=without_blank(content))
        return message

    return Rule(apply, _ASSISTANT, "answers without content", "dropped")


def _without_details(message: Message) -> Message:
    return message.evolve(drop=("details",)) if "details" in message.raw else message


# They may be large or private, and no model is sent them.
STRIP_DETAILS = Rule(_without_details, _RESULT, "tool results without their details", None)
