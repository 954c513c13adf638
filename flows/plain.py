"""Run what is due as plain functions in this process, without Prefect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from stores.jobs import JobStore
from turngraph.api import Turngraph
from turngraph.clock import Clock
from turngraph.scheduled.beat import BeatResult, run_beat
from turngraph.scheduled.job_run import JobRun, Slot, agent_of, run_claimed
from turngraph.scheduled.reindexing import Reindexed, reindex_agents
from turngraph.scheduled.upkeep import UpkeepReport, run_upkeep

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
        agent = agent_of(home, job, clock=self.clock)
        return await run_claimed(agent, store, job, replace(slot, flow_run_id=self.flow_run_id))

    async def cron(self, job_id: str, slot: Slot) -> None:
        run = await self.run_job(job_id, slot)
        if run is not None:
            log.info("job %s: %s", job_id, run.status)

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
            self.say(one.line())
        return done

    async def reindex(self, agents: Sequence[str]) -> None:
        await self.run_reindex(agents)

    async def run_maintenance(self, *, dry_run: bool = False) -> UpkeepReport:
        """Tidy the home."""
        return await asyncio.to_thread(run_upkeep, self.home(), self.clock, dry_run=dry_run)

    async def maintenance(self) -> None:
        report = await self.run_maintenance()
        log.info("maintenance: %d files, %d bytes", report.files, report.freed_bytes)
