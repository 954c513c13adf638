"""Which notes have a date and how it makes them fade.

Source: spec/memory.md 4.6, known-faults 7.13, design decision 9.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, tzinfo

from turngraph.memory_paths import LEGACY_ROOT_MEMORY, MEMORY_FOLDER, ROOT_MEMORY, USER_FILE, normalise_memory_path

_DATED = re.compile(r"(?:^|/)memory/(?:.*/)?(\d{4})-(\d{2})-(\d{2})(?:-[^/]+)?\.md$")


@dataclass(frozen=True, slots=True)
class Fading:
    """How scores fall with age; nothing falls below ``floor``. Half-life in days."""

    half_life_days: float
    floor: float


def note_date(path: str) -> date | None:
    """Return the date in the name of a note below ``memory/``; an impossible one is none.

    >>> note_date("memory/2026-05-14-vendor-pitch.md"), note_date("memory/2026-13-45.md")
    (datetime.date(2026, 5, 14), None)
    """
    match = _DATED.search(path)
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def is_evergreen(path: str) -> bool:
    """Whether a note never fades: curated files, and notes below ``memory/`` without a date."""
    name = normalise_memory_path(path)
    if name in (ROOT_MEMORY, LEGACY_ROOT_MEMORY, USER_FILE):
        return True
    return name.startswith(MEMORY_FOLDER) and note_date(name) is None


def age_days(path: str, seen: datetime | None, now: datetime, zone: tzinfo) -> float | None:
    """Return the age of a note in days, ``None`` when it has none.

    Args:
        path: index path.
        seen: when it was written, for files outside ``memory/`` and sessions.
        now: aware time.
        zone: the user's zone, in which the date of a note is a day.
    """
    dated = note_date(path)
    if dated is not None:
        written = datetime.combine(dated, time(), tzinfo=zone)
    elif is_evergreen(path) or seen is None:
        return None
    else:
        written = seen
    return max(0.0, (now - written.astimezone(UTC)).total_seconds() / 86_400)


def decay(age: float | None, fading: Fading) -> float:
    """Return the factor for a note of that age; 1 without age or half-life."""
    if age is None or not math.isfinite(fading.half_life_days) or fading.half_life_days <= 0:
        return 1.0
    return max(fading.floor, math.exp(-math.log(2) / fading.half_life_days * max(0.0, age)))
