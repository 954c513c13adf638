"""Calls and their results: every call gets exactly one result, directly behind it (spec/context.md 4.2).

A *frame* is an assistant message with tool calls and everything up to the next one. Results are matched to calls by
id and occurrence; what comes late is claimed by the call it belongs to, what belongs to none is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nodes.history.step import Step, as_tuple, decide
from turngraph.history import Fold
from turngraph.messages import MISSING_RESULT_TEXT, TOOL_CALL_TYPES, Message, missing_result
from turngraph.text import js_trim

FAILED = frozenset({"error", "aborted"})
UNKNOWN_TOOL = "unknown"


@dataclass(frozen=True, slots=True)
class Paired:
    """The working set with calls and results in order, and what it took.

    Attributes:
        added: synthetic results for calls without one.
        duplicates, orphans: results dropped because the call had one already, or because there is no such call.
        moved: whether anything changed, results moved up or named included.
    """

    messages: tuple[Message, ...]
    added: int = 0
    duplicates: int = 0
    orphans: int = 0
    moved: bool = False
    touched: tuple[Message, ...] = ()

    def step(self, before: int) -> Step:
        if not self.moved:
            return Step(self.messages)
        why = (
            f"calls and results paired: {self.added} missing results made, {self.duplicates} duplicates and "
            f"{self.orphans} orphans dropped, the rest put in order"
        )
        decision = decide("repaired", why, self.touched, before, len(self.messages))
        counts = {"added": self.added, "duplicates": self.duplicates, "orphans": self.orphans}
        return Step(self.messages, (replace(decision, data=counts),))


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    result: Message | None = None


@dataclass(slots=True)
class _Frame:
    """An assistant message with its calls, and what follows up to the next frame (results taken out)."""

    message: Message | None
    calls: list[_Call] = field(default_factory=list)
    rest: list[Message] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self.message is not None and self.message.raw.get("stopReason") in FAILED

    def open_call(self, call_id: str) -> _Call | None:
        return next((call for call in self.calls if call.id == call_id and call.result is None), None)


def pair_results(messages: Sequence[Message], now_ms: float) -> Paired:
    """Put one result behind every call, in call order.

    Args:
        messages: the working set, oldest first.
        now_ms: timestamp of results that are made up.

    Failed and aborted turns get no made-up results. Linear in the number of messages.

    Source: spec/context.md 4.2 (newer release).
    """
    order = _ORDER(messages)
    if order.holds and (order.failed or not order.waiting):
        return Paired(as_tuple(messages))
    frames, duplicates, orphans, touched = _frames(messages)
    out: list[Message] = []
    added = 0
    for frame in frames:
        if frame.message is not None:
            out.append(frame.message)
        for call in frame.calls:
            if call.result is not None:
                out.append(call.result)
            elif not frame.failed:
                out.append(missing_result(call.id, call.name, now_ms))
                touched.append(frame.message or out[-1])
                added += 1
        out.extend(frame.rest)
    if len(out) == len(messages) and all(new is old for new, old in zip(out, messages, strict=True)):
        return Paired(as_tuple(messages))
    return Paired(tuple(out), added, duplicates, orphans, True, tuple(touched))


@dataclass(frozen=True, slots=True)
class _Order:
    """How calls and results stand so far: the ids that wait for their result, of a turn that may have failed."""

    holds: bool = True
    waiting: tuple[str, ...] = ()
    failed: bool = False


def _in_order(known: _Order, messages: Iterable[Message], _start: int) -> _Order:
    """Go on looking whether every call has its named result right behind it, in call order: the usual case."""
    if not known.holds:
        return known
    waiting, failed = known.waiting, known.failed
    for message in messages:
        raw = message.raw
        role = raw.get("role")
        if role == "toolResult":
            if not waiting or raw.get("toolCallId") != waiting[0] or not message.fact("is named", _is_named):
                return _Order(holds=False)
            waiting = waiting[1:]
            continue
        if waiting and not failed:
            return _Order(holds=False)
        waiting = message.fact("call ids", _call_ids) if role == "assistant" else ()
        failed = raw.get("stopReason") in FAILED
    return _Order(True, waiting, failed)


_ORDER = Fold(_Order(), _in_order)


def _is_named(result: Message) -> bool:
    name = result.raw.get("toolName")
    return isinstance(name, str) and bool(name) and name == js_trim(name)


def _call_ids(message: Message) -> tuple[str, ...]:
    return tuple(call.id for call in _calls(message))


def _frames(messages: Sequence[Message]) -> tuple[list[_Frame], int, int, list[Message]]:
    frame = _Frame(None)
    frames = [frame]
    unresolved: dict[str, list[_Call]] = {}
    touched: list[Message] = []
    duplicates = orphans = 0
    for message in messages:
        role = message.raw.get("role")
        if role == "toolResult":
            outcome = _place(message, frame, unresolved)
            if outcome != "placed":
                touched.append(message)
                duplicates += outcome == "duplicate"
                orphans += outcome == "orphan"
        elif role == "assistant" and (calls := _calls(message)):
            if not frame.failed:
                for call in frame.calls:
                    if call.result is None:
                        unresolved.setdefault(call.id, []).append(call)
            frame = _Frame(message, calls)
            frames.append(frame)
        else:
            frame.rest.append(message)
    return frames, duplicates, orphans, touched


def _place(result: Message, frame: _Frame, unresolved: dict[str, list[_Call]]) -> str:
    """Give ``result`` to its call; say whether it was placed, a duplicate or an orphan."""
    call_id = result.tool_call_id
    call = frame.open_call(call_id) if call_id else None
    if call is not None:
        call.result = _named(result, call)
        return "placed"
    same = [call for call in frame.calls if call.id == call_id]
    if same:
        made_up = next((call for call in same if call.result and is_synthetic(call.result)), None)
        if made_up is not None and not is_synthetic(result):
            made_up.result = _named(result, made_up)
        return "duplicate"
    earlier = [call for call in unresolved.get(call_id, ()) if call.result is None]
    if len(earlier) == 1:
        earlier[0].result = _named(result, earlier[0])
        return "placed"
    if not call_id and len(frame.calls) == 1 and frame.calls[0].result is None:
        only = frame.calls[0]
        only.result = _named(result.evolve(toolCallId=only.id, isError=True), only)
        return "placed"
    return "orphan"


def _calls(message: Message) -> list[_Call]:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return []
    return [
        _Call(block["id"], block["name"] if isinstance(block.get("name"), str) else "")
        for block in content
        if isinstance(block, dict)
        and block.get("type") in TOOL_CALL_TYPES
        and isinstance(block.get("id"), str)
        and block["id"]
    ]


def _named(result: Message, call: _Call) -> Message:
    raw_name = result.raw.get("toolName")
    name = js_trim(raw_name) if isinstance(raw_name, str) else ""
    name = name or js_trim(call.name) or UNKNOWN_TOOL
    return result if name == raw_name else result.evolve(toolName=name)


def is_synthetic(result: Message) -> bool:
    """Whether a tool result was made up by a repair, here or in the original."""
    details: Any = result.raw.get("details")
    if isinstance(details, dict) and details.get("openclawSyntheticMissingToolResult") is True:
        return True
    return result.text == MISSING_RESULT_TEXT
