"""A year of 40 jobs in eight zones, with restarts, sleeps and clock steps, against an enumeration of its own."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from turngraph.clock import to_ms
from turngraph.config.schema_schedule import Cron
from turngraph.scheduled.due_jobs import DueJobs
from turngraph.schedules.job import Job

START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 365
MINUTE = 60_000
HOUR = 60 * MINUTE
GRACE = 24 * HOUR
ZONES = (
    "UTC",
    "America/New_York",
    "America/Santiago",
    "Europe/London",
    "Europe/Berlin",
    "Asia/Shanghai",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
)


@dataclass(frozen=True)
class Fields:
    """A schedule as plain sets; ``None`` is ``*``."""

    expression: str
    minutes: frozenset[int]
    hours: frozenset[int] | None
    days: frozenset[int] | None = None  # Monday is 0

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and (self.hours is None or wall.hour in self.hours)
            and (self.days is None or wall.weekday() in self.days)
        )


SCHEDULES = (
    Fields("30 2 * * *", frozenset({30}), frozenset({2})),
    Fields("30 1 * * *", frozenset({30}), frozenset({1})),
    Fields("0 9 * * 1-5", frozenset({0}), frozenset({9}), frozenset(range(5))),
    Fields("15 * * * *", frozenset({15}), None),
    Fields("45 0,12,23 * * 0,6", frozenset({45}), frozenset({0, 12, 23}), frozenset({5, 6})),
)


def enumerate_slots(zone: ZoneInfo) -> dict[str, list[int]]:
    """Walk the year minute by minute, by the wall clock of a zone, without the code under test."""
    found: dict[str, list[int]] = {fields.expression: [] for fields in SCHEDULES}
    at, end, before = START, START + timedelta(days=DAYS + 2), None
    while at < end:
        wall = at.astimezone(zone).replace(tzinfo=None)
        second_pass = at.astimezone(zone).fold == 1
        jumped: list[datetime] = [] if before is None else _skipped(before, wall)
        for fields in SCHEDULES:
            hit = fields.matches(wall) and (fields.hours is None or not second_pass)
            if hit:
                found[fields.expression].append(to_ms(at))
        for missing in jumped:  # these minutes do not exist: they run as much later as the clock jumped
            later = to_ms(at) + (missing - jumped[0]) // timedelta(milliseconds=1)
            for fields in SCHEDULES:
                if fields.matches(missing):
                    found[fields.expression].append(later)
        before, at = wall, at + timedelta(minutes=1)
    return {expression: sorted(set(slots)) for expression, slots in found.items()}


def _skipped(before: datetime, wall: datetime) -> list[datetime]:
    missing, at = [], before + timedelta(minutes=1)
    while at < wall:
        missing.append(at)
        at += timedelta(minutes=1)
    return missing


@dataclass(frozen=True)
class Watched:
    """A time during which the dispatcher looks, by its own clock; ``fresh`` when it is a new process."""

    from_ms: int
    to_ms: int


def timeline(random_: random.Random) -> list[Watched]:
    """Restarts within minutes, nights asleep, days off, and a clock that is set back and forth."""
    stretches, at, end = [], to_ms(START), to_ms(START + timedelta(days=DAYS))
    while at < end:
        until = min(end, at + int(random_.uniform(0.2, 9) * 24 * HOUR))
        stretches.append(Watched(at, until))
        gap = random_.choice((90_000, 5 * MINUTE, 8 * HOUR, 30 * HOUR, 60 * HOUR, -10 * MINUTE, -3 * HOUR, HOUR))
        at = until + gap
    return stretches


def expected(slots: list[int], created_ms: int, period_ms: dict[int, int], stretches: list[Watched]) -> dict[int, str]:
    """Say what becomes of each slot: done while watched, the newest of a gap late within its grace, others missed."""
    outcome: dict[int, str] = {}
    seen = created_ms
    for stretch in stretches:
        gap = [slot for slot in slots if seen < slot < stretch.from_ms]
        for slot in gap:
            outcome[slot] = "missed"
        on_time = [slot for slot in slots if max(seen, stretch.from_ms - 1) < slot <= stretch.to_ms]
        at_start = on_time and on_time[0] == stretch.from_ms
        if gap and not at_start and stretch.from_ms - gap[-1] <= min(period_ms[gap[-1]], GRACE):
            outcome[gap[-1]] = "late"
        outcome |= dict.fromkeys(on_time, "done")
        seen = max(seen, stretch.to_ms)
    return outcome


@pytest.mark.slow
def test_each_slot_of_a_year_has_the_outcome_that_an_enumeration_of_its_own_gives() -> None:
    random_ = random.Random(20260101)
    created = to_ms(START) - 1
    jobs, wanted = [], {}
    stretches = timeline(random_)
    for zone in ZONES:
        for fields_index, (expression, slots) in enumerate(enumerate_slots(ZoneInfo(zone)).items()):
            job_id = f"{zone.replace('/', '-')}-{fields_index}"
            raw = {"kind": "cron", "expr": expression, "tz": zone, "staggerMs": 0}
            jobs.append(Job({"id": job_id, "enabled": True, "createdAtMs": created, "schedule": raw, "state": {}}))
            periods = {slot: after - slot for slot, after in pairwise(slots)}
            within = [slot for slot in slots if slot <= stretches[-1].to_ms]
            wanted[job_id] = expected(within, created, periods, stretches)
    got = _simulate(jobs, stretches)
    assert len(jobs) == 40
    for job in jobs:
        assert got[job.id] == wanted[job.id], job.id
    counted = Counter(outcome for outcomes in got.values() for outcome in outcomes.values())
    assert counted["done"] > 30_000
    assert counted["late"] > 100
    assert counted["missed"] > 1_000


def _simulate(jobs: list[Job], stretches: list[Watched]) -> dict[str, dict[int, str]]:
    outcome: dict[str, dict[int, str]] = {job.id: {} for job in jobs}
    settled: dict[str, int] = {}
    by_id = {job.id: job for job in jobs}

    def note(job_id: str, slot_ms: int, what: str) -> None:
        assert slot_ms not in outcome[job_id], f"{job_id} {slot_ms} {what} after {outcome[job_id].get(slot_ms)}"
        outcome[job_id][slot_ms] = what
        settled[job_id] = max(settled.get(job_id, 0), slot_ms)

    for stretch in stretches:
        due_jobs = DueJobs(stretch.from_ms)
        now = stretch.from_ms
        while now <= stretch.to_ms:
            for due in due_jobs.plan(jobs, now, Cron(), running=(), settled_ms=settled.get):
                schedule = by_id[due.job.id].schedule()
                assert schedule is not None
                for missed in due.plan.stretches:
                    slot: int | None = missed.from_ms
                    counted = 0
                    while slot is not None and slot <= missed.to_ms:
                        note(due.job.id, slot, missed.event)
                        slot, counted = schedule.next_after(slot), counted + 1
                    assert counted == missed.count
                if due.plan.run is not None:
                    note(due.job.id, due.plan.run.slot_ms, "late" if due.plan.run.late else "done")
                    due_jobs.started(due.job.id, due.plan.run.slot_ms)
                    due_jobs.ended(due.job.id)
            now = max(now + 1_000, due_jobs.next_look_ms())
    return outcome
