"""Tool-call ids in the form that a provider takes; the transcript keeps what the model wrote.

Source: spec/context.md 4.2, known-faults 3.5 and 3.6.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from itertools import count
from typing import Any

from nodes.history.pairing import FAILED
from nodes.history.provider_policy import IdMode
from nodes.history.step import Rule, Step, as_tuple, decide
from turngraph.history import Fold, replaced
from turngraph.messages import TOOL_CALL_TYPES, Message

MAX_STRICT_CHARS = 40
MAX_OPENAI_CHARS = 64
STRICT9_CHARS = 9
RESULT_ID_KEYS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id")
_ALIAS_KEYS = frozenset(RESULT_ID_KEYS[1:])
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_STRICT = re.compile(rf"[A-Za-z0-9]{{1,{MAX_STRICT_CHARS}}}")
_STRICT9 = re.compile(rf"[A-Za-z0-9]{{{STRICT9_CHARS}}}")
_KIMI = re.compile(r"functions\.[A-Za-z0-9_-]+:\d+")
_ANTHROPIC = re.compile(r"toolu_[A-Za-z0-9_-]{1,58}")
# Either part of ``call|item`` of the Responses API may be this long.
_OPENAI = re.compile(rf"[^|\s]{{1,{MAX_OPENAI_CHARS}}}(?:\|[^|\s]{{1,{MAX_OPENAI_CHARS}}})?")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def clean_id(call_id: str, mode: IdMode) -> str:
    """Return ``call_id`` in the form of ``mode``, without looking at other ids.

    >>> clean_id("call_abc-123", "strict"), clean_id("call_abc-123", "strict9"), clean_id("a1", "strict9")
    ('callabc123', 'callabc12', 'f55ff16f6')
    """
    cleaned = _NOT_ALPHANUMERIC.sub("", call_id)
    if mode == "strict":
        return cleaned or ("sanitizedtoolid" if call_id else "defaulttoolid")
    if not call_id:
        return "defaultid"
    return cleaned[:STRICT9_CHARS] if len(cleaned) >= STRICT9_CHARS else _digest(cleaned or "sanitized")[:STRICT9_CHARS]


def _strict_candidates(seed: str) -> Sequence[str] | Any:
    base = clean_id(seed, "strict")[:MAX_STRICT_CHARS]
    yield base
    tag = _digest(seed)[:8]
    tagged = base[: MAX_STRICT_CHARS - len(tag)] + tag
    yield tagged
    for number in count(2):
        suffix = f"x{number}"
        yield tagged[: MAX_STRICT_CHARS - len(suffix)] + suffix


def _strict9_candidates(seed: str) -> Any:
    yield clean_id(seed, "strict9")
    for number in count():
        yield _digest(f"{seed}:{number}")[:STRICT9_CHARS]


def _openai_candidates(seed: str) -> Any:
    if _OPENAI.fullmatch(seed) and not re.search(r":\d+$", seed):
        yield seed
    for number in count():
        yield "call_" + _digest(f"{seed}:{number}")[:24]


class _Allocator:
    """Hands out new ids in message order, one for each call, and remembers them for the results."""

    def __init__(self, candidates: Callable[[str], Any], keeps: Callable[[str], bool]) -> None:
        self._candidates = candidates
        self._keeps = keeps
        self._taken: set[str] = set()
        self._occurrence: dict[str, int] = defaultdict(int)
        self._stray: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, deque[str]] = defaultdict(deque)
        self._of_failed: list[tuple[str, str]] = []

    def turn(self) -> None:
        """Begin an answer: what an earlier failed one called will get no result any more."""
        for raw, new in self._of_failed:
            if new in self._waiting[raw]:
                self._waiting[raw].remove(new)
        self._of_failed = []

    def call(self, raw: str, *, failed: bool) -> str:
        self._occurrence[raw] += 1
        number = self._occurrence[raw]
        new = self._free(raw if number == 1 else f"{raw}:{number}", raw if number == 1 else None)
        self._waiting[raw].append(new)
        if failed:
            self._of_failed.append((raw, new))
        return new

    def result(self, raw: str) -> str:
        waiting = self._waiting.get(raw)
        if waiting:
            return waiting.popleft()
        self._stray[raw] += 1
        return self._free(f"{raw}:tool_result:{self._stray[raw]}", None)

    def _free(self, seed: str, as_it_is: str | None) -> str:
        if as_it_is is not None and self._keeps(as_it_is) and as_it_is not in self._taken:
            self._taken.add(as_it_is)
            return as_it_is
        new: str = next(candidate for candidate in self._candidates(seed) if candidate not in self._taken)
        self._taken.add(new)
        return new


@dataclass(frozen=True, slots=True)
class _Ids:
    """Ids of the calls so far, and those that wait for a result."""

    taken: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()


class IdForm:
    """A form of tool-call ids; :func:`id_form` gives the one object of each, so that facts about it are kept."""

    def __init__(self, mode: IdMode | None, *, keep_kimi: bool, keep_anthropic: bool, openai_style: bool) -> None:
        self.name = mode or "openai"
        self._accepted: tuple[re.Pattern[str], ...] = (_STRICT9,)
        self.candidates: Callable[[str], Any] = _strict9_candidates
        if mode is None or openai_style:
            self.candidates, self._accepted = _openai_candidates, (_OPENAI,)
        elif mode == "strict":
            self.candidates, self._accepted = _strict_candidates, (_STRICT,)
        self.of: Fold[_Ids | None] = Fold(_Ids(), self._follow)
        if mode != "strict9":
            self._accepted += (_KIMI,) * keep_kimi + (_ANTHROPIC,) * keep_anthropic

    def accepts(self, call_id: str) -> bool:
        """Whether an id may stay as it is."""
        return any(pattern.fullmatch(call_id) for pattern in self._accepted)

    def _follow(self, known: _Ids | None, messages: Iterable[Message], _start: int) -> _Ids | None:
        """Go on looking whether every id has this form and is used by one call and its results: the usual case."""
        if known is None:
            return None
        taken, waiting = set(known.taken), set(known.waiting)
        for message in messages:
            role = message.raw.get("role")
            if role == "assistant":
                ids = message.fact(self, self.fitting_calls)
                if ids is None:
                    return None
                waiting = set(ids)
                if len(waiting) != len(ids) or not taken.isdisjoint(waiting):
                    return None
                taken |= waiting
            elif role == "toolResult":
                call_id = message.fact("only call id", _only_call_id)
                if call_id not in waiting:
                    return None
                waiting.discard(call_id)
        return _Ids(frozenset(taken), frozenset(waiting))

    def fitting_calls(self, message: Message) -> tuple[str, ...] | None:
        """Return the ids of a message's calls, ``None`` when one of them is missing or has another form."""
        content = message.raw.get("content")
        ids: list[str] = []
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES:
                call_id = block.get("id")
                if not isinstance(call_id, str) or not self.accepts(call_id):
                    return None
                ids.append(call_id)
        return tuple(ids)


