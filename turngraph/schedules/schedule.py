"""A job's schedule: once at a time, every so often on a fixed grid, or by a cron expression in a zone.

Source: spec/scheduling.md B1 and B2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turngraph.clock import host_zone, to_ms
from turngraph.errors import ConfigError
from turngraph.schedules.cron import CronExpression, parse_cron

HOURLY_STAGGER_MS = 300_000  # jobs of the full hour are spread over five minutes; spec/scheduling.md B2
PAST_ALLOWED_MS = 60_000
LONGEST_AHEAD = timedelta(days=3652)
LEAST_EVERY_MS = 1_000

_DIGITS = re.compile(r"[+-]?[0-9]+")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}.*)?")


class Schedule(Protocol):
    """When something is due; all times are epoch milliseconds."""

    def next_after(self, moment_ms: float) -> int | None:
        """Return the first slot strictly after a moment."""
        ...

    def last_before(self, moment_ms: float) -> int | None:
        """Return the last slot strictly before a moment."""
        ...


@dataclass(frozen=True, slots=True)
class At:
    """Once."""

    at_ms: int

    def next_after(self, moment_ms: float) -> int | None:
        return self.at_ms if self.at_ms > moment_ms else None

    def last_before(self, moment_ms: float) -> int | None:
        return self.at_ms if self.at_ms < moment_ms else None


@dataclass(frozen=True, slots=True)
class Every:
    """Every ``every_ms`` from ``anchor_ms`` on: a grid of elapsed time that no run and no clock change moves."""

    every_ms: int
    anchor_ms: int

    def next_after(self, moment_ms: float) -> int:
        if moment_ms < self.anchor_ms:
            return self.anchor_ms
        return self.anchor_ms + (math.floor((moment_ms - self.anchor_ms) / self.every_ms) + 1) * self.every_ms

    def last_before(self, moment_ms: float) -> int | None:
        if moment_ms <= self.anchor_ms:
            return None
        return self.anchor_ms + (math.ceil((moment_ms - self.anchor_ms) / self.every_ms) - 1) * self.every_ms


@dataclass(frozen=True, slots=True)
class Cron:
    """By a cron expression, each slot moved by ``offset_ms`` so that many jobs do not start together."""

    expression: CronExpression
    zone: tzinfo
    offset_ms: int = 0

    def next_after(self, moment_ms: float) -> int | None:
        found = self.expression.next_after(moment_ms - self.offset_ms, self.zone)
        return None if found is None else found + self.offset_ms

    def last_before(self, moment_ms: float) -> int | None:
        found = self.expression.last_before(moment_ms - self.offset_ms, self.zone)
        return None if found is None else found + self.offset_ms


def read_schedule(raw: Mapping[str, Any], *, job_id: str = "", created_ms: float | None = None) -> Schedule | None:
    """Read the ``schedule`` of a job record; ``None`` when it can never be due (blank, unreadable time).

    Args:
        raw: ``{"kind": "at" | "every" | "cron", ...}``.
        job_id: gives the stagger of a cron job its offset; without it nothing is staggered.
        created_ms: anchor of ``every`` when the record has none.

    Raises:
        ConfigError: a bad expression, an unknown zone or kind, an interval below 1 ms.
    """
    kind = raw.get("kind")
    if kind == "at":
        at_ms = parse_absolute_ms(raw.get("at", raw.get("atMs")))
        return None if at_ms is None else At(at_ms)
    if kind == "every":
        return _every(raw, created_ms)
    if kind != "cron":
        raise ConfigError(f"schedule kind {kind!r} is not supported; there are at, every and cron")
    text = raw.get("expr")
    if not isinstance(text, str):
        raise ConfigError("a cron schedule needs an expression: schedule.expr")
    if not text.strip():
        return None
    expression = parse_cron(text)
    offset_ms = stagger_offset_ms(job_id, stagger_ms(raw)) if job_id else 0
    return Cron(expression, read_zone(raw.get("tz")), offset_ms)


def _every(raw: Mapping[str, Any], created_ms: float | None) -> Every | None:
    every, anchor = _number(raw.get("everyMs")), _number(raw.get("anchorMs"))
    if every is None:
        return None
    if every < 1:
        raise ConfigError(f"schedule.everyMs is {every:g}; it must be at least 1")
    start = anchor if anchor is not None else created_ms
    return Every(math.floor(every), math.floor(start) if start is not None else 0)


def read_zone(name: Any) -> tzinfo:
    """Return a zone by its IANA name; blank means the host's.

    Raises:
        ConfigError: there is no such zone.
    """
    text = str(name or "").strip()
    if not text:
        return host_zone()
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(f"there is no time zone {text!r}; give an IANA name such as Europe/Paris") from error


def parse_absolute_ms(value: Any) -> int | None:
    """Read a point in time: digits are epoch milliseconds, a text without offset is UTC; ``None`` when it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.floor(value) if math.isfinite(value) else None
    text = str(value or "").strip()
    if _DIGITS.fullmatch(text):
        return int(text)
    if not _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return to_ms(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def check_new_schedule(raw: Mapping[str, Any], now_ms: float) -> str | None:
    """Return what is wrong with the time of a new ``at`` schedule; ``None`` when nothing is.

    A time may lie up to a minute back, and ten years ahead.
    """
    if raw.get("kind") != "at":
        return None
    at_ms = parse_absolute_ms(raw.get("at", raw.get("atMs")))
    if at_ms is None:
        return f"{raw.get('at')!r} is no time; write it as 2026-12-24T18:00"
    if at_ms < now_ms - PAST_ALLOWED_MS:
        return f"{raw.get('at')} lies in the past"
    if at_ms > now_ms + LONGEST_AHEAD / timedelta(milliseconds=1):
        return f"{raw.get('at')} is more than ten years ahead"
    return None


def default_stagger_ms(expression: str) -> int:
    """Return the stagger of an expression that says nothing: five minutes for jobs of every full hour, else none."""
    fields = expression.split()
    if len(fields) == 6:
        second, *fields = fields
        if second != "0":
            return 0
    return HOURLY_STAGGER_MS if len(fields) == 5 and fields[0] == "0" and "*" in fields[1] else 0


def stagger_ms(raw: Mapping[str, Any]) -> int:
    """Return the stagger of a cron schedule: its own, else the default of its expression."""
    named = _number(raw.get("staggerMs"))
    if named is not None:
        return max(0, math.floor(named))
    return default_stagger_ms(str(raw.get("expr") or ""))


def stagger_offset_ms(job_id: str, stagger: int) -> int:
    """Return how far a job is moved within its stagger: always the same for the same id."""
    if stagger <= 1:
        return 0
    return int.from_bytes(sha256(job_id.encode()).digest()[:4], "big") % stagger


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
