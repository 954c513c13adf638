"""Wake requests: what asks for a beat between two planned ones, which request wins, and when it has to wait.

Source: spec/scheduling.md A2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

MIN_SPACING_MS = 30_000
FLOOD_WINDOW_MS = 60_000
FLOOD_STARTS = 5
RETRY_MS = 1_000  # after a beat that found the agent busy
COALESCE_MS = 250

ReasonKind = Literal["retry", "interval", "manual", "exec-event", "wake", "cron", "hook", "other"]
Intent = Literal["manual", "immediate", "scheduled", "event", "task"]

_PRIORITY: dict[ReasonKind, int] = {"retry": 0, "interval": 1, "manual": 3, "exec-event": 3, "hook": 3}
_OTHERS = 2


def reason_kind(reason: str | None) -> ReasonKind:
    """Return what kind of reason a wake request gives."""
    text = (reason or "").strip()
    exact: dict[str, ReasonKind] = {
        "retry": "retry",
        "interval": "interval",
        "manual": "manual",
        "exec-event": "exec-event",
        "wake": "wake",
    }
    if text in exact:
        return exact[text]
    prefixes: dict[str, ReasonKind] = {"acp:spawn:": "wake", "cron:": "cron", "hook:": "hook"}
    return next((kind for prefix, kind in prefixes.items() if text.startswith(prefix)), "other")


def priority(kind: ReasonKind) -> int:
    """Return how much a reason counts; the higher one replaces the lower."""
    return _PRIORITY.get(kind, _OTHERS)


@dataclass(frozen=True, slots=True)
class Wake:
    """A wake request of an agent's session."""

    id: str
    reason: str
    at_ms: int
    session_key: str | None = None

    @property
    def intent(self) -> Intent:
        """How urgently it is meant."""
        kind = reason_kind(self.reason)
        if kind == "manual":
            return "manual"
        if kind == "interval":
            return "scheduled"
        return "immediate" if kind in ("cron", "hook") else "event"


def strongest(wakes: Iterable[Wake]) -> tuple[Wake, ...]:
    """Keep one request a session: that of the highest priority, of equal ones the newest. Oldest first."""
    kept: dict[str | None, Wake] = {}
    for wake in wakes:
        known = kept.get(wake.session_key)
        rank = (priority(reason_kind(wake.reason)), wake.at_ms)
        if known is None or rank >= (priority(reason_kind(known.reason)), known.at_ms):
            kept[wake.session_key] = wake
    return tuple(sorted(kept.values(), key=lambda wake: wake.at_ms))


@dataclass(frozen=True, slots=True)
class Deferral:
    """Why a beat has to wait, and until when."""

    reason: Literal["flood", "not-due", "min-spacing"]
    retry_at_ms: int


def deferral(
    intent: Intent,
    now_ms: int,
    *,
    next_due_ms: int | None = None,
    last_start_ms: int | None = None,
    recent_starts_ms: Sequence[int] = (),
    work_retained: bool = False,
    min_spacing_ms: int = MIN_SPACING_MS,
    flood_window_ms: int = FLOOD_WINDOW_MS,
    flood_starts: int = FLOOD_STARTS,
) -> Deferral | None:
    """Say whether a beat must wait; ``None`` lets it run.

    Manual ones never wait. A flood of starts stops all others. Scheduled ones wait for their time; events run at
    once the first time, later not before the next planned beat unless their work was kept back.
    """
    if intent == "manual":
        return None
    recent = sorted(start for start in recent_starts_ms if now_ms - start <= flood_window_ms)
    if len(recent) >= flood_starts:
        return Deferral("flood", recent[-flood_starts] + flood_window_ms + 1)
    if intent == "immediate":
        return None
    early = next_due_ms is not None and now_ms < next_due_ms
    first_event = intent == "event" and (last_start_ms is None or work_retained)
    if early and intent != "task" and not first_event:
        return Deferral("not-due", next_due_ms or 0)
    if intent != "scheduled" and last_start_ms is not None and now_ms - last_start_ms < min_spacing_ms:
        return Deferral("min-spacing", last_start_ms + min_spacing_ms)
    return None