@cache
def id_form(
    mode: IdMode | None, *, keep_kimi: bool = False, keep_anthropic: bool = False, openai_style: bool = False
) -> IdForm:
    """Return the form that a provider asks for; see :func:`rename_ids`."""
    return IdForm(mode, keep_kimi=keep_kimi, keep_anthropic=keep_anthropic, openai_style=openai_style)


def rename_ids(
    messages: Sequence[Message],
    mode: IdMode | None,
    *,
    keep_kimi: bool = False,
    keep_anthropic: bool = False,
    openai_style: bool = False,
) -> Step:
    """Give calls and their results unique ids of the form that ``mode`` asks for.

    Args:
        messages: the working set, oldest first.
        mode: ``strict`` (letters and digits, at most 40), ``strict9`` (exactly nine); ``None`` and ``openai_style``
            keep what OpenAI takes and rename only what is too long or used twice.
        keep_kimi, keep_anthropic: leave native ids of these models as they are.

    The same history gives the same ids, so that the prompt prefix stays the same from turn to turn.
    """
    form = id_form(mode, keep_kimi=keep_kimi, keep_anthropic=keep_anthropic, openai_style=openai_style)
    if form.of(messages) is not None:
        return Step(as_tuple(messages))
    allocator = _Allocator(form.candidates, form.accepts)
    changes: dict[int, Message | None] = {}
    for place, message in enumerate(messages):
        role = message.raw.get("role")
        new = message
        if role == "assistant":
            new = _rename_calls(message, allocator)
        elif role == "toolResult":
            new = _rename_result(message, allocator)
        if new is not message:
            changes[place] = new
    if not changes:
        return Step(as_tuple(messages))
    touched = [messages[place] for place in changes]
    why = f"tool-call ids of {len(touched)} messages rewritten ({form.name} form)"
    out = replaced(messages, changes, form)
    return Step(out, (decide("repaired", why, touched, len(messages), len(out)),))


def _only_call_id(result: Message) -> Any:
    """Return the id of a result's call when it stands under its proper name alone."""
    raw = result.raw
    return raw.get("toolCallId") if _ALIAS_KEYS.isdisjoint(raw) else None


def _rename_calls(message: Message, allocator: _Allocator) -> Message:
    content = message.raw.get("content")
    if not isinstance(content, list):
        return message
    new_ids: list[tuple[int, str]] = []
    failed = message.raw.get("stopReason") in FAILED
    allocator.turn()
    for index, block in enumerate(content):
        if not isinstance(block, dict) or block.get("type") not in TOOL_CALL_TYPES:
            continue
        raw = block.get("id")
        if isinstance(raw, str) and raw and (new := allocator.call(raw, failed=failed)) != raw:
            new_ids.append((index, new))
    if not new_ids:
        return message
    return message.fact(("call ids", *new_ids), lambda m: _with_ids(m, new_ids))


def _with_ids(message: Message, new_ids: Sequence[tuple[int, str]]) -> Message:
    blocks = list(message.raw["content"])
    for index, new in new_ids:
        blocks[index] = {**blocks[index], "id": new}
    return message.evolve(content=blocks)


def _rename_result(message: Message, allocator: _Allocator) -> Message:
    if isinstance(only := _only_call_id(message), str) and only:
        new = allocator.result(only)
        return message if new == only else message.fact(("ids", new), lambda m: m.evolve(toolCallId=new))
    found = {
        key: message.raw[key] for key in RESULT_ID_KEYS if isinstance(message.raw.get(key), str) and message.raw[key]
    }
    new_by_raw: dict[str, str] = {}
    for raw in found.values():
        if raw not in new_by_raw:
            new_by_raw[raw] = allocator.result(raw)
    changes = {key: new_by_raw[raw] for key, raw in found.items() if new_by_raw[raw] != raw}
    if found and "toolCallId" not in found:
        changes["toolCallId"] = next(iter(new_by_raw.values()))
    return message.fact(("ids", *changes.items()), lambda m: m.evolve(**changes)) if changes else message


def _with_call_id(message: Message) -> Message:
    if message.tool_call_id:
        return message
    found = (message.raw.get(key) for key in RESULT_ID_KEYS)
    call_id = next((value for value in found if isinstance(value, str) and value), None)
    return message.evolve(toolCallId=call_id) if call_id else message


RESULT_IDS = Rule(_with_call_id, frozenset({"toolResult"}), "tool results with the id of their call under another name")
