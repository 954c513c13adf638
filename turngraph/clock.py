"""Time and ids as arguments: the clock and the id source that a turn is given."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class Clock(Protocol):
    """Where a turn gets the time from."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass(slots=True)
class FixedClock:
    """A clock that stands still until it is moved: for tests and replay."""

    at: datetime

    def now(self) -> datetime:
        return self.at

    def advance(self, delta: timedelta) -> None:
        self.at += delta


class Ids(Protocol):
    """Where a turn gets new ids from."""

    def uuid(self) -> str:
        """Return a new id for a session, a trace or a file."""
        ...

    def entry(self, taken: Container[str]) -> str:
        """Return a new entry id (8 hex characters) that is not in ``taken``."""
        ...


def _short(taken: Container[str], draw: Callable[[], str]) -> str:
    for _ in range(100):  # spec/sessions.md 4.2: re-drawn on collision up to 100 times, then the whole id
        candidate = draw()
        if candidate[:8] not in taken:
            return candidate[:8]
    return draw()


class RandomIds:
    """Random ids: UUID version 4."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def entry(self, taken: Container[str]) -> str:
        return _short(taken, self.uuid)


@dataclass(slots=True)
class DerivedIds:
    """Ids that follow from a seed and a counter: two runs give the same ones."""

    seed: str
    count: int = field(default=0)

    def uuid(self) -> str:
        self.count += 1
        digest = sha256(f"{self.seed}:{self.count}".encode()).hexdigest()
        return str(uuid.UUID(hex=digest[:32], version=4))

    def entry(self, taken: Container[str]) -> str:
        return _short(taken, self.uuid)


def to_ms(moment: datetime) -> int:
    """Convert an aware time to epoch milliseconds."""
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1))


def from_ms(ms: float) -> datetime:
    """Convert epoch milliseconds to an aware UTC time."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def iso_ms(moment: datetime) -> str:
    """Format a time as transcripts do: ``2026-03-16T09:40:00.000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def parse_iso(text: str) -> datetime | None:
    """Parse an ISO time (no zone means UTC); ``None`` when it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def host_zone() -> tzinfo:
    """Return the zone of this machine: ``TZ``, else the system's, else UTC."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        link = Path("/etc/localtime")
        target = str(link.resolve()) if link.exists() else ""
        name = target.split("zoneinfo/", 1)[1] if "zoneinfo/" in target else ""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def monotonic_ms() -> float:
    """Return a monotonic time for durations, in milliseconds."""
    return time.perf_counter_ns() / 1e6
