"""Run what is due as flow runs that a Prefect server records; without a server the work runs all the same.

A server that does not answer within five seconds, or goes away, costs the record and one warning, never the run.
Source: spec/scheduling.md C1, spec/spike.md section 5.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.plain import PlainRunner
from flows.work_pool import WorkPool
from stores.jobs import JobStore
from turngraph.clock import to_ms
from turngraph.scheduled.beat import BeatResult
from turngraph.scheduled.job_run import Slot, interrupt

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import State

    from flows.recording import Handed, Work

PATIENCE_S = 5.0
PAGE = 100
RETRY_S = 30.0  # after a server that did not answer

log = logging.getLogger("turngraph.serve")


@dataclass
class PrefectRunner:
    """Runs flows in this process, or hands them to the workers of the pool that ``serve.workPool`` names.

    Attributes:
        plain: does the work.
        ready: whether a server was found, and Prefect is imported.
        patience_s: how long the server may keep a run waiting.
    """

    plain: PlainRunner
    ready: bool = False
    patience_s: float = PATIENCE_S
    _down_until: float = 0.0
    _warned: bool = False
    _records: set[asyncio.Task[Any]] = field(default_factory=set)
    _in_use: WorkPool | None = None

    async def cron(self, job_id: str, slot: Slot) -> None:
        parameters = {"job_id": job_id, "slot_ms": slot.slot_ms}
        if pool := self._pool():
            try:
                ended = await pool.run("cron", parameters | {"run_id": slot.run_id}, f"{job_id}:{slot.slot_ms}")
            except asyncio.CancelledError:
                self._interrupt(job_id, slot, only_ours=True)
                raise
            if ended is not None:
                self._interrupt(job_id, slot)
                return
        await self._record("cron", parameters, lambda runner: runner.run_job(job_id, slot))

    async def heartbeat(self, agent_id: str, reason: str) -> BeatResult:
        parameters = {"agent_id": agent_id, "reason": reason}
        if (pool := self._pool()) and (ended := await pool.run("heartbeat", parameters, self._key("beat", agent_id))):
            return _beat_of(ended)
        result: BeatResult = await self._record(
            "heartbeat", parameters, lambda runner: runner.heartbeat(agent_id, reason)
        )
        return result

    async def reindex(self, agents: Sequence[str]) -> None:
        wanted = None if set(agents) == set(self.plain.home().agents) else list(agents)
        parameters = {"agent_id": wanted}
        if (pool := self._pool()) and await pool.run("reindex", parameters, self._key("reindex", *agents)):
            return
        await self._record("reindex", parameters, lambda runner: runner.run_reindex(agents))

    async def maintenance(self) -> None:
        if (pool := self._pool()) and await pool.run("maintenance", {}, self._key("maintenance")):
            return
        await self._record("maintenance", {}, lambda runner: runner.run_maintenance())

    def _pool(self) -> WorkPool | None:
        """Return the pool that the settings name now, when a server is there."""
        home = self.plain.home()
        name = home.settings.agent().serve.work_pool
        if not name or not self._usable():
            return None
        if self._in_use is None or self._in_use.name != name:
            self._in_use = WorkPool(name, home.home.root)
        return self._in_use

    def _key(self, *parts: str) -> str:
        return ":".join((*parts, str(to_ms(self.plain.clock.now()))))

    def _interrupt(self, job_id: str, slot: Slot, *, only_ours: bool = False) -> None:
        """Settle a slot that its worker has left without an outcome, because its process died.

        Args:
            only_ours: leave a slot alone that a worker has taken over.
        """
        home = self.plain.home()
        store = JobStore.of_home(home.home, home.settings.agent())
        left = [claim for claim in store.ledger.read(job_id).open if claim.run_id == slot.run_id]
        if left and not (only_ours and left[0].pid != os.getpid()):
            interrupt(home.agent(clock=self.plain.clock), store, job_id, slot)

    def _usable(self) -> bool:
        return self.ready and asyncio.get_running_loop().time() >= self._down_until

    async def _record(self, name: str, parameters: Mapping[str, Any], work: Work) -> Any:
        """Do the work inside a flow run, or without one; return its result.

        Raises:
            Exception: whatever the work raised.
        """
        if not self._usable():
            return await work(self.plain)
        from flows.recording import Handed

        handed = Handed(work, self.plain)
        recording = asyncio.create_task(call_flow(name, parameters, handed, serve_tag(self.plain.home().home.root)))
        begun = asyncio.create_task(handed.begun.wait())
        try:
            await asyncio.wait({recording, begun}, timeout=self.patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not handed.taken:
                self._give_up(recording)
                return await handed.run(None)
            await handed.finished.wait()
            await asyncio.wait({recording}, timeout=self.patience_s)
            if not recording.done() or (recording.exception() is not None and handed.error is None):
                self._give_up(recording)
        except asyncio.CancelledError:
            recording.cancel()
            await asyncio.wait({recording}, timeout=1.0)
            raise
        finally:
            begun.cancel()
        if handed.error is not None:
            raise handed.error
        return handed.result

    def _give_up(self, recording: asyncio.Task[Any]) -> None:
        """Go on without the server for a while."""
        recording.cancel()
        self._records.add(recording)
        recording.add_done_callback(self._forget)
        self._down_until = asyncio.get_running_loop().time() + RETRY_S
        if not self._warned:
            self._warned = True
            log.warning("the Prefect server does not answer; runs go on, without a record there")

    def _forget(self, recording: asyncio.Task[Any]) -> None:
        self._records.discard(recording)
        if not recording.cancelled():
            recording.exception()


def _beat_of(ended: State[Any]) -> BeatResult:
    """Read what came of a heartbeat from the final state of its flow run."""
    reason = ended.message or ""
    if ended.name == "Skipped":
        return BeatResult("skipped", reason)
    return BeatResult("ran" if ended.is_completed() else "failed", reason)


def serve_tag(root: Path) -> str:
    """Return what marks the runs of a home's dispatcher, so that a later one knows them as its own.

    Homes may share a server: what runs for one is no leftover of another.
    """
    return f"turngraph-serve:{sha256(os.path.realpath(root).encode()).hexdigest()[:12]}"


async def call_flow(name: str, parameters: Mapping[str, Any], handed: Handed, tag: str) -> Any:
    """Call a flow that does the work which is handed to it; returns its final state."""
    from prefect import tags

    from flows.recording import HANDED

    HANDED.set(handed)
    with tags(tag):
        running: Any = flow_named(name)(**parameters, return_state=True)
        return await running


def flow_named(name: str) -> Flow[..., Any]:
    """Return one of our flows."""
    from flows.cron import cron
    from flows.heartbeat import heartbeat
    from flows.maintenance import maintenance
    from flows.reindex import reindex

    flows: dict[str, Any] = {"cron": cron, "heartbeat": heartbeat, "reindex": reindex, "maintenance": maintenance}
    found: Flow[..., Any] = flows[name]
    return found


async def crash_leftovers(root: Path) -> int:
    """Set runs of an earlier dispatcher of a home that still look as if they ran to Crashed; return how many.

    To be called by the process that holds the home's ``serve.lock``, before it runs anything.
    """
    from prefect import get_client
    from prefect.client.schemas.filters import (
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
        FlowRunFilterTags,
    )
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    wanted = FlowRunFilter(
        tags=FlowRunFilterTags(all_=[serve_tag(root)]),
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])),
    )
    crashed: State[Any] = Crashed(message="the process that ran it is gone")
    count = 0
    async with get_client() as client:
        while runs := await client.read_flow_runs(flow_run_filter=wanted, limit=PAGE):
            for run in runs:
                await client.set_flow_run_state(run.id, crashed, force=True)
            count += len(runs)
    return count
