"""Cron expressions: parse one, and find the times before and after a moment in a time zone.

Five fields (minute, hour, day of month, month, weekday) or six with seconds in front. Names, ``L``, ``#``, ``@daily``
and the like are understood; when both day fields are set either may match, with ``+`` before the weekday both must.

Clock changes: a time that the clock jumps over runs one jump later (02:30 becomes 03:30). A repeated time runs once,
in its first pass; where the hour field is ``*`` every real hour runs.
Source: spec/scheduling.md B2, known-faults 11.4.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache

from turngraph.clock import from_ms, to_ms
from turngraph.errors import ConfigError

LAST = -1  # the last day of a month, or the last such weekday of a month
SEARCH_YEARS = 41  # 29 February on a given weekday comes back after at most 40 years

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_PART = re.compile(r"(?:\*|\?|(\w+)(?:-(\w+))?)(?:/([0-9]+))?")
_NTH = re.compile(r"(\w+?)(?:#([1-5]|L)|(L))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CronExpression:
    """A parsed expression; every field is sorted.

    Attributes:
        text: the expression as it was written.
        month_days: days of the month; ``LAST`` is the last one.
        weekdays: 0 is Sunday. ``nth_weekdays`` holds (weekday, which one of the month).
        any_month_day, any_weekday: whether the field is ``*``.
        both_days: whether month day and weekday must both match.
        every_hour: whether the hour field is ``*``.
    """

    text: str
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    month_days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    nth_weekdays: tuple[tuple[int, int], ...]
    any_month_day: bool
    any_weekday: bool
    both_days: bool
    every_hour: bool

    def next_after(self, moment_ms: float, zone: tzinfo) -> int | None:
        """Return the first time strictly after ``moment_ms``; ``None`` when there is none."""
        day = from_ms(moment_ms).astimezone(zone).date() - timedelta(days=1)
        for candidate in self._days(day, 1):
            times = self._times(candidate, zone)
            found = times.after(moment_ms)
            if found is None:
                continue
            if times.changes:  # a time that was jumped over may land beyond the first ones of the next day
                following = next(self._days(candidate + timedelta(days=1), 1), None)
                later = self._times(following, zone).after(moment_ms) if following else None
                return min(found, later) if later is not None else found
            return found
        return None

    def last_before(self, moment_ms: float, zone: tzinfo) -> int | None:
        """Return the last time strictly before ``moment_ms``; ``None`` when there is none."""
        day = from_ms(moment_ms).astimezone(zone).date() + timedelta(days=1)
        for candidate in self._days(day, -1):
            times = self._times(candidate, zone)
            found = times.before(moment_ms)
            if found is None:
                continue
            previous = next(self._days(candidate - timedelta(days=1), -1), None)
            if previous is not None and (earlier := self._times(previous, zone)).changes:
                beyond = earlier.before(moment_ms)
                return max(found, beyond) if beyond is not None else found
            return found
        return None

    def _days(self, start: date, step: int) -> Iterator[date]:
        """Yield matching days from ``start`` on, forwards or backwards."""
        day = start
        last = start.year + step * SEARCH_YEARS
        while (last - day.year) * step >= 0 and 1 < day.year < 9999:
            if day.month not in self.months:
                first = day.replace(day=1)
                day = (first + timedelta(days=31)).replace(day=1) if step > 0 else first - timedelta(days=1)
                continue
            if self._matches_day(day):
                yield day
            day += timedelta(days=step)

    def _matches_day(self, day: date) -> bool:
        is_last = (day + timedelta(days=1)).month != day.month
        by_month = day.day in self.month_days or (is_last and LAST in self.month_days)
        weekday = day.isoweekday() % 7
        in_last_week = (day + timedelta(days=7)).month != day.month
        by_week = (
            weekday in self.weekdays
            or (weekday, (day.day + 6) // 7) in self.nth_weekdays
            or (in_last_week and (weekday, LAST) in self.nth_weekdays)
        )
        if self.both_days or self.any_month_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week

    def _times(self, day: date, zone: tzinfo) -> _Times:
        start, end = _offset(day, zone), _offset(day + timedelta(days=1), zone)
        midnight = to_ms(datetime(day.year, day.month, day.day, tzinfo=UTC))
        if start == end:
            return _SteadyDay(self, midnight - start)
        return _ChangingDay(_changing_day(self, day, zone))


@lru_cache(maxsize=4096)
def _offset(day: date, zone: tzinfo) -> int:
    offset = datetime(day.year, day.month, day.day, tzinfo=zone).utcoffset() or timedelta()
    return offset // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class _SteadyDay:
    """The times of a day without a clock change: computed, not listed."""

    fields: CronExpression
    midnight_ms: int
    changes: bool = False

    def after(self, moment_ms: float) -> int | None:
        left = int((moment_ms - self.midnight_ms) // 1000) + 1
        found = _first_from(self.fields, max(left, 0))
        return None if found is None else self.midnight_ms + found * 1000

    def before(self, moment_ms: float) -> int | None:
        left = -int(-(moment_ms - self.midnight_ms) // 1000) - 1
        found = _last_to(self.fields, min(left, 86_399))
        return None if found is None else self.midnight_ms + found * 1000


@dataclass(frozen=True, slots=True)
class _ChangingDay:
    """The times of a day on which the clock changes, sorted."""

    times_ms: tuple[int, ...]
    changes: bool = True

    def after(self, moment_ms: float) -> int | None:
        at = bisect_right(self.times_ms, moment_ms)
        return self.times_ms[at] if at < len(self.times_ms) else None

    def before(self, moment_ms: float) -> int | None:
        at = bisect_left(self.times_ms, moment_ms)
        return self.times_ms[at - 1] if at else None


_Times = _SteadyDay | _ChangingDay


@lru_cache(maxsize=256)
def _changing_day(fields: CronExpression, day: date, zone: tzinfo) -> tuple[int, ...]:
    times = set()
    for hour in fields.hours:
        for minute in fields.minutes:
            for second in fields.seconds:
                wall = datetime(day.year, day.month, day.day, hour, minute, second, tzinfo=zone)
                times.add(to_ms(wall))
                if fields.every_hour:
                    again = wall.replace(fold=1)
                    if (again.utcoffset() or timedelta()) < (wall.utcoffset() or timedelta()):
                        times.add(to_ms(again))
    return tuple(sorted(times))


def _first_from(fields: CronExpression, second_of_day: int) -> int | None:
    """Return the first matching second of a day from ``second_of_day`` on."""
    if second_of_day > 86_399:
        return None
    hour, minute, second = second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60
    first_minute, first_second = fields.minutes[0], fields.seconds[0]
    for h in fields.hours[bisect_left(fields.hours, hour) :]:
        if h > hour:
            return h * 3600 + first_minute * 60 + first_second
        for m in fields.minutes[bisect_left(fields.minutes, minute) :]:
            if m > minute:
                return h * 3600 + m * 60 + first_second
            at = bisect_left(fields.seconds, second)
            if at < len(fields.seconds):
                return h * 3600 + m * 60 + fields.seconds[at]
    return None


def _last_to(fields: CronExpression, second_of_day: int) -> int | None:
    """Return the last matching second of a day up to ``second_of_day``."""
    if second_of_day < 0:
        return None
    hour, minute, second = second_of_day // 3600, second_of_day // 60 % 60, second_of_day % 60
    for h in reversed(fields.hours[: bisect_right(fields.hours, hour)]):
        if h < hour:
            return h * 3600 + fields.minutes[-1] * 60 + fields.seconds[-1]
        for m in reversed(fields.minutes[: bisect_right(fields.minutes, minute)]):
            if m < minute:
                return h * 3600 + m * 60 + fields.seconds[-1]
            at = bisect_right(fields.seconds, second)
            if at:
                return h * 3600 + m * 60 + fields.seconds[at - 1]
    return None


@lru_cache(maxsize=1024)
def parse_cron(text: str) -> CronExpression:
    """Read an expression.

    >>> parse_cron("0 9 * * 1-5").weekdays
    (1, 2, 3, 4, 5)

    Raises:
        ConfigError: it is none; the message names the field.
    """
    trimmed = text.strip()
    fields = _NICKNAMES.get(trimmed.lower(), trimmed).split()
    if len(fields) not in (5, 6):
        raise ConfigError(f"cron expression {text!r} has {len(fields)} fields; give 5, or 6 with seconds in front")
    second, minute, hour, month_day, month, weekday = fields if len(fields) == 6 else ["0", *fields]
    both = weekday.startswith("+")
    plain, nth = _weekdays(weekday.removeprefix("+"), text)
    return CronExpression(
        text=text,
        seconds=_values(second, 0, 59, "second", text),
        minutes=_values(minute, 0, 59, "minute", text),
        hours=_values(hour, 0, 23, "hour", text),
        month_days=_month_days(month_day, text),
        months=_values(month, 1, 12, "month", text, _MONTHS),
        weekdays=plain,
        nth_weekdays=nth,
        any_month_day=month_day in ("*", "?"),
        any_weekday=weekday in ("*", "?"),
        both_days=both,
        every_hour=hour == "*",
    )


def _month_days(field: str, text: str) -> tuple[int, ...]:
    parts = field.split(",")
    plain = [part for part in parts if part.upper() != "L"]
    days = _values(",".join(plain), 1, 31, "day of month", text) if plain else ()
    return (LAST, *days) if len(plain) < len(parts) else days


def _weekdays(field: str, text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    plain, nth = [], []
    for part in field.split(","):
        if found := _NTH.fullmatch(part):
            day = _number(found[1], _DAYS, 0)
            if day is None or not 0 <= day <= 7:
                raise _bad("weekday", part, text)
            which = LAST if found[3] or found[2].upper() == "L" else int(found[2])
            nth.append((day % 7, which))
        else:
            plain.append(part)
    days = _values(",".join(plain), 0, 7, "weekday", text, _DAYS) if plain else ()
    return tuple(sorted({day % 7 for day in days})), tuple(nth)


def _values(field: str, low: int, high: int, name: str, text: str, names: tuple[str, ...] = ()) -> tuple[int, ...]:
    values: set[int] = set()
    for part in field.split(","):
        found = _PART.fullmatch(part)
        if not found:
            raise _bad(name, part, text)
        first, last, step = found.groups()
        start = low if first is None else _number(first, names, low)
        end = high if first is None or (last is None and step) else _number(last or first, names, low)
        if start is None or end is None or not low <= start <= end <= high or step == "0":
            raise _bad(name, part, text)
        values.update(range(start, end + 1, int(step or 1)))
    return tuple(sorted(values))


def _number(word: str, names: tuple[str, ...], low: int) -> int | None:
    if word.upper() in names:
        return names.index(word.upper()) + low
    return int(word) if word.isascii() and word.isdigit() else None


def _bad(name: str, part: str, text: str) -> ConfigError:
    return ConfigError(f"cron expression {text!r}: {part!r} is no {name}")
