from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.reset_policy import (
    ResetPolicy,
    daily_boundary,
    describe_reset_policy,
    freshness,
    next_boundary,
    policy_of,
)
from nodes.state import SessionFacts
from turngraph.clock import to_ms
from turngraph.config import default_settings
from turngraph.config.schema_session import Session

NOON = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
ZONES = st.sampled_from(["UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "America/Santiago"])
MOMENTS = st.integers(1, 2_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


def fresh(policy: ResetPolicy, now: datetime, used: datetime, zone: str = "UTC") -> bool:
    at = to_ms(used)
    return freshness(policy, now, ZoneInfo(zone), updated_ms=at, started_ms=at, interaction_ms=at).fresh


def settings(**session: object) -> Session:
    return Session.model_validate(session)


def test_without_settings_a_session_never_ends_by_itself() -> None:
    assert policy_of(settings(), "direct", None) == ResetPolicy()
    assert fresh(ResetPolicy(), NOON, NOON - timedelta(days=900))


def test_off_is_read_as_none_and_a_block_without_mode_as_daily() -> None:
    assert policy_of(settings(reset={"mode": "off"}), "direct", None).mode == "none"
    assert policy_of(settings(reset={"atHour": 6}), "direct", None) == ResetPolicy("daily", 6, configured=True)


def test_a_channel_block_stands_alone_and_a_type_block_goes_over_the_base() -> None:
    session = settings(
        reset={"mode": "daily", "atHour": 2},
        resetByType={"group": {"idleMinutes": 30}},
        resetByChannel={"imessage": {"mode": "idle", "idleMinutes": 5}},
    )
    assert policy_of(session, "group", "telegram") == ResetPolicy("daily", 2, 30, True)
    assert policy_of(session, "group", " iMsg ") == ResetPolicy("idle", 4, 5, True)


def test_the_day_ends_where_the_user_lives() -> None:
    policy = ResetPolicy("daily", 4, configured=True)
    last = datetime(2026, 7, 16, 19, 30, tzinfo=UTC)  # 03:30 in Shanghai
    assert fresh(policy, datetime(2026, 7, 16, 19, 50, tzinfo=UTC), last, "Asia/Shanghai")
    assert not fresh(policy, datetime(2026, 7, 16, 20, 30, tzinfo=UTC), last, "Asia/Shanghai")


def test_a_zone_of_the_reset_itself_comes_before_the_users() -> None:
    policy = policy_of(settings(reset={"mode": "daily", "timezone": "America/New_York"}), "direct", None)
    assert policy.zone(UTC) == ZoneInfo("America/New_York")


def test_exactly_at_the_limit_a_session_is_still_fresh() -> None:
    policy = ResetPolicy("idle", idle_minutes=60)
    assert fresh(policy, NOON, NOON - timedelta(minutes=60))
    assert not fresh(policy, NOON, NOON - timedelta(minutes=60, milliseconds=1))
    daily = ResetPolicy("daily", 4)
    boundary = daily_boundary(NOON, 4, UTC)
    assert fresh(daily, NOON, boundary)
    assert not fresh(daily, NOON, boundary - timedelta(milliseconds=1))


def test_an_idle_limit_of_zero_is_none() -> None:
    assert fresh(ResetPolicy("idle", idle_minutes=0), NOON, NOON - timedelta(days=99))


def test_a_clock_that_was_set_back_ends_no_session() -> None:
    assert fresh(ResetPolicy("daily", 4, 60), NOON, NOON + timedelta(days=3))


def test_an_entry_marked_with_time_zero_is_over_whatever_the_policy() -> None:
    assert freshness(ResetPolicy(), NOON, UTC, updated_ms=0).reason == "forced"


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (None, "Automatic reset: off (session.reset.mode is none)"),
        ({"mode": "daily"}, "Automatic reset: daily at 04:00 Asia/Shanghai, next 2026-03-17 04:00"),
        (
            {"mode": "idle", "idleMinutes": 90},
            "Automatic reset: after 90 minutes without a message, next 2026-03-16 21:30",
        ),
    ],
)
def test_the_status_names_the_mode_and_the_next_boundary(block: dict[str, object] | None, line: str) -> None:
    base = default_settings()
    root = base.root.model_copy(update={"session": settings(reset=block) if block else settings()})
    chosen = base.model_copy(update={"root": root, "user_timezone": "Asia/Shanghai"})
    entry = {"lastInteractionAt": to_ms(NOON)}
    facts = SessionFacts("agent:main:main", "s1", Path("s1.jsonl"), entry)
    assert describe_reset_policy(facts, chosen, NOON) == line


@given(MOMENTS, st.integers(0, 23), ZONES)
def test_the_boundary_is_the_last_one_and_the_next_one_comes_after(now: datetime, hour: int, zone: str) -> None:
    place = ZoneInfo(zone)
    last, coming = daily_boundary(now, hour, place), next_boundary(now, hour, place)
    assert last <= now < coming
    assert now - last <= timedelta(hours=26)
    assert timedelta(hours=22) <= coming - last <= timedelta(hours=26)


@given(MOMENTS, MOMENTS, st.integers(0, 23), ZONES)
def test_two_moments_share_a_day_exactly_when_no_boundary_lies_between(
    one: datetime, other: datetime, hour: int, zone: str
) -> None:
    used, now = sorted((one, other))
    same = daily_boundary(used, hour, ZoneInfo(zone)) == daily_boundary(now, hour, ZoneInfo(zone))
    assert fresh(ResetPolicy("daily", hour), now, used, zone) == same
