"""Which jobs are due at a tick: plans only those whose time has come, so that 300 jobs cost nothing between slots.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turngraph.errors import ConfigError
from turngraph.schedules.slots import JobPlan, Watch, plan_job

if TYPE_CHECKING:
    from turngraph.config.schema_schedule import Cron
    from turngraph.schedules.job import Job

NEVER_MS = 2**63


@dataclass(frozen=True, slots=True)
class Due:
    """A job with something to do, or with a schedule that cannot be read."""

    job: Job
    plan: JobPlan
    problem: str | None = None


@dataclass(slots=True)
class _Known:
    schedule: str
    enabled: bool
    edited_ms: int
    look_ms: int = 0
    claimed_ms: int = 0


@dataclass(slots=True)
class DueJobs:
    """Remembers of each job when to look at it again, and which slot it was given last.

    Attributes:
        since_ms: since when somebody has been looking without a gap.
        interrupted: jobs whose last run was cut off; their missed slots are not caught up.
    """

    since_ms: int
    interrupted: set[str] = field(default_factory=set)
    _jobs: dict[str, _Known] = field(default_factory=dict)
    _last_ms: int = 0

    def plan(
        self,
        jobs: Iterable[Job],
        now_ms: int,
        settings: Cron,
        *,
        running: Collection[str],
        settled_ms: Callable[[str], int | None],
    ) -> list[Due]:
        """Return the jobs to deal with now, the oldest slot first.

        Args:
            jobs: all jobs as the store has them.
            running: ids of jobs with a run going on.
            settled_ms: newest slot with an outcome, from the ledger; asked only for jobs whose time has come.
        """
        stepped_back = now_ms < self._last_ms
        self._last_ms = now_ms
        found = []
        for job in jobs:
            known = self._known(job, now_ms)
            if not job.enabled or (now_ms < known.look_ms and not stepped_back):
                continue
            watch = Watch(
                now_ms,
                self.since_ms,
                settled_ms(job.id),
                max(known.edited_ms, known.claimed_ms),
                job.id in running,
                job.id in self.interrupted,
            )
            due = self._look(job, known, watch, settings)
            if due is not None:
                found.append(due)
        return sorted(found, key=lambda due: due.plan.run.slot_ms if due.plan.run else 0)

    def _known(self, job: Job, now_ms: int) -> _Known:
        known = self._jobs.get(job.id)
        text = job.schedule_text
        if known is None:
            known = self._jobs[job.id] = _Known(text, job.enabled, 0)
        elif known.schedule != text or (job.enabled and not known.enabled):
            known.schedule, known.enabled, known.look_ms = text, job.enabled, 0
            known.edited_ms = now_ms if job.is_recurring else 0
            known.claimed_ms = 0
        known.enabled = job.enabled
        return known

    def _look(self, job: Job, known: _Known, watch: Watch, settings: Cron) -> Due | None:
        try:
            plan = plan_job(job, watch, settings)
            schedule = job.schedule()
        except ConfigError as error:
            known.look_ms = watch.now_ms + 60_000
            return Due(job, JobPlan(), str(error))
        if plan.run is None:
            self.interrupted.discard(job.id)
            following = (
                schedule.next_after(watch.now_ms) if schedule and job.is_recurring else job.next_run_ms(watch.now_ms)
            )
            known.look_ms = NEVER_MS if following is None else max(following, watch.now_ms + 1)
        return Due(job, plan) if plan.run or plan.stretches else None

    def started(self, job_id: str, slot_ms: int) -> None:
        """Note that a slot was handed out: it is not planned again, whatever the ledger says meanwhile."""
        known = self._jobs[job_id]
        known.claimed_ms, known.look_ms = slot_ms, 0
        self.interrupted.discard(job_id)

    def ended(self, job_id: str) -> None:
        """Look at a job again: a run has ended, which may have given it a retry."""
        if job_id in self._jobs:
            self._jobs[job_id].look_ms = 0

    def next_look_ms(self) -> int:
        """Return the earliest time at which a job has to be looked at."""
        return min((known.look_ms for known in self._jobs.values() if known.enabled), default=NEVER_MS)
