"""Prompt segments: every part of a request with its kind, its tokens and its origin (spec/seeing.md 1.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from nodes.state import ContextNote, Section
from turngraph.decisions import Origin, Segment, SegmentKind
from turngraph.messages import TOOL_CALL_TYPES, Block, Message, block_text, compact_json
from turngraph.models.model import ToolSpec
from turngraph.tokens import IMAGE_TOKENS, Counter

_UNKNOWN = Origin("synthetic", name="unknown")


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What the last request of a turn was made of; segments are made from it once, when the trace is written."""

    sections: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    messages: tuple[Message, ...]
    notes: tuple[ContextNote, ...]
    current_entry_id: str | None


def prompt_segments(parts: PromptParts, counter: Counter) -> tuple[Segment, ...]:
    """Return the segments of a request in the order in which the model reads them."""
    return tuple(
        segment
        for made in (
            _section_segments(parts.sections, counter),
            _tool_segments(parts.tools, counter),
            _message_segments(parts, counter),
            _note_segments(parts.notes, counter),
        )
        for segment in made
    )


def _section_segments(sections: Sequence[Section], counter: Counter) -> Iterator[Segment]:
    for section in sections:
        yield Segment(
            section.kind, "system", section.text, counter.text(section.text), section.origin, name=section.name
        )


def _tool_segments(tools: Sequence[ToolSpec], counter: Counter) -> Iterator[Segment]:
    for spec in tools:
        text = compact_json({"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)})
        yield Segment(
            "tool schema", "system", text, counter.text(text), Origin("tool_schema", name=spec.name), name=spec.name
        )


def _message_segments(parts: PromptParts, counter: Counter) -> Iterator[Segment]:
    key = ("segments", counter.name)
    for message in parts.messages:
        segments = message.fact(key, lambda message: tuple(_of_message(message, counter)))
        if parts.current_entry_id is not None and message.entry_id == parts.current_entry_id:
            segments = tuple(
                replace(segment, kind="current message") if segment.kind == "history message" else segment
                for segment in segments
            )
        yield from segments


def _of_message(message: Message, counter: Counter) -> Iterator[Segment]:
    origin = message.origin or _UNKNOWN
    kind: SegmentKind = "summary" if origin.kind == "summary" else "history message"
    for index, block in enumerate(message.blocks):
        text, extra_tokens = _block(block)
        yield Segment(
            kind,
            message.role,
            text,
            counter.text(text) + extra_tokens,
            origin,
            name=message.tool_name or None,
            block=index,
            derived=message.derived,
        )


def _note_segments(notes: Sequence[ContextNote], counter: Counter) -> Iterator[Segment]:
    for note in notes:
        kind: SegmentKind = "recalled memory" if note.origin.kind == "recall" else "hook context"
        yield Segment(kind, "user", note.text, counter.text(note.text), note.origin, name=note.name)


def block_as_sent(block: Block) -> str:
    """Return the text of a content block as segments write it."""
    return _block(block)[0]


def _block(block: Block) -> tuple[str, int]:
    kind = block.get("type")
    if kind == "text":
        return block_text(block), 0
    if kind == "thinking":
        value = block.get("thinking")
        return value if isinstance(value, str) else "", 0
    if kind == "image":
        data = block.get("data")
        return f"[image: {block.get('mimeType', 'unknown')}, {len(data) if isinstance(data, str) else 0} characters]", (
            IMAGE_TOKENS
        )
    if kind in TOOL_CALL_TYPES:
        return f"{block.get('name', '')} {compact_json(block.get('arguments', block.get('input', {})))}", 0
    return compact_json(dict(block)), 0
