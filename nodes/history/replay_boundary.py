"""What a model just said, in the form that the loop and the transcript take (spec/context.md 4.3, 8.2)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nodes.history.tool_inputs import canonical_call, name_call_ids, resolve_tool_name
from turngraph.messages import TOOL_CALL_TYPES, Message


def normalize_model_output(answer: Message, tools: Collection[str]) -> Message:
    """Give the calls of a fresh answer unique ids, names of tools that exist, and objects of arguments.

    A name that no tool answers to stays as the model wrote it: the loop tells the model so.
    """
    named = name_call_ids(answer)
    content = named.raw.get("content")
    if not isinstance(content, list):
        return named
    blocks = [_normalized(block, tools) for block in content]
    return named if all(new is old for new, old in zip(blocks, content, strict=True)) else named.evolve(content=blocks)


def _normalized(block: Any, tools: Collection[str]) -> Any:
    if not isinstance(block, dict) or block.get("type") not in TOOL_CALL_TYPES:
        return block
    block = canonical_call(block)
    raw = block["name"] if isinstance(block.get("name"), str) else ""
    name = resolve_tool_name(raw, tools, block["id"] if isinstance(block.get("id"), str) else None)
    return block if name is None or name == raw else {**block, "name": name}
