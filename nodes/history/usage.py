"""Usage figures of assistant messages: complete, numeric, and none that speaks of a prompt that is gone.

Source: spec/context.md 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from nodes.history.step import Rule, Step, as_tuple
from turngraph.clock import parse_iso, to_ms
from turngraph.history import places
from turngraph.messages import ZERO_USAGE, Message

_SOURCES: Mapping[str, tuple[str, ...]] = {
    "input": ("input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"),
    "output": ("output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"),
    "cacheRead": ("cacheRead", "cache_read", "cache_read_input_tokens", "cached_tokens"),
    "cacheWrite": ("cacheWrite", "cache_write", "cache_creation_input_tokens"),
    "totalTokens": ("total", "totalTokens", "total_tokens"),
}
_SUMMARIES = places(lambda message: message.raw.get("role") == "compactionSummary")
_PARTS = ("input", "output", "cacheRead", "cacheWrite")


def strip_stale_usage(messages: Sequence[Message]) -> Step:
    """Zero the usage of answers from before the newest compaction: it counts a prompt that no longer exists."""
    summaries = _SUMMARIES(messages)
    if not summaries:
        return Step(as_tuple(messages))
    cut = summaries[-1]
    folded_at = _time_ms(messages[cut].raw.get("timestamp"))
    older = {id(message) for message in messages[:cut]}

    def rule(message: Message) -> Message:
        usage = message.raw.get("usage")
        if not isinstance(usage, dict) or usage == ZERO_USAGE:
            return message
        at = _time_ms(message.raw.get("timestamp"))
        stale = id(message) in older or (at is not None and folded_at is not None and at <= folded_at)
        return message.fact("usage zeroed", _zeroed) if stale else message

    return Rule(rule, frozenset({"assistant"}), "answers from before the compaction", None)(messages)


def _zeroed(message: Message) -> Message:
    return message.evolve(usage=zero_usage())


def zero_usage() -> dict[str, Any]:
    """Return a new usage of zeros."""
    return {**ZERO_USAGE, "cost": dict(ZERO_USAGE["cost"])}


def _time_ms(value: Any) -> float | None:
    if isinstance(value, str):
        moment = parse_iso(value)
        return to_ms(moment) if moment else None
    return _number(value)


def _with_usage(message: Message) -> Message:
    usage = message.raw.get("usage")
    if isinstance(usage, dict) and _is_complete(usage):
        return message
    normal = normal_usage(usage if isinstance(usage, dict) else {})
    return message if normal == usage else message.evolve(usage=normal)


# Whatever names the provider used for its figures.
ENSURE_USAGE = Rule(_with_usage, frozenset({"assistant"}), "answers given a complete usage", None)


def _is_complete(usage: Mapping[str, Any]) -> bool:
    cost = usage.get("cost")
    return (
        len(usage) <= len(_PARTS) + 2
        and type(usage.get("input")) is int
        and type(usage.get("output")) is int
        and type(usage.get("cacheRead")) is int
        and type(usage.get("cacheWrite")) is int
        and type(usage.get("totalTokens")) is int
        and usage["input"] >= 0 <= usage["output"]
        and (cost is None or (isinstance(cost, dict) and len(cost) == len(_PARTS) + 1))
    )


def normal_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``usage`` in the transcript's own names; nothing known gives zeros with zero cost."""
    found = {name: _first(usage, keys) for name, keys in _SOURCES.items()}
    if found["cacheRead"] is None and isinstance(details := usage.get("prompt_tokens_details"), dict):
        found["cacheRead"] = _number(details.get("cached_tokens"))
    if all(value is None for value in found.values()):
        return zero_usage()
    parts: dict[str, Any] = {name: max(0, found[name] or 0) for name in _PARTS}
    total = found["totalTokens"]
    parts["totalTokens"] = sum(parts.values()) if total is None else max(0, total)
    cost = _normal_cost(usage.get("cost"))
    return parts | ({"cost": cost} if cost else {})


def _normal_cost(cost: Any) -> dict[str, float] | None:
    if not isinstance(cost, dict):
        return None
    known = {name: _number(cost.get(name)) for name in (*_PARTS, "total")}
    if all(value is None for value in known.values()):
        return None
    parts = {name: known[name] or 0 for name in _PARTS}
    total = known["total"]
    return parts | {"total": sum(parts.values()) if total is None else total}


def _first(usage: Mapping[str, Any], keys: Sequence[str]) -> float | None:
    for key in keys:
        if key in usage and (number := _number(usage[key])) is not None:
            return number
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value
