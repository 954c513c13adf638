"""reset_policy: whether the day or a pause has ended the session that a message would continue.

Pure: the policy that applies to a chat, its daily boundary and the freshness of an entry.
Source: spec/sessions.md 2.2 and 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Literal, Protocol
from zoneinfo import ZoneInfo

from turngraph.clock import from_ms
from turngraph.session_keys import thread_parent
from turngraph.text import js_trim

if TYPE_CHECKING:
    from nodes.state import SessionFacts
    from turngraph.config import AgentSettings
    from turngraph.config.schema_session import Session

ResetType = Literal["direct", "group", "thread"]
ResetMode = Literal["none", "daily", "idle"]
ResetReason = Literal["new", "reset", "daily", "idle", "forced"]

DEFAULT_AT_HOUR = 4  # local hour of the daily boundary; spec/sessions.md 2.2
CHANNEL_ALIASES = {  # spec/sessions.md 2.2
    "imsg": "imessage",
    "gchat": "googlechat",
    "google-chat": "googlechat",
    "internet-relay-chat": "irc",
}


class ResetBlock(Protocol):
    """A ``reset`` block of the settings; a field that is not set is ``None``."""

    @property
    def mode(self) -> ResetMode | None: ...
    @property
    def at_hour(self) -> float | None: ...
    @property
    def idle_minutes(self) -> float | None: ...
    @property
    def timezone(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """When a session of some kind of chat ends by itself.

    Attributes:
        mode: ``none``, ``daily`` or ``idle``.
        at_hour: local hour of the daily boundary.
        idle_minutes: longest pause; 0 is no limit. Counts in mode ``daily`` too.
        configured: whether a setting says so.
        timezone: zone of ``at_hour``; ``None`` is the user's.
    """

    mode: ResetMode = "none"
    at_hour: int = DEFAULT_AT_HOUR
    idle_minutes: int | None = None
    configured: bool = False
    timezone: str | None = None

    def zone(self, users: tzinfo) -> tzinfo:
        """Return the zone of the boundary; ``users`` is that of the user."""
        return ZoneInfo(self.timezone) if self.timezone else users


def reset_type(key: str | None, *, threaded: bool = False, in_group: bool = False) -> ResetType:
    """Tell which kind of chat a key or its turn is, as far as resets are concerned."""
    folded = (key or "").lower()
    if threaded or ":thread:" in folded or ":topic:" in folded:
        return "thread"
    return "group" if in_group or ":group:" in folded or ":channel:" in folded else "direct"


def is_threaded(
    key: str | None,
    *,
    thread: str | int | None = None,
    label: str | None = None,
    starter: str | None = None,
    parent_key: str | None = None,
) -> bool:
    """Tell whether a turn takes place in a thread; thread id 0 counts as one."""
    if thread is not None and js_trim(str(thread)):
        return True
    if any(js_trim(text or "") for text in (label, starter, parent_key)):
        return True
    return reset_type(key) == "thread" or thread_parent(key or "") is not None


def channel_reset(by_channel: Mapping[str, ResetBlock], channel: str | None) -> ResetBlock | None:
    """Return the reset block of a channel, whatever alias names it."""
    name = js_trim(channel or "").lower()
    return by_channel.get(CHANNEL_ALIASES.get(name, name)) if name else None


def reset_policy(
    *,
    base: ResetBlock | None = None,
    by_type: ResetBlock | None = None,
    channel: ResetBlock | None = None,
    legacy_idle_minutes: float | None = None,
    any_type_configured: bool = False,
) -> ResetPolicy:
    """Combine the blocks of the settings: a channel's stands alone, a type's goes over the base.

    Args:
        base: ``session.reset``.
        by_type: the block of ``session.resetByType`` for this kind of chat.
        channel: the block of ``session.resetByChannel`` for this channel.
        legacy_idle_minutes: ``session.idleMinutes``, which alone means mode ``idle``.
        any_type_configured: whether ``session.resetByType`` holds a block for any kind of chat.

    Source: spec/sessions.md 2.2 Choice.
    """
    blocks = [channel] if channel else [block for block in (by_type, base) if block]
    if not blocks:
        if legacy_idle_minutes is None or any_type_configured:
            return ResetPolicy()
        return ResetPolicy("idle", idle_minutes=_minutes(legacy_idle_minutes), configured=True)
    inherited = base.mode if base and base.mode != "none" and not channel else None
    mode: ResetMode = blocks[0].mode or inherited or "daily"
    minutes = next((block.idle_minutes for block in blocks if block.idle_minutes is not None), None)
    hour = next((block.at_hour for block in blocks if block.at_hour is not None), DEFAULT_AT_HOUR)
    idle = _minutes(minutes) if minutes is not None else 0 if mode == "idle" else None
    zone = next((block.timezone for block in (*blocks, base) if block and block.timezone), None)
    return ResetPolicy(mode, _hour(hour), idle, True, zone)


def policy_of(session: Session, kind: ResetType, channel: str | None) -> ResetPolicy:
    """Return the policy that the settings give for a kind of chat on a channel."""
    types = session.reset_by_type
    return reset_policy(
        base=session.reset,
        by_type=getattr(types, kind),
        channel=channel_reset(session.reset_by_channel, channel),
        legacy_idle_minutes=session.idle_minutes,
        any_type_configured=any((types.direct, types.group, types.thread)),
    )


def _hour(value: float) -> int:
    return min(23, max(0, math.floor(value))) if math.isfinite(value) else DEFAULT_AT_HOUR


def _minutes(value: float) -> int:
    return max(0, math.floor(value)) if math.isfinite(value) else 0


def daily_boundary(now: datetime, at_hour: int, zone: tzinfo) -> datetime:
    """Return the last moment, not after ``now``, at which it was ``at_hour`` o'clock in ``zone``.

    An hour that the clocks skip counts as shifted forward, one they repeat as its first occurrence.

    Source: spec/sessions.md 2.3, known-faults 1.4.
    """
    local = now.astimezone(zone)
    for days_back in (0, 1):
        day = (local - timedelta(days=days_back)).date()
        boundary = _moment(day, at_hour, zone)
        if boundary <= now:
            return boundary
    return boundary


def next_boundary(now: datetime, at_hour: int, zone: tzinfo) -> datetime:
    """Return the first daily boundary after ``now``."""
    day = now.astimezone(zone).date()
    for ahead in (0, 1, 2):
        boundary = _moment(day + timedelta(days=ahead), at_hour, zone)
        if boundary > now:
            return boundary
    return boundary


def _moment(day: date, hour: int, zone: tzinfo) -> datetime:
    # fold=0 reads a skipped wall time with the offset before the gap: shifted forward, as wanted.
    return datetime.combine(day, time(hour), tzinfo=zone).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Whether an entry may be continued.

    Attributes:
        fresh: whether it may.
        reason: what ended it: ``daily``, ``idle``, or ``forced`` for an entry marked with ``updatedAt`` 0.
        boundary: last daily boundary, in mode ``daily``.
        idle_until: when its pause gets too long, with an idle limit.
    """

    fresh: bool
    reason: ResetReason | None = None
    boundary: datetime | None = None
    idle_until: datetime | None = None


