"""usage: what providers reported about the size of a prompt, and the size of a context by it.

Source: spec/compaction.md 1.2, 2.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import orjson

from turngraph.messages import Message
from turngraph.tokens import Counter

_NAMES: dict[str, tuple[str, ...]] = {
    "input": ("input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"),
    "output": ("output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"),
    "cacheRead": ("cacheRead", "cache_read", "cache_read_input_tokens", "cached_tokens"),
    "cacheWrite": ("cacheWrite", "cache_write", "cache_creation_input_tokens"),
    "total": ("total", "totalTokens", "total_tokens"),
}
_PROMPT_PARTS = ("input", "cacheRead", "cacheWrite")
GROWTH_LIMIT_RATIO = 1.1  # an estimate above this share of the size before says nothing


@dataclass(frozen=True, slots=True)
class ContextSize:
    """Size of a context: what the last answer reported, plus the count of what came after it.

    Attributes:
        tokens: the sum.
        usage_tokens: reported; 0 when no answer reported any.
        trailing_tokens: counted by us.
        usage_index: index of the answer that reported.
    """

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    usage_index: int | None


def normalise_usage(usage: Any) -> dict[str, float] | None:
    """Return a provider's usage under our names (those it gives); ``None`` when it is none."""
    if not isinstance(usage, Mapping):
        return None
    found: dict[str, float] = {}
    for name, spellings in _NAMES.items():
        values = [usage.get(spelling) for spelling in spellings]
        if name == "cacheRead" and isinstance(usage.get("prompt_tokens_details"), Mapping):
            values.append(usage["prompt_tokens_details"].get("cached_tokens"))
        value = next((value for value in values if _is_number(value)), None)
        if value is not None:
            found[name] = max(0, value) if name == "input" else value
    return found or None


def add_usage(sums: dict[str, float], usage: Any) -> None:
    """Add what one call used to ``sums``, by our names; the total is not summed."""
    for name, value in (normalise_usage(usage) or {}).items():
        if name != "total":
            sums[name] = sums.get(name, 0) + value


def last_nonzero_usage(lines: Iterable[bytes]) -> dict[str, float] | None:
    """Return the newest usage above zero of transcript lines, given newest first; broken lines are skipped."""
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        message = row.get("message") if isinstance(row, dict) else None
        usage = normalise_usage(message.get("usage")) if isinstance(message, dict) else None
        usage = usage or (normalise_usage(row.get("usage")) if isinstance(row, dict) else None)
        if usage and any(value > 0 for value in usage.values()):
            return usage
    return None


def prompt_tokens(usage: Mapping[str, float] | None) -> int | None:
    """Return the size of the prompt that a normalised usage reports; ``None`` when it reports none."""
    tokens = sum(usage.get(part, 0) for part in _PROMPT_PARTS) if usage else 0
    return int(tokens) or None


def usage_context_tokens(usage: Mapping[str, Any]) -> int:
    """Return the context size after an answer: its total, else the sum of its parts."""
    counts = normalise_usage(usage) or {}
    return int(counts.get("total") or sum(counts.get(part, 0) for part in (*_PROMPT_PARTS, "output")))


def context_size(messages: Sequence[Message], counter: Counter) -> ContextSize:
    """Measure a context from the last good answer that reported a usage; usages of zero are passed over."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role != "assistant" or message.stop_reason in ("aborted", "error") or message.usage is None:
            continue
        reported = usage_context_tokens(message.usage)
        if reported > 0:
            trailing = sum(counter.message(later) for later in messages[index + 1 :])
            return ContextSize(reported + trailing, reported, trailing, index)
    counted = sum(counter.message(message) for message in messages)
    return ContextSize(counted, 0, counted, None)


def plausible_tokens_after(tokens_after: int, tokens_before: int, observed_tokens: int | None = None) -> int | None:
    """Return the size after a compaction; ``None`` when it is larger than what was there before."""
    if tokens_after <= 0 or tokens_after > tokens_before * GROWTH_LIMIT_RATIO:
        return None
    if observed_tokens is not None and tokens_after > observed_tokens:
        return None
    return tokens_after


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
