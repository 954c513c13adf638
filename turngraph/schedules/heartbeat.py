"""When an agent beats: a phase of its own on a fixed grid, inside its active hours, later after failures.

Source: spec/scheduling.md A1, A2 and A3, known-faults 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

from turngraph.schedules.active_hours import ActivePart, active_part
from turngraph.schedules.schedule import Every

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turngraph.config import AgentSettings
    from turngraph.config.schema_channels import Channel, ChannelHeartbeat

SEARCHED_BEATS = 3_000  # planned beats looked at for one inside the active hours: two months of half hours
LONGEST_TIMEOUT_S = 600
DUPLICATE_MS = 86_400_000
MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The beats of one agent.

    Attributes:
        grid: the planned beats.
        active: when it may beat; ``None`` is always.
    """

    grid: Every
    active: ActivePart | None = None

    def next_after(self, moment_ms: float) -> int | None:
        """Return the next beat inside the active hours; ``None`` when none comes in reach."""
        at = self.grid.next_after(moment_ms)
        for _ in range(SEARCHED_BEATS):
            if self.active is None or self.active.holds(at):
                return at
            at = self.grid.next_after(at)
        return None

    def last_before(self, moment_ms: float) -> int | None:
        """Return the newest beat inside the active hours within the last two intervals."""
        at = self.grid.last_before(moment_ms)
        if at is None or self.active is None or self.active.holds(at):
            return at
        return None


def phase_ms(seed: str, agent_id: str, interval_ms: int) -> int:
    """Return the place of an agent's beats within the interval: fixed for an installation, spread over agents."""
    return int.from_bytes(sha256(f"{seed}:{agent_id}".encode()).digest()[:4], "big") % interval_ms


def rhythm_of(settings: AgentSettings, seed: str) -> Rhythm | None:
    """Return the beats of an agent as its settings say; ``None`` when it has none."""
    beat = settings.heartbeat
    interval_ms = beat.every // MS
    if not settings.beats or interval_ms <= 0:
        return None
    if beat.anchor:
        hour, minute = beat.anchor.split(":")
        anchor_ms = (int(hour) * 60 + int(minute)) * 60_000 % interval_ms
    else:
        anchor_ms = phase_ms(seed, settings.agent_id, interval_ms)
    hours = beat.active_hours
    active = active_part(hours.start, hours.end, hours.timezone, settings.zone) if hours else None
    return Rhythm(Every(interval_ms, anchor_ms), active)


def beat_timeout_s(settings: AgentSettings) -> float:
    """Return how long a beat may take: its own limit, else the shorter of the agent's, the interval and 600 s."""
    beat = settings.heartbeat
    if beat.timeout_seconds:
        return beat.timeout_seconds
    interval_s = beat.every.total_seconds() or LONGEST_TIMEOUT_S
    return min(settings.timeout_seconds, interval_s, LONGEST_TIMEOUT_S)


def beat_backoff_ms(failures: int, interval_ms: int, longest_ms: int) -> int:
    """Return the pause after so many failed beats in a row; 0 without a failure or without back-off."""
    if failures <= 0 or longest_ms <= 0:
        return 0
    return min(interval_ms << min(failures, 40), longest_ms)


def is_idle(last_user_ms: float | None, gate: timedelta | None, now_ms: int) -> bool:
    """Tell whether the user has been silent for longer than the gate; who never wrote is not silent."""
    return gate is not None and last_user_ms is not None and now_ms - last_user_ms > gate // MS


@dataclass(frozen=True, slots=True)
class Visibility:
    """What of a heartbeat a channel shows."""

    show_ok: bool = False
    show_alerts: bool = True
    use_indicator: bool = True

    @property
    def is_nothing(self) -> bool:
        return not (self.show_ok or self.show_alerts or self.use_indicator)


def visibility_of(channels: Mapping[str, Channel], channel: str | None, account: str | None = None) -> Visibility:
    """Return what a channel shows of heartbeats: account before channel before defaults before built in.

    Web chat has the defaults only.
    """
    levels: list[ChannelHeartbeat] = [channels["defaults"].heartbeat] if "defaults" in channels else []
    if channel and channel != "webchat" and channel in channels:
        levels.append(channels[channel].heartbeat)
        if account and account in channels[channel].accounts:
            levels.append(channels[channel].accounts[account].heartbeat)
    built_in = Visibility()
    show_ok, show_alerts, use_indicator = built_in.show_ok, built_in.show_alerts, built_in.use_indicator
    for level in levels:
        show_ok = show_ok if level.show_ok is None else level.show_ok
        show_alerts = show_alerts if level.show_alerts is None else level.show_alerts
        use_indicator = use_indicator if level.use_indicator is None else level.use_indicator
    return Visibility(show_ok, show_alerts, use_indicator)
