"""Active hours: the part of the day in which an agent beats, in a zone, also over midnight.

Source: spec/scheduling.md A4, known-faults 10.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turngraph.clock import from_ms, host_zone

_START = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_END = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|(24):(00)")


@dataclass(frozen=True, slots=True)
class ActivePart:
    """Minutes of the day from ``start`` up to ``end`` (not included) in ``zone``; equal means never."""

    start_minute: int
    end_minute: int
    zone: tzinfo

    def holds(self, moment_ms: float) -> bool:
        """Tell whether a moment lies inside."""
        local = from_ms(moment_ms).astimezone(self.zone)
        minute = local.hour * 60 + local.minute
        if self.start_minute <= self.end_minute:
            return self.start_minute <= minute < self.end_minute
        return minute >= self.start_minute or minute < self.end_minute


def active_part(start: str | None, end: str | None, zone_name: str | None, user_zone: tzinfo) -> ActivePart | None:
    """Read active hours; ``None`` means always, also where a time cannot be read.

    Args:
        start, end: ``HH:MM``; the end may be ``24:00``.
        zone_name: IANA name, ``user`` or ``local``; an unknown one counts as ``user``.
        user_zone: the user's zone.
    """
    first, last = _START.fullmatch(start or ""), _END.fullmatch(end or "")
    if not first or not last:
        return None
    hour, minute = (part for part in last.groups() if part is not None)
    return ActivePart(
        int(first[1]) * 60 + int(first[2]), int(hour) * 60 + int(minute), _zone((zone_name or "").strip(), user_zone)
    )


def _zone(name: str, user_zone: tzinfo) -> tzinfo:
    if name in ("", "user"):
        return user_zone
    if name == "local":
        return host_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return user_zone
