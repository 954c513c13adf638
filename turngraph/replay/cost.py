"""What a request would have cost: a model of the provider's prompt cache, and prices with their date.

The model is ours: the longest common prefix with the previous request within the cache's time to live is read from
the cache, the rest of a cacheable request is written to it. Pure. Source: spec/seeing.md section 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from turngraph.config.schema_root import Cost, Models
from turngraph.models.table import packaged_facts, packaged_table
from turngraph.tokens import Counter

PER = 1_000_000  # prices are per million tokens
ONE_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a request, in the order in which the provider reads it; ``key`` tells equal parts."""

    key: bytes | str
    tokens: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in USD per million tokens, and where they come from."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    source: str

    def of(self, read: int, written: int, plain: int, output: int) -> float:
        """Return what the tokens of a call cost, in USD."""
        return (read * self.cache_read + written * self.cache_write + plain * self.input + output * self.output) / PER


@dataclass(frozen=True, slots=True)
class CallCost:
    """One model call under the cost model.

    Attributes:
        prompt_tokens: of the request; it is the sum of the next three.
        cache_read, cache_write, uncached: tokens read from the cache, written to it, and neither.
        output_tokens: of the answer. usd: under the prices used, ``None`` where the model has no price.
        warm: whether an earlier request was still in the cache.
    """

    prompt_tokens: int
    cache_read: int
    cache_write: int
    uncached: int
    output_tokens: int
    usd: float | None
    warm: bool

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return asdict(self)


def prices_of(model: str, models: Models, cost: Cost) -> Prices | None:
    """Return the prices of ``provider:model``: the settings first, then the packaged table; ``None`` if unknown.

    Cache prices that nobody names are the input price; a time to live of an hour or more takes the hour's write price.
    """
    provider, _, model_id = model.partition(":")
    own = models.providers.get(provider)
    entry = next((entry for entry in own.models if entry.id == model_id), None) if own else None
    ours: Mapping[str, float | None] = entry.cost.model_dump(by_alias=True) if entry else {}
    facts = packaged_facts(provider, model_id)
    table: Mapping[str, float] = facts.cost if facts else {}
    known: dict[str, float] = {**table, **{key: value for key, value in ours.items() if value is not None}}
    if "input" not in known or "output" not in known:
        return None
    write = known.get("cacheWrite", known["input"])
    if cost.cache_ttl >= ONE_HOUR:
        write = known.get("cacheWrite1h", write)
    named = any(value is not None for value in ours.values())
    return Prices(
        known["input"],
        known["output"],
        known.get("cacheRead", known["input"]),
        write,
        "the settings of this home" if named else f"the packaged table of {packaged_table()['date']}",
    )


def shared_prefix(before: Sequence[Part], now: Sequence[Part], counter: Counter) -> int:
    """Return the tokens that two requests have in common from the start.

    Whole parts count as they are; of the first part that differs the common beginning of its text is counted.
    """
    shared = 0
    for old, new in zip(before, now, strict=False):
        if old is not new and old.key != new.key:
            return shared + min(counter.text(_common_beginning(old.text, new.text)), new.tokens, old.tokens)
        shared += new.tokens
    return shared


def _common_beginning(one: str, other: str) -> str:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return one[:low]


class CacheModel:
    """The prompt cache of one session, request by request.

    Args:
        prices: of the model, if known.
        rules: time to live and the smallest prefix that is cached.
        counter: for the part where two requests begin to differ.
    """

    def __init__(self, prices: Prices | None, rules: Cost, counter: Counter) -> None:
        self._prices = prices
        self._rules = rules
        self._counter = counter
        self._last: Sequence[Part] = ()
        self._last_at: datetime | None = None

    def call(self, parts: Sequence[Part], at: datetime, output_tokens: int) -> CallCost:
        """Return the cost of the next request; it is what the following one may find in the cache."""
        prompt = sum(part.tokens for part in parts)
        warm = self._last_at is not None and at - self._last_at <= self._rules.cache_ttl
        read = shared_prefix(self._last, parts, self._counter) if warm else 0
        smallest = self._rules.min_cache_tokens
        read = read if read >= smallest else 0
        written = prompt - read if prompt >= smallest else 0
        plain = prompt - read - written
        self._last, self._last_at = parts, at
        usd = self._prices.of(read, written, plain, output_tokens) if self._prices else None
        return CallCost(prompt, read, written, plain, output_tokens, usd, warm)


@dataclass(frozen=True, slots=True)
class Payoff:
    """Whether a pruning paid, given the calls that really came after it.

    Attributes:
        turn: of the pruning. removed_tokens: that it took out of the prompt.
        rewritten_tokens: what stood behind the first change and had to be written again though the cache was warm.
        later_calls: calls that were spared the removed tokens, the pruned one included.
        saved_usd, spent_usd: under the prices.
    """

    turn: int
    removed_tokens: int
    rewritten_tokens: int
    later_calls: int
    saved_usd: float
    spent_usd: float

    @property
    def paid(self) -> bool:
        return self.saved_usd > self.spent_usd

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {**asdict(self), "paid": self.paid}


def payoff(turn: int, removed_tokens: int, rewritten_tokens: int, later: Sequence[CallCost], prices: Prices) -> Payoff:
    """Weigh what a pruning saved on later reads against the rewrite of everything behind it.

    Args:
        removed_tokens: taken out of the prompt.
        rewritten_tokens: behind the first change while the cache was warm; 0 when it was cold anyway.
        later: the pruned call and those after it until the removed text would have left the prompt.
    """
    per_token = sum(prices.cache_read if call.cache_read else prices.cache_write for call in later)
    spent = rewritten_tokens * (prices.cache_write - prices.cache_read)
    return Payoff(
        turn, removed_tokens, rewritten_tokens, len(later), removed_tokens * per_token / PER, max(0.0, spent) / PER
    )


def summed(calls: Iterable[CallCost]) -> dict[str, Any]:
    """Add up calls; ``usd`` is ``None`` when a call has no price."""
    all_calls = list(calls)
    usd = [call.usd for call in all_calls]
    return {
        "calls": len(all_calls),
        "promptTokens": sum(call.prompt_tokens for call in all_calls),
        "cacheRead": sum(call.cache_read for call in all_calls),
        "cacheWrite": sum(call.cache_write for call in all_calls),
        "uncached": sum(call.uncached for call in all_calls),
        "outputTokens": sum(call.output_tokens for call in all_calls),
        "usd": None if any(value is None for value in usd) else round(sum(v for v in usd if v is not None), 6),
    }
