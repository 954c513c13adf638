"""Turn rules of providers: alternation, no dangling calls, a user's turn first (spec/context.md 4.3, known-faults 3).

Nothing a user wrote is lost here: turns of one role are joined, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from nodes.history.content import RESULT_BLOCK_TYPES, SILENT_ANSWERS, unsaid_answers
from nodes.history.pairing import FAILED
from nodes.history.provider_policy import TranscriptPolicy
from nodes.history.step import Pass, Rules, Step, as_tuple, chain, decide
from nodes.history.thinking import LONE_REASONING, has_thinking, strip_unsigned
from nodes.history.usage import zero_usage
from turngraph.decisions import Origin
from turngraph.history import Fold, places, replaced
from turngraph.messages import THINKING_TYPES, TOOL_CALL_TYPES, Message, text_block

CALLS_OMITTED = "[tool calls omitted]"
BOOTSTRAP_TEXT = "(session bootstrap)"
INTERRUPTED_TEXT = "(interrupted)"
_LATER_WINS = ("usage", "stopReason", "errorMessage")


def apply_turn_rules(messages: Sequence[Message], policy: TranscriptPolicy, now_ms: float) -> Step:
    """Bring a paired history into the turn order that the provider accepts."""
    signed, refuses_blank = policy.preserve_signatures, policy.full_clean_up or policy.alternates
    passes: list[Pass] = []
    if signed and has_thinking(messages):
        passes.append(lambda m: strip_unsigned(m, latest_too=True))
    failed = bool(_FAILED_TURNS(messages))
    if failed:
        passes.append(lambda m: drop_dangling(m, failed_only=True))
    passes.append(_answer_rules(failed and policy.responses, failed, refuses_blank, signed))
    if policy.alternates:
        passes.append(merge_assistants)
        passes.append(merge_users)
    if policy.results_before_user:
        passes.append(lambda m: answer_results(m, now_ms))
    if policy.google_ordering or policy.alternates:
        passes.append(lambda m: open_with_user(m, now_ms))
    return chain(messages, *passes)


_FAILED_TURNS = places(lambda message: message.raw.get("stopReason") in FAILED)


@cache
def _answer_rules(reasons: bool, failed: bool, refuses_blank: bool, signed: bool) -> Rules:
    unsaid = unsaid_answers(blank_text_refused=refuses_blank, keep_thinking=signed)
    return Rules(*(LONE_REASONING,) * reasons, *(SILENT_ANSWERS,) * failed, unsaid)


def merge_assistants(messages: Sequence[Message]) -> Step:
    """Join assistant messages in a row: fields of the first, usage and outcome of the last that has them."""

    def join(run: Sequence[Message]) -> Message:
        outcome = {key: m.raw[key] for m in run[1:] for key in _LATER_WINS if m.raw.get(key) is not None}
        return run[0].evolve(content=[block for m in run for block in _blocks(m)], **outcome)

    return _merge(messages, "assistant", join)


def merge_users(messages: Sequence[Message]) -> Step:
    """Join user messages in a row: all their blocks in order, other fields of the last."""

    def join(run: Sequence[Message]) -> Message:
        fields: dict[str, Any] = {}
        for message in run:
            fields |= {key: value for key, value in message.raw.items() if value is not None}
        if any(message.raw.get("provenance") != run[0].raw.get("provenance") for message in run):
            fields.pop("provenance", None)  # it would say of one sender's text that another wrote it
        return run[0].evolve(drop=("provenance",), **fields | {"content": [block for m in run for block in _blocks(m)]})

    return _merge(messages, "user", join)


def _merge(messages: Sequence[Message], role: str, join: Any) -> Step:
    if not _NEIGHBOURS[role](messages)[0]:
        return Step(as_tuple(messages))
    changes: dict[int, Message | None] = {}
    touched: list[Message] = []
    for run in _runs(messages, role):
        joined = tuple(messages[place] for place in run)
        touched.extend(joined)
        changes |= {run[0]: _joined(joined, join)} | dict.fromkeys(run[1:])
    out = replaced(messages, changes, ("joined", role))
    merged = len(messages) - len(out)
    why = f"{merged} {role} messages joined to the one before: the provider wants alternating turns"
    return Step(out, (decide("repaired", why, touched, len(messages), len(out)),))


def _runs(messages: Sequence[Message], role: str) -> Iterator[range]:
    """Yield the places of two and more messages of a role that follow each other."""
    start: int | None = None
    for place, message in enumerate((*messages, None)):
        if message is not None and message.raw.get("role") == role:
            start = place if start is None else start
        elif start is not None:
            if place - start > 1:
                yield range(start, place)
            start = None


def _joined(run: tuple[Message, ...], join: Callable[[Sequence[Message]], Message]) -> Message:
    return run[0].fact(("joined", *run[1:]), lambda _first: join(run))


def _neighbours(role: str) -> Fold[tuple[bool, Any]]:
    """Make the question whether two messages of a role follow each other; the answer also says what came last."""

    def step(known: tuple[bool, Any], messages: Iterable[Message], _start: int) -> tuple[bool, Any]:
        found, previous = known
        for message in messages:
            current = message.raw.get("role")
            found = found or current == role == previous
            previous = current
        return found, previous

    return Fold((False, None), step)


_NEIGHBOURS = {role: _neighbours(role) for role in ("user", "assistant")}


def _blocks(message: Message) -> list[Any]:
    content = message.raw.get("content")
    if isinstance(content, str):
        return [text_block(content)] if content else []
    return content if isinstance(content, list) else []


def drop_dangling(messages: Sequence[Message], *, failed_only: bool = False) -> Step:
    """Drop calls that no result answers before the next assistant message.

    A turn with thinking keeps all its calls or none, since its signature covers them. The calls of the newest
    message stay (their results are still to come), unless it failed. ``failed_only`` looks at failed messages alone:
    pairing has seen to the calls of all others.
    """
    looked_at = _FAILED_TURNS(messages) if failed_only else range(len(messages))
    changed: dict[int, Message | None] = {}
    for index in looked_at:
        message = messages[index]
        if message.raw.get("role") == "assistant":
            new, gone = _without_dangling(message, messages, index)
            if new is not message:
                changed[index] = new
                changed.update((place, None) for place in _results_of(gone, messages, index))
    if not changed:
        return Step(as_tuple(messages))
    out = replaced(messages, changed, ("without dangling calls", failed_only))
    touched = [messages[place] for place in sorted(changed)]
    why = f"{len(touched)} messages around calls that were never answered"
    return Step(out, (decide("repaired", why, touched, len(messages), len(out)),))


def _results_of(gone: set[str], messages: Sequence[Message], index: int) -> Iterator[int]:
    """Yield the places of results of calls that are gone, up to the next assistant message."""
    for place in range(index + 1, len(messages)):
        message = messages[place]
        role = message.raw.get("role")
        if role == "assistant":
            return
        if role == "toolResult" and message.tool_call_id in gone:
            yield place


def _without_dangling(message: Message, messages: Sequence[Message], index: int) -> tuple[Message, set[str]]:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message, set()
    calls = _call_ids(content)
    failed = message.raw.get("stopReason") in FAILED
    if not calls or (index == len(messages) - 1 and not failed):
        return message, set()
    answered = _answers_behind(messages, index)
    open_calls = set(calls) - answered
    if not open_calls:
        return message, set()
    if any(isinstance(block, dict) and block.get("type") in THINKING_TYPES for block in content):
        open_calls = set(calls)
    left = message.fact(("without calls", *sorted(open_calls)), lambda m: _without_calls(m, open_calls, failed))
    return left, open_calls


def _without_calls(message: Message, open_calls: set[str], failed: bool) -> Message:
    kept = [block for block in message.raw["content"] if _call_id(block) not in open_calls]
    return message.evolve(content=kept if kept or failed else [text_block(CALLS_OMITTED)])


def _call_ids(content: Sequence[Any]) -> list[str]:
    return [call_id for block in content if (call_id := _call_id(block)) is not None]


def _call_id(block: Any) -> str | None:
    if not isinstance(block, dict) or block.get("type") not in TOOL_CALL_TYPES:
        return None
    return block["id"] if isinstance(block.get("id"), str) else ""


def _answers_behind(messages: Sequence[Message], index: int) -> set[str]:
    answered: set[str] = set()
    for position in range(index + 1, len(messages)):
        raw: Mapping[str, Any] = messages[position].raw
        role = raw.get("role")
        if role == "assistant":
            break
        if role == "toolResult":
            answered.add(messages[position].tool_call_id)
        elif role == "user" and isinstance(raw.get("content"), list):
            for block in raw["content"]:
                if isinstance(block, dict) and block.get("type") in RESULT_BLOCK_TYPES:
                    answered |= {block[key] for key in ("toolUseId", "tool_use_id", "toolCallId") if block.get(key)}
    return answered


def answer_results(messages: Sequence[Message], now_ms: float) -> Step:
    """Put a short answer between a tool result and a user message: Mistral refuses the one right after the other."""
    out: list[Message] = []
    interrupted: list[Message] = []
    previous = None
    for message in messages:
        role = message.raw.get("role")
        if role == "user" and previous == "toolResult":
            interrupted.append(message)
            out.append(_interrupted(now_ms))
        out.append(message)
        previous = role
    if not interrupted:
        return Step(as_tuple(messages))
    why = f"{len(interrupted)} short answers put between a tool result and the user's next message"
    return Step(tuple(out), (decide("repaired", why, interrupted, len(messages), len(out)),))


def _interrupted(now_ms: float) -> Message:
    raw = {
        "role": "assistant",
        "content": [text_block(INTERRUPTED_TEXT)],
        "stopReason": "stop",
        "usage": zero_usage(),
        "timestamp": now_ms,
    }
    return Message(raw, Origin("synthetic", name="interrupted"), derived=True)


def open_with_user(messages: Sequence[Message], now_ms: float) -> Step:
    """Put a user turn in front of a history that begins with the assistant's."""
    if not messages or messages[0].raw.get("role") != "assistant":
        return Step(as_tuple(messages))
    raw = {"role": "user", "content": BOOTSTRAP_TEXT, "timestamp": now_ms}
    first = Message(raw, Origin("synthetic", name="session bootstrap"), derived=True)
    why = "history begins with an answer; a user turn was put in front"
    return Step((first, *messages), (decide("repaired", why, messages[:1], len(messages), len(messages) + 1),))
