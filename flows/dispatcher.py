"""The dispatcher: looks every tick what is due, claims it, and hands it to workers. It knows nothing of Prefect.

A tick reads and plans; the work happens in asyncio tasks, blocking parts in threads. Jobs and settings are read anew
whenever their files have changed, so an edit counts from the next tick on.
Source: spec/scheduling.md C1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stores.events import EventFile
from stores.jobs import JobStore, LoadedJobs
from stores.session_entries import number
from turngraph.api import Turngraph, open_home
from turngraph.clock import Clock, Ids, to_ms
from turngraph.errors import ConfigError, TurngraphError
from turngraph.scheduled.beat import BeatResult, beat_session
from turngraph.scheduled.beat_state import BeatStates, ensure_seed
from turngraph.scheduled.due_jobs import Due, DueJobs
from turngraph.scheduled.intervals import Intervals, reindex_every
from turngraph.scheduled.job_run import Slot, agent_of, interrupt, tell
from turngraph.scheduled.run_sessions import sweep_runs
from turngraph.schedules.heartbeat import MS, beat_backoff_ms, rhythm_of
from turngraph.schedules.job import Job
from turngraph.schedules.results import schedule_failed
from turngraph.schedules.slots import Stretch
from turngraph.schedules.wakes import COALESCE_MS, RETRY_MS, Wake, deferral, strongest

GAP_MS = 60_000  # a longer pause between two ticks counts as a stop: what fell into it is caught up
SWEEP_RUNS_MS = 300_000
STOP_GRACE_S = 3.0
FAULT_PAUSE_MS = 60_000  # after a beat that could not even begin
BUSY = "requests-in-flight"

log = logging.getLogger("turngraph.serve")


class Runner(Protocol):
    """Runs what is due; each call returns when the run has ended and been recorded."""

    async def cron(self, job_id: str, slot: Slot) -> None: ...

    async def heartbeat(self, agent_id: str, reason: str) -> BeatResult: ...

    async def reindex(self, agents: Sequence[str]) -> None: ...

    async def maintenance(self) -> None: ...


@dataclass(slots=True)
class _Watched:
    """A file and what it looked like when it was last read."""

    path: Path
    seen: tuple[int, int, int] | None = None
    first: bool = True

    def changed(self) -> bool:
        """Tell whether the file is another one than at the last call."""
        try:
            facts = self.path.stat()
            now = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        except FileNotFoundError:
            now = None
        different = self.first or now != self.seen
        self.seen, self.first = now, False
        return different


@dataclass(slots=True)
class _Beats:
    """What the dispatcher knows of one agent's heartbeats."""

    handled_ms: int
    events: _Watched
    wakes: tuple[Wake, ...] = ()
    retry_ms: int = 0