def freshness(
    policy: ResetPolicy,
    now: datetime,
    zone: tzinfo,
    *,
    updated_ms: float | None,
    started_ms: float | None = None,
    interaction_ms: float | None = None,
) -> Freshness:
    """Hold an entry against its policy: the day counts from its start, the pause from the user's last message.

    Times are epoch milliseconds as stored; a missing, negative or future one falls back: the last interaction to the
    start, the start to ``updatedAt``. Exactly at the limit is still fresh.

    Source: spec/sessions.md 2.3 Choice, known-faults 1.3.
    """
    if updated_ms == 0:
        return Freshness(False, "forced")
    if policy.mode == "none":
        return Freshness(True)
    now_ms = (now - from_ms(0)) / timedelta(milliseconds=1)
    updated = max(0.0, updated_ms or 0.0)
    started = _known(started_ms, now_ms, updated)
    interaction = _known(interaction_ms, now_ms, started)
    boundary = daily_boundary(now, policy.at_hour, zone) if policy.mode == "daily" else None
    limit = from_ms(interaction) + timedelta(minutes=policy.idle_minutes) if policy.idle_minutes else None
    ended: list[tuple[datetime, ResetReason]] = []
    if boundary is not None and from_ms(started) < boundary:
        ended.append((boundary, "daily"))
    if limit is not None and now > limit:
        ended.append((limit, "idle"))
    return Freshness(not ended, min(ended)[1] if ended else None, boundary, limit)


def describe_reset_policy(session: SessionFacts, settings: AgentSettings, now: datetime) -> str:
    """Say in one line how the session resets by itself, and when next (known-faults 1.2)."""
    entry = session.entry
    channel = str(entry.get("channel") or entry.get("lastChannel") or "") or None
    kind = reset_type(session.key, in_group=session.chat_type != "direct")
    policy = policy_of(settings.session, kind, channel)
    if policy.mode == "none":
        return "Automatic reset: off (session.reset.mode is none)"
    zone = policy.zone(settings.zone)
    parts = []
    if policy.mode == "daily":
        at = next_boundary(now, policy.at_hour, zone).astimezone(zone)
        parts.append(f"daily at {policy.at_hour:02d}:00 {zone}, next {at:%Y-%m-%d %H:%M}")
    if policy.idle_minutes:
        seen = entry.get("lastInteractionAt")
        until = from_ms(seen) + timedelta(minutes=policy.idle_minutes) if isinstance(seen, int | float) else None
        ends = f", next {until.astimezone(zone):%Y-%m-%d %H:%M}" if until else ""
        parts.append(f"after {policy.idle_minutes} minutes without a message{ends}")
    return f"Automatic reset: {' or '.join(parts) or 'idle without a limit'}"


def _known(value: float | None, now_ms: float, otherwise: float) -> float:
    return value if value is not None and 0 <= value <= now_ms else otherwise
