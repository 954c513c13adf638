"""Run what is due as plain functions in this process, without Prefect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stores.jobs import JobStore
from turngraph.api import Turngraph
from turngraph.clock import Clock
from turngraph.errors import NotFound
from turngraph.scheduled.beat import BeatResult, run_beat
from turngraph.scheduled.job_run import JobRun, Slot, agent_of, run_claimed
from turngraph.scheduled.reindexing import Reindexed, reindex_agents
from turngraph.scheduled.upkeep import UpkeepReport, run_upkeep
from turngraph.schedules.job import Job
from turngraph.text import head

SHOWN_CHARS = 80

log = logging.getLogger("turngraph.serve")


@dataclass(slots=True)
class PlainRunner:
    """The work itself.

    Attributes:
        home: returns the home as it is now; settings may change while a process runs.
        clock: time.
        flow_run_id: flow run that records the work, if one does.
        say: told what happens, one line each.
    """

    home: Callable[[], Turngraph]
    clock: Clock
    flow_run_id: str | None = None
    say: Callable[[str], None] = field(default=log.info)

    async def run_job(self, job_id: str, slot: Slot) -> JobRun | None:
        """Run a job whose slot is claimed; ``None`` when the job is gone."""
        home = self.home()
        store = JobStore.of_home(home.home, home.settings.agent())
        job = next((job for job in store.load().jobs if job.id == job_id), None)
        if job is None:
            return None
        problem = None
        try:
            agent = agent_of(home, job, clock=self.clock)
        except NotFound as error:  # the settings have lost its agent: the default one keeps the books
            agent, problem = home.agent(clock=self.clock), str(error)
        slot = replace(slot, flow_run_id=self.flow_run_id)
        run = await run_claimed(agent, store, job, slot, problem=problem)
        log.info("%s", run_line(job, run))
        return run

    async def cron(self, job_id: str, slot: Slot) -> None:
        await self.run_job(job_id, slot)

    async def heartbeat(self, agent_id: str, reason: str) -> BeatResult:
        home = self.home()
        beat = home.settings.agent(agent_id).heartbeat
        agent = home.agent(agent_id, model=beat.model, clock=self.clock)
        result = await run_beat(agent, reason, flow_run_id=self.flow_run_id)
        log.info("heartbeat of %s: %s (%s)", agent_id, result.status, result.reason)
        return result

    async def run_reindex(self, agents: Sequence[str] | None = None) -> tuple[Reindexed, ...]:
        """Bring indexes up to date, of all agents when none are named."""
        home = self.home()
        done = await reindex_agents(home, agents or home.agents, say=self.say)
        for one in done:
            if one.has_news:
                self.say(one.line())
        return done

    async def reindex(self, agents: Sequence[str]) -> None:
        await self.run_reindex(agents)

    async def run_maintenance(self, *, dry_run: bool = False) -> UpkeepReport:
        """Tidy the home."""
        report = await asyncio.to_thread(run_upkeep, self.home(), self.clock, dry_run=dry_run)
        log.info("maintenance: %d files, %d bytes gone", report.files, report.freed_bytes)
        for problem in report.problems:
            log.warning("maintenance: %s", problem)
        return report

    async def maintenance(self) -> None:
        await self.run_maintenance()


def run_line(job: Job, run: JobRun) -> str:
    """Return a finished run as one line: name, status, time, and what it said or why it failed."""
    entry = run.entry
    said = str(entry.get("error") or entry.get("summary") or "")
    first = head(" ".join(said.split()), SHOWN_CHARS)
    return f"job {job.name}: {run.status}, {entry['durationMs'] / 1000:.1f} s{f': {first}' if first else ''}"
