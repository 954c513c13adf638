"""What a turn cost, for the report: our cache model beside what the provider reported, and the same without pruning.

Pure. Source: spec/seeing.md 3.7 and section 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from turngraph.config import AgentSettings
from turngraph.decisions import TurnTrace
from turngraph.replay.cost import Prices, prices_of
from turngraph.viewer.prompt_parts import Prompt

PRUNING = frozenset({"prune", "prompt:assemble"})


def money(trace: TurnTrace, previous: TurnTrace | None, prompt: Prompt, settings: AgentSettings) -> dict[str, Any]:
    """Return the figures of the turn.

    A replay has counted every call (``facts["calls"]``); of a live turn the trace keeps the last request, which is
    compared with the last request of the turn before.
    """
    prices = prices_of(str(trace.facts.get("model") or ""), settings.models, settings.cost)
    calls = trace.facts.get("calls")
    reported = {key: int(value) for key, value in dict(trace.facts.get("reported_usage") or {}).items()}
    removed = _removed_tokens(trace)
    warm = previous is not None and trace.started - previous.ended <= settings.cost.cache_ttl
    modelled = _summed(calls) if isinstance(calls, list) and calls else _last_request(prompt, warm, prices, settings)
    return {
        "prices": asdict(prices) if prices else None,
        "cacheTtlSeconds": int(settings.cost.cache_ttl.total_seconds()),
        "minCacheTokens": settings.cost.min_cache_tokens,
        "model": modelled,
        "reported": reported,
        "reportedUsd": _reported_usd(reported, prices),
        "prunedTokens": removed,
        "withoutPruningUsd": _without_pruning(modelled, removed, prices),
        "pruning": list(trace.facts.get("pruning") or []),
    }


def _summed(calls: list[Mapping[str, Any]]) -> dict[str, Any]:
    names = ("prompt_tokens", "cache_read", "cache_write", "uncached", "output_tokens")
    usd = [call.get("usd") for call in calls]
    return {
        "scope": "all calls",
        "calls": len(calls),
        **{name: sum(int(call[name]) for call in calls) for name in names},
        "usd": None if any(value is None for value in usd) else sum(float(value) for value in usd if value is not None),
    }


def _last_request(prompt: Prompt, warm: bool, prices: Prices | None, settings: AgentSettings) -> dict[str, Any]:
    smallest = settings.cost.min_cache_tokens
    read = prompt.shared_tokens if warm and prompt.shared_tokens >= smallest else 0
    written = prompt.tokens - read if prompt.tokens >= smallest else 0
    plain = prompt.tokens - read - written
    return {
        "scope": "last request",
        "calls": 1,
        "prompt_tokens": prompt.tokens,
        "cache_read": read,
        "cache_write": written,
        "uncached": plain,
        "output_tokens": 0,
        "usd": prices.of(read, written, plain, 0) if prices else None,
    }


def _reported_usd(reported: Mapping[str, int], prices: Prices | None) -> float | None:
    if prices is None or not reported:
        return None
    return prices.of(
        reported.get("cacheRead", 0), reported.get("cacheWrite", 0), reported.get("input", 0), reported.get("output", 0)
    )


def _removed_tokens(trace: TurnTrace) -> int:
    """Return the tokens that pruning and the guards of the last request kept out of it."""
    newest: dict[str, int] = {}
    for run in trace.nodes:
        if run.node in PRUNING and run.tokens_in is not None and run.tokens_out is not None:
            newest[run.node] = run.tokens_in - run.tokens_out
    return max(0, sum(newest.values()))


def _without_pruning(modelled: Mapping[str, Any], removed: int, prices: Prices | None) -> float | None:
    """Return the cost with the removed tokens in every call, read from the cache where the calls read from it."""
    if prices is None or modelled["usd"] is None:
        return None
    calls = int(modelled["calls"])
    reading = calls if modelled["cache_read"] else calls - 1
    return float(modelled["usd"]) + prices.of(removed * reading, removed * (calls - reading), 0, 0)
