"""loop_detection: notice a model that makes the same calls again and again without getting anywhere.

A warning goes into the tool result, so that the model can change course; a critical finding blocks the call.
Source: spec/context.md section 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from turngraph.messages import compact_json
from turngraph.text import js_trim

if TYPE_CHECKING:
    from turngraph.config.schema_tools import LoopDetection

Detector = Literal[
    "global_circuit_breaker", "unknown_tool_repeat", "known_poll_no_progress", "ping_pong", "generic_repeat"
]
UNKNOWN_TOOL_LIMIT = 10
_WARNED_KEYS = 256
_POLL_ACTIONS = frozenset({"poll", "log"})
# What of a poll's details tells progress; the rest (times, counters) changes on every call.
_POLL_FIELDS: Mapping[str, tuple[str, ...]] = {
    "poll": ("exitCode", "exitSignal", "aggregated"),
    "log": ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal"),
}
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call that was made: its hash, and the hash of what came back (``None`` while it runs)."""

    tool: str
    call: str
    outcome: str | None = None
    unknown_tool: bool = False


@dataclass(frozen=True, slots=True)
class LoopVerdict:
    """What was noticed about the next call.

    Attributes:
        level: ``critical`` blocks the call, ``warning`` is told to the model.
        count: repetitions so far. key: what repeats. paired_tool: the other tool of a ping-pong.
        message: for the model.
    """

    level: Literal["warning", "critical"]
    detector: Detector
    count: int
    key: str
    message: str
    paired_tool: str | None = None


def _stable_json(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{compact_json(key)}:{_stable_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_stable_json, value)) + "]"
    # The original writes an absent status like this; the same text gives the same key.
    return "undefined" if value is _ABSENT else compact_json(value)


