"""The bill of a replay: every model call under the cache model, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from turngraph.config import AgentSettings
from turngraph.replay.calls import ModelCall, request_parts
from turngraph.replay.cost import CacheModel, CallCost, Prices, prices_of
from turngraph.tokens import Counter


@dataclass(slots=True)
class Bill:
    """Adds up the calls of one session.

    Attributes:
        prices: of the replayed model, if known.
        calls: costs so far, in order.
    """

    prices: Prices | None
    _cache: CacheModel
    _counter: Counter
    calls: list[CallCost] = field(default_factory=list)

    @classmethod
    def for_model(cls, model: str, settings: AgentSettings, counter: Counter) -> Bill:
        """Return an empty bill under the prices of ``provider:model``."""
        prices = prices_of(model, settings.models, settings.cost)
        return cls(prices, CacheModel(prices, settings.cost, counter), counter)

    def add(self, call: ModelCall) -> CallCost:
        """Add a call; its answer is counted by our counter, as its prompt is."""
        parts = request_parts(call.request, self._counter)
        cost = self._cache.call(parts, call.at, self._counter.message(call.answer))
        self.calls.append(cost)
        return cost
