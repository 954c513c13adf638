"""The settings of pruning as the policy takes them (spec/context.md 6.1)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngraph.config.schema_agent import ContextPruning

CLEARED = "[Old tool result content cleared]"


@dataclass(frozen=True, slots=True)
class PruneRules:
    """Settings of pruning (spec/context.md 6.1); sizes in weighted characters, the kept ends in code points."""

    ttl: timedelta = timedelta(minutes=5)
    pressure_ratio: float | None = None
    keep_last_assistants: int = 3
    soft_trim_ratio: float = 0.3
    hard_clear_ratio: float = 0.5
    min_prunable_tool_chars: int = 50_000
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trim_max_chars: int = 4_000
    trim_head_chars: int = 1_500
    trim_tail_chars: int = 1_500
    clears: bool = True
    placeholder: str = CLEARED


def prune_rules(pruning: ContextPruning) -> PruneRules | None:
    """Read the rules from the settings; ``None`` when pruning is off."""
    if pruning.mode == "off":
        return None
    return PruneRules(
        ttl=pruning.ttl,
        pressure_ratio=pruning.pressure_ratio,
        keep_last_assistants=pruning.keep_last_assistants,
        soft_trim_ratio=pruning.soft_trim_ratio,
        hard_clear_ratio=pruning.hard_clear_ratio,
        min_prunable_tool_chars=pruning.min_prunable_tool_chars,
        allow=tuple(pruning.tools.allow or ()),
        deny=tuple(pruning.tools.deny or ()),
        trim_max_chars=pruning.soft_trim.max_chars,
        trim_head_chars=pruning.soft_trim.head_chars,
        trim_tail_chars=pruning.soft_trim.tail_chars,
        clears=pruning.hard_clear.enabled,
        placeholder=pruning.hard_clear.placeholder.strip() or CLEARED,
    )
