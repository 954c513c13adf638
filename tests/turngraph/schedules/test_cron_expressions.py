"""Cron expressions: fields, zones, both clock changes (known-faults 11.4), and laws."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given
from hypothesis import strategies as st

from turngraph.clock import from_ms, to_ms
from turngraph.errors import ConfigError
from turngraph.schedules.cron import parse_cron
from turngraph.schedules.schedule import Every

NEW_YORK = "America/New_York"
ZONES = ("UTC", NEW_YORK, "America/Santiago", "Europe/London", "Asia/Kolkata", "Australia/Lord_Howe", "Africa/Cairo")
EXPRESSIONS = ("*/20 * * * *", "30 2 * * *", "0 9 * * 1-5", "0 9 15 * 1", "5 4 L * *", "0 0 * * 5#2", "*/7 */3 * * *")
MOMENTS = st.integers(to_ms(datetime(2025, 1, 1, tzinfo=UTC)), to_ms(datetime(2028, 1, 1, tzinfo=UTC)))


def runs(expression: str, zone: str, after: str, count: int = 2) -> list[str]:
    """Return the next runs after a UTC time, as UTC."""
    at = to_ms(datetime.fromisoformat(after).replace(tzinfo=UTC))
    found = []
    for _ in range(count):
        following = parse_cron(expression).next_after(at, ZoneInfo(zone))
        assert following is not None
        at = following
        found.append(f"{from_ms(at):%Y-%m-%dT%H:%M}")
    return found


@pytest.mark.parametrize(
    ("expression", "zone", "after", "expected"),
    [
        ("30 1 * * *", NEW_YORK, "2026-11-01T04:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
        ("30 2 * * *", NEW_YORK, "2026-03-08T05:00", ["2026-03-08T07:30", "2026-03-09T06:30"]),
        ("*/15 2 * * *", NEW_YORK, "2026-03-08T05:00", ["2026-03-08T07:00", "2026-03-08T07:15"]),
        ("10 0 * * *", "America/Montreal", "2023-03-12T05:10:02", ["2023-03-13T04:10", "2023-03-14T04:10"]),
        ("0 * * * *", NEW_YORK, "2026-11-01T04:30", ["2026-11-01T05:00", "2026-11-01T06:00"]),
        ("0 0 * * *", "America/Santiago", "2026-09-05T12:00", ["2026-09-06T04:00", "2026-09-07T03:00"]),
        ("0 6 * * *", "Asia/Kuala_Lumpur", "2026-03-16T09:20", ["2026-03-16T22:00", "2026-03-17T22:00"]),
        ("0 12 L * *", "UTC", "2027-02-01T00:00", ["2027-02-28T12:00", "2027-03-31T12:00"]),
        ("0 12 * * 5L", "UTC", "2026-03-01T00:00", ["2026-03-27T12:00", "2026-04-24T12:00"]),
        ("0 12 13 * +5", "UTC", "2026-01-01T00:00", ["2026-02-13T12:00", "2026-03-13T12:00"]),
        ("@daily", "UTC", "2026-01-01T00:00", ["2026-01-02T00:00", "2026-01-03T00:00"]),
        ("0 0 29 2 *", "UTC", "2026-01-01T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
    ],
)
def test_next_runs(expression: str, zone: str, after: str, expected: list[str]) -> None:
    assert runs(expression, zone, after) == expected


def test_six_fields_have_seconds_first() -> None:
    at = parse_cron("30 0 9 * * *").next_after(0, ZoneInfo("UTC"))
    assert at == (9 * 3600 + 30) * 1000


def test_an_impossible_date_is_never_due() -> None:
    assert parse_cron("0 0 30 2 *").next_after(0, ZoneInfo("UTC")) is None
    assert parse_cron("0 0 30 2 *").last_before(10**12, ZoneInfo("UTC")) is None


@pytest.mark.parametrize(
    "text", ["61 9 * * *", "* *", "", "a b c d e", "5-1 * * * *", "*/0 * * * *", "0 9 * * 8", "@now"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_cron(text)


@given(st.sampled_from(EXPRESSIONS), MOMENTS)
def test_in_utc_it_agrees_with_another_reader(expression: str, at: int) -> None:
    found = parse_cron(expression).next_after(at, UTC)
    assert found == to_ms(croniter(expression, from_ms(at)).get_next(datetime))


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES), MOMENTS)
def test_the_last_slot_before_the_next_is_not_after_now(expression: str, zone: str, at: int) -> None:
    parsed, there = parse_cron(expression), ZoneInfo(zone)
    following = parsed.next_after(at, there)
    assert following is not None
    assert following > at
    before = parsed.last_before(following, there)
    assert before is not None
    assert before <= at
    assert parsed.next_after(before, there) == following


@given(st.integers(1, 10**9), st.integers(0, 10**12), st.integers(0, 2 * 10**12))
def test_a_grid_has_one_slot_in_each_interval(every_ms: int, anchor_ms: int, at: int) -> None:
    grid = Every(every_ms, anchor_ms)
    following = grid.next_after(at)
    assert following > at
    assert (following - anchor_ms) % every_ms == 0
    before = grid.last_before(following)
    assert before is None or (before <= at and following - before == every_ms)
