"""The write guard: what of a message goes into the transcript, and results for calls that never got one.

A pure state machine: the pending calls and a message in, the messages to append and the new pending calls out.
Source: spec/context.md 5.1, spec/sessions.md 5.1, design decision 7.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodes.history.pairing import FAILED, UNKNOWN_TOOL
from nodes.history.tool_inputs import clean_tool_calls
from turngraph.decisions import Decision
from turngraph.messages import Message, missing_result, text_block
from turngraph.text import js_trim
from turngraph.truncation import STORED_CAP_CHARS, cap_details, result_chars, truncate_result

NODE = "guard_tools"
BLOCKED_RESULT = "[tool result withheld by a plugin]"
PROVENANCE_KINDS = frozenset({"external_user", "inter_session", "internal_system"})


@dataclass(frozen=True, slots=True)
class ResultFacts:
    """What a ``tool_result_persist`` hook is told besides the message."""

    tool_name: str | None
    tool_call_id: str
    synthetic: bool


def _pass_on(message: Message, _facts: ResultFacts) -> Message:
    return message


def _write(message: Message) -> Message | None:
    return message


@dataclass(frozen=True, slots=True)
class WriteRules:
    """How the guard works for one run.

    Attributes:
        allowed_tools: names of this run's tools; ``None`` or empty allows all.
        synthetic_results: whether calls without a result get a made-up one (the provider's policy).
        cap_chars: largest stored tool result, in weighted characters.
        provenance: given to user messages that have none.
        on_result: hook on each tool result. on_write: hook on each message; ``None`` keeps it out of the transcript.
    """

    allowed_tools: Collection[str] | None = None
    synthetic_results: bool = True
    cap_chars: int = STORED_CAP_CHARS
    provenance: Mapping[str, Any] | None = None
    on_result: Callable[[Message, ResultFacts], Message] = _pass_on
    on_write: Callable[[Message], Message | None] = _write


@dataclass(frozen=True, slots=True)
class Guarded:
    """Messages to append, in order, the calls that now wait for a result (id to tool name), and what was decided."""

    writes: tuple[Message, ...]
    pending: Mapping[str, str] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()


def guard_write(message: Message, pending: Mapping[str, str], rules: WriteRules, now_ms: float) -> Guarded:
    """Decide what is appended for ``message`` while the calls of ``pending`` wait for their results."""
    if message.role == "toolResult":
        return _guard_result(message, pending, rules)
    if message.role == "assistant":
        cleaned = clean_tool_calls((message,), rules.allowed_tools)
        if not cleaned.messages:
            flushed = flush_pending(pending, rules, now_ms)
            why = f"answer of nothing but {cleaned.dropped_calls} unusable tool calls"
            return Guarded(flushed.writes, {}, (*flushed.decisions, Decision(NODE, "dropped", why)))
        decisions = cleaned.step.decisions
        message = cleaned.messages[0]
    else:
        message, decisions = _with_provenance(message, rules.provenance), ()
    # Whatever is not a result ends the round: what is still open will not be answered any more.
    flushed = flush_pending(pending, rules, now_ms)
    written = rules.on_write(message)
    decisions = (*flushed.decisions, *decisions)
    if written is None:
        return Guarded(flushed.writes, {}, (*decisions, Decision(NODE, "dropped", f"{message.role} message: hook")))
    return Guarded((*flushed.writes, written), _calls_of(written), decisions)


def flush_pending(pending: Mapping[str, str], rules: WriteRules, now_ms: float) -> Guarded:
    """Make error results for calls that have none, in call order; without synthetic results just forget them."""
    if not pending:
        return Guarded(())
    if not rules.synthetic_results:
        why = f"{len(pending)} calls without a result; the provider wants no made-up ones"
        return Guarded((), {}, (Decision(NODE, "skipped", why),))
    writes: list[Message] = []
    for call_id, name in pending.items():
        made_up = missing_result(call_id, name, now_ms)
        hooked = rules.on_result(made_up, ResultFacts(name or None, call_id, synthetic=True))
        written = rules.on_write(hooked)
        writes.append(_blocked(made_up) if written is None else written)
    why = f"{len(writes)} results made up for calls that never got one"
    return Guarded(tuple(writes), {}, (Decision(NODE, "repaired", why, count_after=len(writes)),))


def _guard_result(message: Message, pending: Mapping[str, str], rules: WriteRules) -> Guarded:
    call_id = message.tool_call_id
    named = _named(message, pending.get(call_id))
    left = {key: name for key, name in pending.items() if key != call_id}
    hooked = rules.on_result(named, ResultFacts(named.tool_name or None, call_id, synthetic=False))
    written = rules.on_write(hooked)
    if written is None:
        return Guarded((_blocked(named),), left, (Decision(NODE, "cleared", "tool result kept out by a hook"),))
    # The cap comes after the hooks, which may have made the result longer.
    capped = cap_details(truncate_result(written, rules.cap_chars))
    return Guarded((capped,), left, _cap_decision(written, capped, rules.cap_chars))


def _cap_decision(before: Message, after: Message, cap_chars: int) -> tuple[Decision, ...]:
    if after is before:
        return ()
    was, now = result_chars(before), result_chars(after)
    why = f"result of {before.tool_name or UNKNOWN_TOOL}: {was} weighted characters, stored {now}, cap {cap_chars}"
    return (Decision(NODE, "truncated", why, chars_before=was, chars_after=now),)


def _named(message: Message, pending_name: str | None) -> Message:
    raw_name = message.raw.get("toolName")
    name = js_trim(raw_name) if isinstance(raw_name, str) else ""
    name = name or pending_name or UNKNOWN_TOOL
    return message if name == raw_name else message.evolve(toolName=name)


def _blocked(message: Message) -> Message:
    return message.evolve(drop=("details",), content=[text_block(BLOCKED_RESULT)])


def _with_provenance(message: Message, provenance: Mapping[str, Any] | None) -> Message:
    if provenance is None or message.role != "user":
        return message
    own = message.raw.get("provenance")
    valid = isinstance(own, Mapping) and own.get("kind") in PROVENANCE_KINDS
    return message if valid else message.evolve(provenance=dict(provenance))


def _calls_of(message: Message) -> dict[str, str]:
    if message.role != "assistant" or message.stop_reason in FAILED:
        return {}
    return {call.id: call.name for call in message.tool_calls if call.id}
