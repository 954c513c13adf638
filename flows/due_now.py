"""Runs that a scheduler other than our dispatcher starts: by hand, by a worker, by a schedule of Prefect's own.

The ledger decides as everywhere: what has a line does not run again.
Source: spec/scheduling.md C1, C3.
"""

from __future__ import annotations

from flows.dispatcher import Dispatcher
from flows.plain import PlainRunner
from flows.serve_lock import ServeLock
from stores.jobs import JobStore
from turngraph.clock import Ids, RandomIds, to_ms
from turngraph.errors import SessionBusy
from turngraph.scheduled.beat import BeatResult
from turngraph.scheduled.beat_state import BeatStates, ensure_seed
from turngraph.scheduled.job_run import JobRun, Slot
from turngraph.schedules.heartbeat import rhythm_of

LOOK_BACK_MS = 60_000  # slots of the last minute are on time


async def run_by_hand(runner: PlainRunner, name: str, ids: Ids | None = None) -> JobRun | None:
    """Run a job now, whatever its schedule says; its schedule does not move.

    Raises:
        NotFound: there is no such job.
        SessionBusy: a run of it is going on.
    """
    store = _store(runner)
    job = store.load().find(name)
    if any(not claim.is_orphan for claim in store.ledger.read(job.id).open):
        raise SessionBusy(f"job {job.name} is running already; wait for it to end")
    slot = Slot((ids or RandomIds()).uuid(), reason="by hand")
    store.ledger.claim(job.id, None, slot.run_id, to_ms(runner.clock.now()), reason=slot.reason)
    return await runner.run_job(job.id, slot)


async def run_claimed_slot(runner: PlainRunner, job_id: str, slot_ms: int | None, run_id: str | None) -> JobRun | None:
    """Run a slot: one that ``run_id`` has claimed and not run yet, or one that nobody has claimed; else ``None``."""
    store = _store(runner)
    now_ms = to_ms(runner.clock.now())
    if run_id is None:
        run_id = RandomIds().uuid()
        if not store.ledger.claim(job_id, slot_ms, run_id, now_ms):
            return None
    elif not store.ledger.take_over(job_id, run_id, now_ms):
        return None
    late = slot_ms is not None and now_ms - slot_ms > LOOK_BACK_MS
    return await runner.run_job(job_id, Slot(run_id, slot_ms, late))


async def run_due(runner: PlainRunner) -> list[str]:
    """Run every job that is due now, and return their ids."""
    dispatcher = Dispatcher(runner.home(), runner, runner.clock, RandomIds())
    return await dispatcher.run_due_jobs(LOOK_BACK_MS)


async def run_due_beats(runner: PlainRunner) -> list[BeatResult]:
    """Run the heartbeat of every agent whose planned time has just come; none while serve looks after this home."""
    home, now_ms = runner.home(), to_ms(runner.clock.now())
    if ServeLock(home.home.root).is_held():
        return []
    seed, states = ensure_seed(home.home, RandomIds().uuid()), BeatStates(home.home)
    results = []
    for agent_id in home.agents:
        rhythm = rhythm_of(home.settings.agent(agent_id), seed)
        planned = rhythm.last_before(now_ms + 1) if rhythm else None
        if planned is not None and planned > max(states.of(agent_id).last_ms or 0, now_ms - LOOK_BACK_MS):
            results.append(await runner.heartbeat(agent_id, "interval"))
    return results


def _store(runner: PlainRunner) -> JobStore:
    home = runner.home()
    return JobStore.of_home(home.home, home.settings.agent())
