"""Slots: which planned times of a job are due now, which one is run, and what became of the others.

A slot is a job's planned time. The ledger knows the newest slot that has an outcome; everything later and not in the
future is due. The newest due slot may run; older ones are missed.
Source: spec/scheduling.md B5 and C3, known-faults 11.1 to 11.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from turngraph.config.schema_schedule import Cron as CronSettings
from turngraph.schedules.job import Job
from turngraph.schedules.schedule import At, Schedule

LATE_MS = 60_000  # a start later than this after its slot counts as late
LONGEST_LATE_MS = 86_400_000
COUNTED_SLOTS = 10_000  # a stretch of more slots than this is not counted to its end

NotRun = Literal["missed", "skipped"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Slots in a row that do not run; ``count`` is ``None`` when there are too many to count."""

    event: NotRun
    from_ms: int
    to_ms: int
    count: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class DueSlot:
    """A slot to run now.

    Attributes:
        slot_ms: planned time.
        late: caught up after a stop, or more than a minute behind.
        reason: ``retry n`` for another try of a one-shot, or why it is late.
    """

    slot_ms: int
    late: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a tick does with a job: at most one slot to run, and stretches to record."""

    run: DueSlot | None = None
    stretches: tuple[Stretch, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """What the dispatcher knows when it plans.

    Attributes:
        now_ms: present time.
        since_ms: since when it has been looking without a gap; earlier slots are caught up.
        settled_ms: newest slot of the job with a line in the ledger.
        edited_ms: a later edit of the schedule that the record does not tell.
        running: whether a run of the job is going on.
        interrupted: whether the last run was cut off by the stop that is being caught up.
    """

    now_ms: int
    since_ms: int
    settled_ms: int | None = None
    edited_ms: int = 0
    running: bool = False
    interrupted: bool = False


def plan_job(job: Job, watch: Watch, settings: CronSettings) -> JobPlan:
    """Say what to do about the due slots of a job.

    Raises:
        ConfigError: the schedule cannot be read.
    """
    schedule = job.schedule() if job.enabled else None
    if schedule is None:
        return JobPlan()
    if isinstance(schedule, At):
        return _plan_once(job, schedule, watch, settings)
    floor = max(watch.settled_ms if watch.settled_ms is not None else -1, job.edited_ms, watch.edited_ms)
    newest = schedule.last_before(watch.now_ms + 1)
    if newest is None or newest <= floor:
        return JobPlan()
    if watch.running or newest < job.not_before_ms:
        reason = "already-running" if watch.running else "back-off"
        return JobPlan(None, (_stretch("skipped", schedule, floor, newest, reason),))
    older = schedule.last_before(newest)
    stretches: tuple[Stretch, ...] = ()
    if older is not None and older > floor:
        if older < job.not_before_ms:
            stretches = (_stretch("skipped", schedule, floor, older, "back-off"),)
        else:
            stretches = (_stretch("missed", schedule, floor, older, "a newer slot is due"),)
    following = schedule.next_after(newest)
    period_ms = following - newest if following is not None else LONGEST_LATE_MS
    refusal = _too_late(job, newest, min(period_ms, LONGEST_LATE_MS), watch, settings)
    if refusal:
        return JobPlan(None, (*stretches, Stretch("missed", newest, newest, 1, refusal)))
    return JobPlan(_due(newest, watch), stretches)


def _plan_once(job: Job, schedule: At, watch: Watch, settings: CronSettings) -> JobPlan:
    settled = watch.settled_ms if watch.settled_ms is not None else -1
    slot_ms, reason = schedule.at_ms, None
    if slot_ms <= settled:
        retry_ms = job.state.get("nextRunAtMs")
        if job.state.get("lastStatus") != "error" or not isinstance(retry_ms, int) or retry_ms <= settled:
            return JobPlan()
        slot_ms, reason = retry_ms, f"retry {job.state.get('consecutiveErrors') or 1}"
    if slot_ms > watch.now_ms:
        return JobPlan()
    if watch.running:
        return JobPlan()
    refusal = _too_late(job, slot_ms, LONGEST_LATE_MS, watch, settings)
    if refusal:
        return JobPlan(None, (Stretch("missed", slot_ms, slot_ms, 1, refusal),))
    due = _due(slot_ms, watch)
    return JobPlan(DueSlot(due.slot_ms, due.late, reason or due.reason))


def _due(slot_ms: int, watch: Watch) -> DueSlot:
    if slot_ms < watch.since_ms:
        return DueSlot(slot_ms, True, "caught up")
    late = watch.now_ms - slot_ms > LATE_MS
    return DueSlot(slot_ms, late, "waited" if late else None)


def _too_late(job: Job, slot_ms: int, default_ms: int, watch: Watch, settings: CronSettings) -> str | None:
    late_ms = watch.now_ms - slot_ms
    caught_up = slot_ms < watch.since_ms
    if caught_up and catch_up(job, settings) == "none":
        return "no catch-up"
    if caught_up and watch.interrupted:
        return "the run before it was interrupted"
    longest_ms = max_late_ms(job, settings, default_ms)
    return f"{late_ms} ms late, at most {longest_ms}" if late_ms > longest_ms else None


def catch_up(job: Job, settings: CronSettings) -> str:
    """Return whether the newest slot missed during a stop is run: ``one`` or ``none``."""
    own = job.own.get("catchUp")
    if own in ("one", "none"):
        return str(own)
    return "none" if settings.skip_missed_jobs and job.is_recurring else settings.catch_up


def max_late_ms(job: Job, settings: CronSettings, default_ms: int) -> int:
    """Return how late a slot may start: the job's own limit, the setting, or a period and at most a day."""
    own: Any = job.own.get("maxLateMs")
    if isinstance(own, int) and not isinstance(own, bool) and own >= 0:
        return own
    return default_ms if settings.max_late is None else settings.max_late // timedelta(milliseconds=1)


def _stretch(event: NotRun, schedule: Schedule, floor_ms: int, to_ms: int, reason: str) -> Stretch:
    first = schedule.next_after(floor_ms)
    from_ms = first if first is not None else to_ms
    return Stretch(event, from_ms, to_ms, count_slots(schedule.next_after, from_ms, to_ms), reason)


def count_slots(next_after: Callable[[float], int | None], from_ms: int, to_ms: int) -> int | None:
    """Count slots from one to another, both included; ``None`` beyond 10,000."""
    count, at = 1, from_ms
    while at < to_ms:
        following = next_after(at)
        if following is None or following > to_ms:
            break
        at, count = following, count + 1
        if count > COUNTED_SLOTS:
            return None
    return count
