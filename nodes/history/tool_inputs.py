"""Tool calls of the model: which ones may stay in a history, what their names mean, how damaged ones are read.

Source: spec/context.md 4.2 (``sanitize_tool_call_inputs``) and 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from nodes.history.step import Step, as_tuple, decide
from turngraph.history import Fold
from turngraph.messages import TOOL_CALL_TYPES, Block, Message
from turngraph.text import js_trim

MAX_NAME_CHARS = 64
_MAX_RAW_NAME_CHARS = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_REDACTED = "__OPENCLAW_REDACTED__"  # literal: spec/context.md 4.2
_ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}
_TRAILING_CHARS = 3


@dataclass(frozen=True, slots=True)
class CleanedCalls:
    """The working set with usable tool calls only, and how many calls and whole messages went."""

    messages: tuple[Message, ...]
    dropped_calls: int = 0
    dropped_messages: int = 0
    touched: tuple[Message, ...] = ()

    @property
    def step(self) -> Step:
        if not self.touched:
            return Step(self.messages)
        why = f"{self.dropped_calls} unusable tool calls dropped, {len(self.touched)} messages touched"
        before = len(self.messages) + self.dropped_messages
        return Step(self.messages, (decide("repaired", why, self.touched, before, len(self.messages)),))


def clean_tool_calls(
    messages: Sequence[Message], allowed: Collection[str] | None = None, *, canonical: bool = False
) -> CleanedCalls:
    """Drop tool calls that no provider takes: without id, input or proper name, or of a tool that is not allowed.

    Args:
        messages: the working set, oldest first.
        allowed: tool names, case does not count; ``None`` or empty allows all. A call that has a real result stays
            whatever its name, so that history remains truthful.
        canonical: give the calls that stay the one form that is sent: ``toolCall`` with an object of arguments.
    """
    names = frozenset(name.lower() for name in allowed or ())
    if _all_sound(messages, lambda called: not names or all(name.lower() in names for name in called)):
        return CleanedCalls(as_tuple(messages))
    answered = _answered_ids(messages) if names else frozenset()

    def judge(block: Block) -> Block | None:
        usable = _usable(block, names, answered)
        return usable if usable is None or not canonical else canonical_call(usable)

    return _judge_calls(messages, judge)


def _all_sound(messages: Sequence[Message], fits: Callable[[frozenset[str]], bool]) -> bool:
    """Whether every call is in the form that is sent, of a tool that ``fits``: the usual case."""
    names = _CALLED(messages)
    return names is not None and fits(names)


def _called(known: frozenset[str] | None, messages: Iterable[Message], _start: int) -> frozenset[str] | None:
    """Gather the names of the calls, ``None`` when one is not in the form that is sent."""
    for message in messages:
        if known is not None and message.raw.get("role") == "assistant":
            names = message.fact("names of sound calls", _sound_names)
            known = None if names is None else known if names <= known else known | names
    return known


_CALLED: Fold[frozenset[str] | None] = Fold(frozenset(), _called)


def _sound_names(message: Message) -> frozenset[str] | None:
    content = message.raw.get("content")
    calls = [block for block in content if _call(block)] if isinstance(content, list) else []
    for block in calls:
        if canonical_call(block) is not block or _usable(block, frozenset(), frozenset()) is not block:
            return None
    return frozenset(block["name"] for block in calls)


def _judge_calls(messages: Sequence[Message], judge: Callable[[Block], Block | None]) -> CleanedCalls:
    """Let ``judge`` keep (the same object), repair or drop every tool-call block; an emptied message goes."""
    out: list[Message] = []
    touched: list[Message] = []
    dropped_calls = dropped_messages = 0
    for message in messages:
        content = message.raw.get("content")
        if message.raw.get("role") != "assistant" or not isinstance(content, list):
            out.append(message)
            continue
        changed = False
        blocks = []
        for block in content:
            is_call = isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES
            kept = judge(block) if is_call else block
            changed = changed or kept is not block
            if kept is not None or not is_call:
                blocks.append(kept)
        if not changed:
            out.append(message)
            continue
        touched.append(message)
        dropped_calls += len(content) - len(blocks)
        if blocks:
            out.append(message.evolve(content=blocks))
        else:
            dropped_messages += 1
    if not touched:
        return CleanedCalls(as_tuple(messages))
    return CleanedCalls(tuple(out), dropped_calls, dropped_messages, tuple(touched))


def _answered_ids(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(m.tool_call_id for m in messages if m.raw.get("role") == "toolResult")


def _usable(block: Block, allowed: frozenset[str], answered: frozenset[str]) -> Block | None:
    if block.get("input") is None and block.get("arguments") is None:
        return None
    call_id, raw_name = block.get("id"), block.get("name")
    if not isinstance(call_id, str) or not js_trim(call_id) or not isinstance(raw_name, str):
        return None
    name = js_trim(raw_name)
    if not _NAME.fullmatch(name) or (allowed and name.lower() not in allowed and call_id not in answered):
        return None
    if name.lower() == "sessions_spawn":
        block = _redact_attachments(block)
    return block if name == raw_name else {**block, "name": name}


def _redact_attachments(block: Block) -> Block:
    changes: dict[str, Any] = {}
    for key in ("arguments", "input"):
        value: Any = block.get(key)
        attachments = value.get("attachments") if isinstance(value, dict) else None
        if not isinstance(attachments, list):
            continue
        redacted = [
            {**item, "content": _REDACTED}
            if isinstance(item, dict) and item.get("content") not in (None, _REDACTED)
            else item
            for item in attachments
        ]
        if redacted != attachments:
            changes[key] = {**value, "attachments": redacted}
    return {**block, **changes} if changes else block


def resolve_tool_name(raw: str, allowed: Collection[str], call_id: str | None = None) -> str | None:
    """Return the allowed tool that a model meant by ``raw``, else ``None``.

    Tried in order: the name itself, aliases, another case (unless two tools differ only by it), the last segments of
    ``a.b.c`` or ``a/b``, the same with a trailing call number cut off; a blank name is read from the call's id.
    """
    name = js_trim(raw)
    if len(raw) > _MAX_RAW_NAME_CHARS or re.search(r"\s", name):
        return None
    candidates = _name_candidates(name) if name else []
    if not name or not any(c in allowed or _by_case(c, allowed) for c in candidates):
        candidates += _name_candidates(_name_in_id(call_id or ""))
    for candidate in candidates:
        found = _match(candidate, allowed)
        if found and len(found) <= MAX_NAME_CHARS:
            return found
    return None


def _match(name: str, allowed: Collection[str]) -> str | None:
    if name in allowed:
        return name
    alias = _ALIASES.get(name.lower())
    if alias in allowed:
        return alias
    return _by_case(name, allowed)


def _by_case(name: str, allowed: Collection[str]) -> str | None:
    same = [tool for tool in allowed if tool.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def _name_candidates(name: str) -> list[str]:
    if not name:
        return []
    parts = [part for part in re.split(r"[./]", name) if part]
    candidates = [name]
    for start in range(1, len(parts)):
        candidates += [".".join(parts[start:]), "_".join(parts[start:])]
    candidates += [stripped for c in tuple(candidates) if (stripped := re.sub(r"[:_-]?\d+$", "", c)) != c]
    return candidates


def _name_in_id(call_id: str) -> str:
    """Return the tool name that ids such as ``functions.read:0`` or ``functionsread3`` carry."""
    match = re.fullmatch(r"(?:functions?|tools?)[._/-]?([A-Za-z0-9_.-]+?)(?:[:_-]?\d+)?", js_trim(call_id))
    return match.group(1) if match else ""


def resolve_call_names(messages: Sequence[Message], allowed: Collection[str]) -> CleanedCalls:
    """Replace tool names of a history by the tools they mean; what stays unknown goes, unless it has a result.

    Works on the outgoing copy; nothing happens without a list of tools.
    """
    if not allowed or _all_sound(messages, lambda called: called.issubset(allowed)):
        return CleanedCalls(as_tuple(messages))
    answered = _answered_ids(messages)
    return _judge_calls(messages, lambda block: _resolved(block, allowed, answered))


def _resolved(block: Block, allowed: Collection[str], answered: frozenset[str]) -> Block | None:
    name = block["name"] if isinstance(block.get("name"), str) else ""
    if name in allowed:
        return block
    call_id = block["id"] if isinstance(block.get("id"), str) else ""
    found = resolve_tool_name(name, allowed, call_id)
    if found:
        return {**block, "name": found}
    return block if call_id in answered and _NAME.fullmatch(name) else None


def name_call_ids(message: Message) -> Message:
    """Give the calls of a fresh answer usable ids: trimmed, and ``call_auto_<n>`` for a blank or a repeated one."""
    content = message.raw.get("content")
    if message.raw.get("role") != "assistant" or not isinstance(content, list):
        return message
    trimmed = [js_trim(block["id"]) if isinstance(block.get("id"), str) else "" for block in map(_call, content)]
    used = {call_id for call_id in trimmed if call_id}
    seen: set[str] = set()
    number = 0
    blocks = list(content)
    for index, block in enumerate(content):
        if not _call(block):
            continue
        call_id = trimmed[index]
        if not call_id or call_id in seen:
            number += 1
            while f"call_auto_{number}" in used:
                number += 1
            call_id = f"call_auto_{number}"
        seen.add(call_id)
        if block.get("id") != call_id:
            blocks[index] = {**block, "id": call_id}
    return (
        message if all(new is old for new, old in zip(blocks, content, strict=True)) else message.evolve(content=blocks)
    )


def _call(block: Any) -> Mapping[str, Any]:
    return block if isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES else {}


@dataclass(frozen=True, slots=True)
class SalvagedArguments:
    """Arguments read from text that goes on behind them, and what stood there."""

    arguments: Mapping[str, Any]
    trailing: str


def salvage_arguments(text: str) -> SalvagedArguments | None:
    """Read a JSON object that is followed by one to three stray characters; ``None`` when that is not the fault."""
    body = text.strip()
    if not body.startswith("{"):
        return None
    for length in range(1, _TRAILING_CHARS + 1):
        try:
            value = orjson.loads(body[:-length])
        except orjson.JSONDecodeError:
            continue
        if isinstance(value, dict):
            return SalvagedArguments(value, body[-length:])
    return None


def canonical_call(block: Block) -> Block:
    """Return a tool-call block in the one form that is sent: ``toolCall`` with an object of arguments."""
    if block.get("type") == "toolCall" and isinstance(block.get("arguments"), dict):
        return block
    value = block.get("arguments", block.get("input"))
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            salvaged = salvage_arguments(value)
            value = salvaged.arguments if salvaged else {}
    kept = {key: item for key, item in block.items() if key not in ("input", "arguments", "type")}
    return {"type": "toolCall", **kept, "arguments": value if isinstance(value, dict) else {}}
