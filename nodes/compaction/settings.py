"""settings: the limits of one compaction, derived from the settings and the context window.

Source: spec/compaction.md section 0, design decision 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turngraph.config.schema_agent import Compaction

DEFAULT_WINDOW_TOKENS = 200_000  # spec/compaction.md 1.1 step 4
MAX_RESERVE_RATIO = 0.25  # of the window: what makes windows of 8k to 32k usable
SUMMARY_CAP_CHARS = 16_000  # weighted characters, spec/compaction.md 4.10
SUMMARY_OVERHEAD_TOKENS = 4_096  # instructions and answer of a summary call, section 3
SMALLEST_CHUNK_TOKENS = 512
MAX_RECENT_TURNS = 12
MAX_RETRIES = 3
DEFAULT_TIMEOUT_MS = 900_000
MAX_TIMEOUT_MS = 2_147_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a compaction may use; every figure follows the window.

    Attributes:
        window_tokens: context window of the chat model.
        reserve_tokens: room for the next prompt and its answer.
        keep_tokens: size of the kept tail.
        recent_turns: user turns to keep whole, as long as they fit into ``recent_turn_tokens``.
        recent_turn_tokens: a quarter of the window.
        summary_chars: cap of a summary in weighted characters; ``summary_tokens`` the same in tokens.
        line_chars: length of a line for a message of the last turns that could not be kept whole.
    """

    window_tokens: int
    reserve_tokens: int
    keep_tokens: int
    recent_turns: int
    recent_turn_tokens: int
    summary_chars: int
    summary_tokens: int
    line_chars: int = 600

    @property
    def threshold_tokens(self) -> int:
        """A context above this is compacted."""
        return self.window_tokens - self.reserve_tokens

    def tighter(self, halvings: int) -> Limits:
        """Return the limits with the kept tail, whole turns included, halved ``halvings`` times (section 6.2)."""
        if halvings <= 0:
            return self
        return replace(
            self,
            keep_tokens=max(1, self.keep_tokens >> halvings),
            recent_turn_tokens=self.recent_turn_tokens >> halvings,
            line_chars=self.line_chars >> halvings,
        )


def effective_reserve_tokens(reserve_tokens: int, floor_tokens: int, window_tokens: int | None) -> int:
    """Return the reserve: the larger of both, at most a quarter of a known window."""
    reserve = max(reserve_tokens, floor_tokens)
    if window_tokens is None or window_tokens <= 0:
        return reserve
    return min(reserve, int(window_tokens * MAX_RESERVE_RATIO))


def effective_limits(
    *,
    window_tokens: int,
    reserve_tokens: int,
    reserve_tokens_floor: int,
    keep_recent_tokens: int,
    recent_turns_preserve: float,
) -> Limits:
    """Derive the limits of a compaction for a window of ``window_tokens``."""
    reserve = effective_reserve_tokens(reserve_tokens, reserve_tokens_floor, window_tokens)
    return Limits(
        window_tokens=window_tokens,
        reserve_tokens=reserve,
        keep_tokens=max(1, min(keep_recent_tokens, (window_tokens - reserve) // 2)),
        recent_turns=clamped(recent_turns_preserve, MAX_RECENT_TURNS),
        recent_turn_tokens=window_tokens // 4,
        summary_chars=min(SUMMARY_CAP_CHARS, window_tokens // 8 * 4),
        summary_tokens=window_tokens // 8,
    )


def effective_settings(compaction: Compaction, window_tokens: int) -> Limits:
    """Return the limits that an agent's settings give for a window."""
    return effective_limits(
        window_tokens=window_tokens,
        reserve_tokens=compaction.reserve_tokens,
        reserve_tokens_floor=compaction.reserve_tokens_floor,
        keep_recent_tokens=compaction.keep_recent_tokens,
        recent_turns_preserve=compaction.recent_turns_preserve,
    )


def clamped(value: float, highest: int) -> int:
    """Return ``value`` without its fraction, from 0 to ``highest``."""
    return max(0, min(math.floor(value), highest))


def timeout_ms(seconds: float | None) -> int:
    """Return the time one compaction may take; an unusable setting means 15 minutes."""
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        return DEFAULT_TIMEOUT_MS
    return min(math.floor(seconds) * 1000, MAX_TIMEOUT_MS)


def flush_threshold_tokens(window_tokens: int, reserve_tokens: int, soft_tokens: int) -> int:
    """Return the context size from which a flush is due; 0 means never.

    The soft threshold is at most half of what lies below the reserve (spec/compaction.md section 0).
    """
    room = max(0, window_tokens - reserve_tokens)
    return max(0, room - min(soft_tokens, room // 2))


def overhead_tokens(window_tokens: int) -> int:
    """Return what a summary call needs beside the conversation, for a summariser of that window."""
    return min(SUMMARY_OVERHEAD_TOKENS, window_tokens // 8)