@dataclass
class Dispatcher:
    """One for a home, in the process that holds ``serve.lock``.

    Attributes:
        home: the opened home; replaced when its settings change.
        runner: runs what is due.
        clock, ids: time and run ids.
    """

    home: Turngraph
    runner: Runner
    clock: Clock
    ids: Ids
    reload: Callable[[Path], Turngraph] = open_home
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _slots: dict[str, Slot] = field(default_factory=dict)
    _jobs: LoadedJobs | None = None
    _beats: dict[str, _Beats] = field(default_factory=dict)
    _dirty: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        now_ms = self._now_ms()
        self._last_ms = now_ms
        self._swept_ms = now_ms
        self._due = DueJobs(now_ms)
        self._seed = ensure_seed(self.home.home, self.ids.uuid())
        self._states = BeatStates(self.home.home)
        self._intervals = Intervals(self.home.home)
        root = self.home.home.root
        self._settings_files = [_Watched(root / name) for name in ("turngraph.json5", "openclaw.json")]
        for watched in self._settings_files:
            watched.changed()
        self._store = JobStore.of_home(self.home.home, self.home.settings.agent())
        self._jobs_file = _Watched(self._store.path)
        for agent_id in self.home.agents:
            self._beats_of(agent_id, now_ms)

    def _beats_of(self, agent_id: str, now_ms: int) -> _Beats:
        known = self._beats.get(agent_id)
        if known is None:  # a start is never a reason to beat: only slots after it count
            known = self._beats[agent_id] = _Beats(now_ms, _Watched(self.home.home.events_file(agent_id)))
        return known

    def _now_ms(self) -> int:
        return to_ms(self.clock.now())

    @property
    def running(self) -> tuple[str, ...]:
        """Names of what runs now, such as ``cron:<jobId>``."""
        return tuple(self._tasks)

    def recover(self) -> tuple[str, ...]:
        """Settle what a dead process left: its slots are interrupted, its running markers cleared. At start only.

        Returns:
            Ids of the jobs whose runs were cut off.
        """
        agent = self.home.agent(clock=self.clock)
        cut_off = []
        for path in sorted(self._store.ledger.folder.glob("*.jsonl")):
            for claim in self._store.ledger.read(path.stem).open:
                if claim.is_orphan:
                    interrupt(agent, self._store, claim.job_id, Slot(claim.run_id, claim.slot_ms))
                    cut_off.append(claim.job_id)
        try:
            self._store.change(_without_markers)
        except TurngraphError as error:
            self._warn(str(error))
        self._due.interrupted.update(cut_off)
        return tuple(cut_off)

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until ``stop`` is set, then end what runs: it gets three seconds, then it is interrupted."""
        while not stop.is_set():
            try:
                await self.tick()
            except (TurngraphError, OSError) as error:
                self._warn(f"tick: {error}")
            tick_s = self.home.settings.agent().serve.tick_ms / 1000
            try:
                await asyncio.wait_for(stop.wait(), tick_s)
            except TimeoutError:
                continue
        await self.stop()

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Wait shortly for what runs, then cancel it."""
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=grace_s)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def settled(self) -> None:
        """Wait until nothing runs; for tests and for runs without a loop."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def run_due_jobs(self, look_back_ms: int) -> list[str]:
        """Start the jobs that are due, wait for them, and return their ids; for schedulers of others."""
        self._due.since_ms = self._now_ms() - look_back_ms
        started: list[str] = []
        while True:  # no more run at once than cron.maxConcurrentRuns; the others come when these have ended
            self._start_jobs(self._now_ms())
            if not self._tasks:
                return started
            started += [name.removeprefix("cron:") for name in self._tasks]
            await self.settled()

    async def tick(self) -> None:
        """Look once what is due, and start it."""
        now_ms = self._now_ms()
        if now_ms - self._last_ms > GAP_MS:
            self._due.since_ms = now_ms
        self._last_ms = now_ms
        self._reload_settings()
        settings = self.home.settings.agent()
        if settings.cron.enabled:
            self._start_jobs(now_ms)
        if settings.serve.heartbeats:
            for agent_id in self.home.agents:
                self._start_beat(agent_id, now_ms)
        self._start_upkeep(now_ms)

    def _reload_settings(self) -> None:
        changed = [watched.changed() for watched in self._settings_files]
        if not any(changed):
            return
        try:
            self.home = self.reload(self.home.home.root)
        except ConfigError as error:
            self._warn(f"the settings cannot be used, the ones before stay: {error}")
            return
        store = JobStore.of_home(self.home.home, self.home.settings.agent())
        if store.path != self._store.path:
            self._store, self._jobs_file = store, _Watched(store.path)

    # Jobs

    def _start_jobs(self, now_ms: int) -> None:
        if self._jobs_file.changed():
            try:
                self._jobs = self._store.load()
            except TurngraphError as error:
                self._jobs = None
                self._warn(str(error))
                return
            for problem in self._jobs.unusable:
                self._warn(f"{self._store.path.name}: {problem}")
        if self._jobs is None:
            return
        cron = self.home.settings.agent().cron
        running = {name.removeprefix("cron:") for name in self._tasks if name.startswith("cron:")}
        due_now = self._due.plan(
            self._jobs.jobs,
            now_ms,
            cron,
            running=running,
            settled_ms=lambda id_: self._store.ledger.read(id_).settled_ms,
        )
        free = cron.max_concurrent_runs - len(running)
        for due in due_now:
            if due.problem is not None:
                self._schedule_failed(due)
                continue
            for stretch in due.plan.stretches:
                self._store.ledger.record(due.job.id, stretch, self.ids.uuid(), now_ms)
                self._log_not_run(due.job, stretch)
            if due.plan.run is not None and free > 0:
                free -= 1
                self._start_job(due)

    def _start_job(self, due: Due) -> None:
        planned = due.plan.run
        if planned is None:
            return
        slot = Slot(self.ids.uuid(), planned.slot_ms, planned.late, planned.reason)
        self._due.started(due.job.id, planned.slot_ms)
        self._slots[due.job.id] = slot
        self._start(f"cron:{due.job.id}", self._run_job(due.job, slot))

    async def _run_job(self, job: Job, slot: Slot) -> None:
        now_ms = self._now_ms()
        claimed = await asyncio.to_thread(
            self._store.ledger.claim, job.id, slot.slot_ms, slot.run_id, now_ms, reason=slot.reason
        )
        try:
            if claimed:
                await self.runner.cron(job.id, slot)
        finally:
            self._slots.pop(job.id, None)
            self._due.ended(job.id)

    def _schedule_failed(self, due: Due) -> None:
        applied = schedule_failed(due.job, due.problem or "")
        self._store.update(due.job.id, lambda known: schedule_failed(known, due.problem or "").job)
        self._warn(f"job {due.job.name}: {due.problem}")
        for notice in applied.notices:
            tell(agent_of(self.home, due.job, clock=self.clock), notice, f"cron:{due.job.id}")

    def _log_not_run(self, job: Job, stretch: Stretch) -> None:
        slots = "1 slot" if stretch.count == 1 else f"{stretch.count or 'many'} slots"
        log.info("job %s: %s %s (%s)", job.name, slots, stretch.event, stretch.reason)
        if stretch.event == "missed" and not job.is_recurring:
            state = {"lastStatus": "skipped", "lastRunStatus": "skipped", "lastError": f"missed: {stretch.reason}"}
            self._store.update(job.id, lambda known: known.evolve(state=state, enabled=False))

    # Heartbeats

    def _start_beat(self, agent_id: str, now_ms: int) -> None:
        name = f"heartbeat:{agent_id}"
        settings = self.home.settings.agent(agent_id)
        rhythm = rhythm_of(settings, self._seed)
        if rhythm is None:
            return
        events = EventFile(self.home.home.events_file(agent_id))
        known = self._beats_of(agent_id, now_ms)
        if known.events.changed():
            known.wakes = events.wakes()
        newest = rhythm.last_before(now_ms + 1)
        planned = newest is not None and newest > known.handled_ms
        waiting = [wake for wake in strongest(known.wakes) if wake.at_ms + COALESCE_MS <= now_ms]
        if name in self._tasks or (not planned and not waiting) or now_ms < known.retry_ms:
            return
        state = self._states.of(agent_id)
        if planned and newest is not None:
            known.handled_ms = newest
            if now_ms < self._backed_off_until(agent_id, rhythm.grid.every_ms):
                return
        wake = waiting[0] if waiting else None
        put_off = deferral(
            wake.intent if wake and not planned else "scheduled",
            now_ms,
            next_due_ms=now_ms if planned else rhythm.next_after(now_ms),
            last_start_ms=state.last_start_ms,
            recent_starts_ms=state.starts_ms,
        )
        if put_off is not None:
            known.retry_ms = put_off.retry_at_ms if wake else 0
            return
        reason = "interval" if wake is None else wake.reason
        self._start(name, self._beat(agent_id, reason, tuple(wake.id for wake in known.wakes)))

    def _backed_off_until(self, agent_id: str, interval_ms: int) -> int:
        """Return when beats go on after failures; a message of the user ends the pause."""
        state = self._states.of(agent_id)
        if not state.failures or state.failed_ms is None:
            return 0
        agent = self.home.agent(agent_id, clock=self.clock)
        spoke = number(agent.sessions().get(beat_session(agent)), "lastInteractionAt")
        if spoke is not None and spoke > state.failed_ms:
            return 0
        longest_ms = agent.settings.heartbeat.backoff_max // MS
        return state.failed_ms + beat_backoff_ms(state.failures, interval_ms, longest_ms)

    async def _beat(self, agent_id: str, reason: str, wakes: tuple[str, ...]) -> None:
        known = self._beats[agent_id]
        known.retry_ms = self._now_ms() + FAULT_PAUSE_MS  # should this raise, its wake requests stay
        result = await self.runner.heartbeat(agent_id, reason)
        known.retry_ms = self._now_ms() + RETRY_MS if result.reason == BUSY else 0
        if result.reason == BUSY:
            return
        events = EventFile(self.home.home.events_file(agent_id))
        await asyncio.to_thread(events.consume, wakes, self._now_ms())

    # Index and maintenance

    def mark_dirty(self, agent_id: str) -> None:
        """Note that files of an agent's memory have changed: the index is brought up to date with the next tick."""
        self._dirty.add(agent_id)

    def _start_upkeep(self, now_ms: int) -> None:
        if "reindex" not in self._tasks and (agents := self._due_indexes(now_ms)):
            self._dirty.difference_update(agents)
            self._start("reindex", self.runner.reindex(agents))
        every = self.home.settings.agent().serve.maintenance_every
        if "maintenance" not in self._tasks and self._intervals.due("maintenance", every, now_ms):
            self._start("maintenance", self.runner.maintenance())
        if now_ms - self._swept_ms >= SWEEP_RUNS_MS and "sweep" not in self._tasks:
            self._swept_ms = now_ms
            self._start("sweep", self._sweep_runs())

    def _due_indexes(self, now_ms: int) -> tuple[str, ...]:
        """Return the agents whose files have changed, or whose interval is over; at start all are looked at."""
        due = {
            agent_id
            for agent_id in self.home.agents
            if self._intervals.due(
                f"reindex:{agent_id}", reindex_every(self.home.settings.agent(agent_id)), now_ms, at_start=True
            )
        }
        return tuple(agent_id for agent_id in self.home.agents if agent_id in due | self._dirty)

    async def _sweep_runs(self) -> None:
        for agent_id in self.home.agents:
            agent = self.home.agent(agent_id, clock=self.clock)
            await asyncio.to_thread(sweep_runs, agent.sessions(), agent.settings.cron.session_retention)

    # Tasks

    def _start(self, name: str, work: Coroutine[Any, Any, None] | Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except Exception as error:  # the outermost loop: one failed run must not end the others
                log.exception("%s failed: %s", name, type(error).__name__)
            finally:
                self._tasks.pop(name, None)

        self._tasks[name] = asyncio.create_task(guarded(), name=name)

    def _warn(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            log.warning(text)


def _without_markers(loaded: LoadedJobs) -> dict[str, Job]:
    return {job.id: job.evolve(state={"runningAtMs": None}) for job in loaded.jobs if "runningAtMs" in job.state}
