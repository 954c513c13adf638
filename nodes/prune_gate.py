"""When pruning may run: the provider's prompt cache has expired, or the prompt fills too much of the window.

Source: spec/context.md 6.2, known-faults 4.4 to 4.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from nodes.history.provider_policy import normalize_provider
from nodes.prune_rules import PruneRules

_ELIGIBLE = frozenset({"anthropic", "anthropic-vertex", "amazon-bedrock", "google", "zai", "moonshot"})
_ROUTED = {
    "openrouter": ("anthropic/", "moonshot/", "moonshotai/", "zai/", "z-ai/", "google/"),
    "kilocode": ("anthropic/",),
}


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether pruning may run now, and why."""

    open: bool
    why: str


def is_eligible(provider: str, model_id: str) -> bool:
    """Whether the provider keeps a prompt cache of the kind that pruning waits for."""
    name, model = normalize_provider(provider), model_id.lower()
    return name in _ELIGIBLE or model.startswith(_ROUTED.get(name, ("\0",)))


def prune_gate(
    *,
    now_ms: float,
    last_touch_ms: float | None,
    rules: PruneRules,
    eligible: bool = True,
    filled_ratio: float = 0.0,
) -> Gate:
    """Decide whether pruning may run: the cache has expired, or the prompt fills too much of the window.

    A touch that was never recorded counts as expired; a TTL of 0 never expires.
    """
    if not eligible:
        return Gate(False, "the provider keeps no prompt cache of this kind (see contextPruning.eligible)")
    pressure = rules.pressure_ratio
    if pressure is not None and filled_ratio > pressure:
        return Gate(True, f"prompt fills {filled_ratio:.2f} of the window, pressureRatio {pressure:g}")
    ttl_ms = rules.ttl / timedelta(milliseconds=1)
    if ttl_ms <= 0:
        return Gate(False, "ttl 0: pruning never runs by time")
    if last_touch_ms is None:
        return Gate(True, "no touch of the cache recorded: taken for expired")
    age_ms = now_ms - last_touch_ms
    if age_ms < ttl_ms:
        return Gate(False, f"TTL not reached: last touch {age_ms / 1000:.0f} s ago, ttl {ttl_ms / 1000:.0f} s")
    return Gate(True, f"cache expired: last touch {age_ms / 1000:.0f} s ago, ttl {ttl_ms / 1000:.0f} s")


def read_touch(data: Any, provider: str, model_id: str) -> float | None:
    """Return the time of a recorded touch, ``None`` when it belongs to another provider or model."""
    if not isinstance(data, Mapping):
        return None
    at = data.get("timestamp")
    if not isinstance(at, (int, float)) or isinstance(at, bool):
        return None
    touched = normalize_provider(str(data.get("provider") or provider)), data.get("modelId") or model_id
    return at if touched == (normalize_provider(provider), model_id) else None