def _digest(value: Any) -> str:
    return sha256(_stable_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def call_hash(tool: str, params: Any) -> str:
    """Return what makes two calls the same: the tool and its arguments, in whatever order.

    >>> call_hash("read", {"b": 1, "a": "x"}) == call_hash("read", {"a": "x", "b": 1})
    True
    """
    return f"{tool}:{_digest(params)}"


def is_poll(tool: str, params: Any) -> bool:
    """Whether a call waits for something, so that repeating it is meant."""
    if tool == "command_status":
        return True
    return tool == "process" and isinstance(params, Mapping) and params.get("action") in _POLL_ACTIONS


def outcome_hash(tool: str, params: Any, result: Mapping[str, Any] | None, error: str | None = None) -> str:
    """Return what makes two outcomes the same; two calls that end in the same outcome made no progress."""
    if error is not None:
        return f"error:{_digest(error)}"
    content = (result or {}).get("content")
    texts = [b["text"] for b in content or () if isinstance(b, Mapping) and isinstance(b.get("text"), str)]
    text = js_trim("\n".join(texts))
    details = (result or {}).get("details")
    if tool == "process" and is_poll(tool, params):
        known = details if isinstance(details, Mapping) else {}
        told = {name: known.get(name) for name in _POLL_FIELDS[params["action"]]}
        return _digest({"action": params["action"], "status": known.get("status", _ABSENT), "text": text} | told)
    return _digest({"details": details, "text": text})


def detect_loop(records: Sequence[CallRecord], tool: str, params: Any, rules: LoopDetection) -> LoopVerdict | None:
    """Judge the next call by the calls before it, oldest first; the first rule that fits decides."""
    if not rules.enabled:
        return None
    call = call_hash(tool, params)
    streak, outcome = _same_outcome_streak(records, call)
    if streak >= rules.global_circuit_breaker_threshold:
        return _critical("global_circuit_breaker", streak, f"global:{tool}:{call}:{outcome}", tool)
    if rules.detectors.unknown_tool_repeat:
        unknown = _trailing_unknown(records, tool)
        if unknown >= UNKNOWN_TOOL_LIMIT:
            return _critical("unknown_tool_repeat", unknown, f"unknown-tool:{tool}:{tool}", tool)
    poll = is_poll(tool, params)
    if poll and rules.detectors.known_poll_no_progress and streak >= rules.warning_threshold:
        judge = _critical if streak >= rules.critical_threshold else _warning
        return judge("known_poll_no_progress", streak, f"poll:{tool}:{call}:{outcome}", tool)
    if rules.detectors.ping_pong and (verdict := _ping_pong(records, call, tool, rules)):
        return verdict
    repeats = sum(record.call == call for record in records)
    if not poll and rules.detectors.generic_repeat and repeats >= rules.warning_threshold:
        return _warning("generic_repeat", repeats, f"generic:{tool}:{call}", tool)
    return None


def _same_outcome_streak(records: Sequence[CallRecord], call: str) -> tuple[int, str | None]:
    streak, outcome = 0, None
    for record in reversed(records):
        if record.call != call or record.outcome is None:
            continue
        if outcome is not None and record.outcome != outcome:
            break
        streak, outcome = streak + 1, record.outcome
    return streak, outcome


def _trailing_unknown(records: Sequence[CallRecord], tool: str) -> int:
    count = 0
    for record in reversed(records):
        if record.tool == tool:
            if not record.unknown_tool:
                break
            count += 1
    return count


def _ping_pong(records: Sequence[CallRecord], call: str, tool: str, rules: LoopDetection) -> LoopVerdict | None:
    if len(records) < 2 or records[-1].call == call or records[-2].call != call:
        return None
    pair = (records[-1].call, call)
    tail: list[CallRecord] = []
    for record in reversed(records):
        if record.call != pair[len(tail) % 2]:
            break
        tail.append(record)
    count = len(tail) + 1
    if count < rules.warning_threshold:
        return None
    outcomes = [{record.outcome for record in tail[side::2]} for side in (0, 1)]
    constant = all(len(side) == 1 and None not in side for side in outcomes)
    judge = _critical if count >= rules.critical_threshold and constant else _warning
    other = records[-1].tool
    return replace(judge("ping_pong", count, "pingpong:" + "|".join(sorted(pair)), tool), paired_tool=other)


def _warning(detector: Detector, count: int, key: str, tool: str) -> LoopVerdict:
    text = f"Note: {tool} was called {count} times without anything new ({detector}). Try another way or ask the user."
    return LoopVerdict("warning", detector, count, key, text)


def _critical(detector: Detector, count: int, key: str, tool: str) -> LoopVerdict:
    text = f"Blocked: {tool} was called {count} times without progress ({detector}). Do something else or end the turn."
    return LoopVerdict("critical", detector, count, key, text)


@dataclass(slots=True)
class LoopWatch:
    """The memory of one run: what was called, what came back, and what the model was already told."""

    rules: LoopDetection
    records: tuple[CallRecord, ...] = ()
    _warned: dict[str, int] = field(default_factory=dict)

    def before(self, tool: str, params: Any) -> LoopVerdict | None:
        """Judge a call that is about to run and remember it; a warning comes once per ten further repetitions."""
        verdict = detect_loop(self.records, tool, params, self.rules)
        if verdict is None or verdict.level == "warning":
            self.records = (*self.records, CallRecord(tool, call_hash(tool, params)))[-self.rules.history_size :]
        if verdict is not None and verdict.level == "warning" and not self._is_new(verdict):
            return None
        return verdict

    def after(
        self,
        tool: str,
        params: Any,
        result: Mapping[str, Any] | None,
        error: str | None = None,
        *,
        unknown_tool: bool = False,
    ) -> None:
        """Remember what a call gave: ``result`` with content and details, or the text of an error."""
        call = call_hash(tool, params)
        for index in range(len(self.records) - 1, -1, -1):
            record = self.records[index]
            if record.call == call and record.outcome is None:
                outcome = outcome_hash(tool, params, result, error)
                finished = replace(record, outcome=outcome, unknown_tool=unknown_tool)
                self.records = (*self.records[:index], finished, *self.records[index + 1 :])
                return

    def _is_new(self, verdict: LoopVerdict) -> bool:
        step = verdict.count // self.rules.warning_threshold
        if self._warned.get(verdict.key, 0) >= step:
            return False
        self._warned[verdict.key] = step
        while len(self._warned) > _WARNED_KEYS:
            del self._warned[next(iter(self._warned))]
        return True
