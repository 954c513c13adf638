"""Content of messages: its form, blank text, unknown blocks, provenance marks, details of tool results.

Source: spec/context.md 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nodes.history.step import Step, as_tuple, decide, each
from nodes.silent import is_silent
from turngraph.messages import TEXT_TYPES, THINKING_TYPES, TOOL_CALL_TYPES, Block, Message, block_text, text_block
from turngraph.text import js_trim

EMPTY_CONTENT = "[empty content omitted]"
INTER_SESSION = "[Inter-session message]"
RESULT_BLOCK_TYPES = frozenset({"toolResult", "tool_result"})
_KNOWN_TYPES = TEXT_TYPES | THINKING_TYPES | TOOL_CALL_TYPES | {"image"}
_PROVENANCE_FIELDS = (
    ("sourceSession", "sourceSessionKey"),
    ("sourceChannel", "sourceChannel"),
    ("sourceTool", "sourceTool"),
)


def is_blank(block: Block) -> bool:
    """Whether a block is a text block without visible text; a malformed one is blank."""
    return block.get("type") in TEXT_TYPES and not js_trim(block_text(block))


def says_something(message: Message) -> bool:
    """Whether an assistant message holds anything that a provider reads besides thinking."""
    content = message.raw.get("content")
    if not isinstance(content, list):
        return isinstance(content, str) and bool(js_trim(content))
    return any(
        isinstance(block, dict) and block.get("type") not in THINKING_TYPES and not is_blank(block) for block in content
    )


def annotate_inter_session(messages: Sequence[Message]) -> Step:
    """Mark user messages that another session sent, so that the model does not take them for the user's."""
    return each(messages, _annotated, "messages of other sessions marked", roles=("user",), what="injected")


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
    for index, block in enumerate(content):
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            if block["text"].startswith(mark):
                return message
            marked = {**block, "text": f"{mark}\n{block['text']}"}
            return message.evolve(content=[*content[:index], marked, *content[index + 1 :]])
    return message.evolve(content=[text_block(mark), *content])


def canonical_content(messages: Sequence[Message]) -> Step:
    """Give assistant messages and tool results a list of blocks; text becomes one text block."""
    return each(messages, _as_blocks, "messages given a list of blocks", roles=("assistant", "toolResult"))


def _as_blocks(message: Message) -> Message:
    content = message.raw.get("content")
    if isinstance(content, list):
        return message
    return message.evolve(content=[text_block(content if isinstance(content, str) else "")])


def known_blocks(messages: Sequence[Message]) -> Step:
    """Drop blocks that no provider knows; one that holds a text becomes a text block, so that no words are lost."""
    return each(messages, _known, "messages with foreign blocks", roles=("user", "assistant", "toolResult"))


def _known(message: Message) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message if isinstance(content, str) else message.evolve(content=[])
    allowed = _KNOWN_TYPES if message.raw.get("role") == "assistant" else TEXT_TYPES | {"image"}
    if all(isinstance(block, dict) and _is_sound(block, allowed) for block in content):
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


def lift_result_blocks(messages: Sequence[Message]) -> Step:
    """Turn tool-result blocks inside user messages (Anthropic's own form) into tool-result messages before them."""
    lifted: list[Message] = []
    out: list[Message] = []
    for message in messages:
        blocks = _result_blocks(message)
        if not blocks:
            out.append(message)
            continue
        lifted.append(message)
        out.extend(_result_from(message, block) for block in blocks)
        rest = [block for block in message.raw["content"] if block not in blocks]
        if rest:
            out.append(message.evolve(content=rest))
    if not lifted:
        return Step(as_tuple(messages))
    why = f"{len(lifted)} user messages held tool results; made messages of their own"
    return Step(tuple(out), (decide("repaired", why, lifted, len(messages), len(out)),))


def _result_blocks(message: Message) -> list[Block]:
    content = message.raw.get("content")
    if message.raw.get("role") != "user" or not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") in RESULT_BLOCK_TYPES]


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


def blank_users(messages: Sequence[Message]) -> Step:
    """Drop user messages without visible text or image."""
    return each(messages, _if_said, "blank user messages", roles=("user",), what="dropped")


def _if_said(message: Message) -> Message | None:
    content = message.raw.get("content")
    if isinstance(content, str):
        return message if js_trim(content) else None
    blocks = content if isinstance(content, list) else []
    return message if any(not (isinstance(block, dict) and is_blank(block)) for block in blocks) else None


def blank_text(messages: Sequence[Message]) -> Step:
    """Drop blank text blocks from users and tool results; one that is emptied says that it was empty."""
    return each(messages, _without_blank, "messages with blank text", roles=("user", "toolResult"))


def _without_blank(message: Message) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message
    kept = [block for block in content if not (isinstance(block, dict) and is_blank(block))]
    if kept and len(kept) == len(content):
        return message
    return message.evolve(content=kept or [text_block(EMPTY_CONTENT)])


def silent_answers(messages: Sequence[Message]) -> Step:
    """Drop assistant messages that say nothing but ``NO_REPLY``: they only teach the model to be silent."""
    return each(messages, _spoken, "silent answers", roles=("assistant",), what="dropped")


def _spoken(message: Message) -> Message | None:
    content = message.raw.get("content")
    if not isinstance(content, list) or len(content) != 1:
        return message
    block = content[0]
    silent = isinstance(block, dict) and block.get("type") == "text" and is_silent(block_text(block))
    return None if silent else message


def assistant_blanks(messages: Sequence[Message], *, keep_beside_thinking: bool) -> Step:
    """Drop blank text blocks of assistant turns that did not fail; an emptied turn goes."""

    def rule(message: Message) -> Message | None:
        content = message.raw.get("content")
        if not isinstance(content, list) or message.raw.get("stopReason") == "error":
            return message
        if content and not any(isinstance(block, dict) and is_blank(block) for block in content):
            return message
        if keep_beside_thinking and any(block.get("type") in THINKING_TYPES for block in message.blocks):
            return message
        kept = [block for block in content if not (isinstance(block, dict) and is_blank(block))]
        return message.evolve(content=kept) if kept else None

    return each(messages, rule, "answers with blank text", roles=("assistant",))


def unsaid_answers(messages: Sequence[Message], *, blank_text_refused: bool, keep_thinking: bool) -> Step:
    """Drop answers that hold nothing a provider reads, and blank text where the provider refuses it.

    With ``keep_thinking`` an answer of nothing but thinking stays: Anthropic wants its newest turn as it was.
    """

    def rule(message: Message) -> Message | None:
        content = message.raw.get("content")
        if not says_something(message):
            thinks = keep_thinking and any(block.get("type") in THINKING_TYPES for block in message.blocks)
            if not thinks:
                return None
        if blank_text_refused and isinstance(content, list) and any(map(is_blank, message.blocks)):
            return message.evolve(content=[block for block in message.blocks if not is_blank(block)])
        return message

    return each(messages, rule, "answers without content", roles=("assistant",), what="dropped")


def strip_details(messages: Sequence[Message]) -> Step:
    """Remove ``details`` from tool results: they may be large or private and no model is sent them."""
    return each(messages, _without_details, "tool results without their details", roles=("toolResult",))


def _without_details(message: Message) -> Message:
    return message.evolve(drop=("details",)) if "details" in message.raw else message
