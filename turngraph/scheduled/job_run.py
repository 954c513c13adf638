"""One run of a job: its turn or its event, the delivery of the result, and what that does to the job.

The slot has been claimed before; the run ends with the run log, the ledger and the job record, in this order.
Source: spec/scheduling.md B3, B4, B6 and C1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nodes.flush_prompts import time_line
from nodes.silent import is_silent
from stores.events import AgentEvent, EventFile
from stores.jobs import JobStore
from stores.slot_ledger import Outcome
from turngraph.clock import to_ms
from turngraph.errors import ModelError, ModelErrorKind, TurngraphError, model_error_kind
from turngraph.heartbeat_text import is_ack
from turngraph.inbound import Inbound
from turngraph.scheduled.beat import beat_session, run_beat
from turngraph.scheduled.delivery import NOT_REQUESTED, Delivered, deliver
from turngraph.scheduled.destinations import alert_sink, failure_sink, result_sink
from turngraph.scheduled.run_sessions import record_run
from turngraph.schedules.job import Job, RunStatus
from turngraph.schedules.results import SHOWN_ERROR_CHARS, Applied, RunResult, apply_result
from turngraph.session_keys import store_key

if TYPE_CHECKING:
    from turngraph.api import Agent, Turngraph

log = logging.getLogger("turngraph.cron")

TIMED_OUT = "cron: job execution timed out"
WAKE_WAIT_S = 120.0  # how long a reminder waits for a busy agent
WAKE_POLL_S = 0.25
TOO_OLD_MS = 3 * 3_600_000  # a run that started later than this after its slot is not announced
SUMMARY_CHARS = 2_000
_USAGE_NAMES = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
}
PLAIN_TEXT = "Answer with plain text: your answer is delivered as it stands."


@dataclass(frozen=True, slots=True)
class Slot:
    """A claimed slot.

    Attributes:
        run_id: of this run.
        slot_ms: planned time; ``None`` for a run by hand.
        late: caught up, or more than a minute behind.
        reason: why it runs when it does.
        flow_run_id: Prefect flow run, when one records it.
    """

    run_id: str
    slot_ms: int | None = None
    late: bool = False
    reason: str | None = None
    flow_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """What the work of a job came to, before delivery."""

    status: RunStatus
    text: str = ""
    error: str | None = None
    error_kind: ModelErrorKind | None = None
    session_key: str | None = None
    session_id: str | None = None
    trace_id: str | None = None
    model: str | None = None
    provider: str | None = None
    usage: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class JobRun:
    """A finished run: the entry of the run log, and what it did to the job."""

    entry: Mapping[str, Any]
    applied: Applied

    @property
    def status(self) -> str:
        return str(self.entry["status"])


def agent_of(home: Turngraph, job: Job, **overrides: Any) -> Agent:
    """Return the agent that a job runs as, with the model that its payload names.

    Raises:
        NotFound: the settings have no such agent.
    """
    model = job.payload.get("model")
    if isinstance(model, str) and model and "model" not in overrides:
        overrides["model"] = model
    agent = home.agent(job.agent_id, **overrides)
    thinking = job.payload.get("thinking")
    if isinstance(thinking, str) and thinking:
        agent.settings = agent.settings.model_copy(update={"thinking_default": thinking})
    return agent


async def run_claimed(agent: Agent, store: JobStore, job: Job, slot: Slot, *, problem: str | None = None) -> JobRun:
    """Run a job whose slot is claimed, and record what came of it; trouble is a result.

    Args:
        problem: why it cannot even begin; then this is the result.

    Raises:
        asyncio.CancelledError: after the slot has been settled as interrupted.
    """
    started_ms = to_ms(agent.clock.now())
    store.update(job.id, lambda known: known.evolve(state={"runningAtMs": started_ms, "lastError": None}))
    try:
        worked = Worked("error", error=problem) if problem else await _limited(agent, job, slot)
        ended_ms = to_ms(agent.clock.now())
        delivered = await _deliver(agent, job, worked, started_ms, ended_ms, slot)
    except asyncio.CancelledError:
        interrupt(agent, store, job.id, slot)
        raise
    status, error = worked.status, worked.error
    if status == "ok" and delivered.status == "not-delivered" and delivered.error and not job.best_effort:
        status, error = "error", f"delivery failed: {delivered.error}"
    result = RunResult(
        status,
        started_ms,
        ended_ms,
        error,
        worked.error_kind,
        delivered.status,
        delivered.error,
        forced=slot.slot_ms is None,
    )
    worked = replace(worked, status=status, error=error)
    run = await asyncio.to_thread(_record, agent, store, job, slot, worked, result)
    await _tell_of_failure(agent, job, run)
    return run


def interrupt(agent: Agent, store: JobStore, job_id: str, slot: Slot) -> None:
    """Record that a run was cut off: it is not repeated, and the user is told."""
    now_ms = to_ms(agent.clock.now())
    cron = agent.settings.cron
    facts = {"reason": "the process ended", "flowRunId": slot.flow_run_id}
    store.ledger.settle(job_id, slot.slot_ms, slot.run_id, "interrupted", now_ms, cron.run_log, **facts)
    store.update(job_id, _interrupted)
    tell(agent, f"A run of cron job {job_id} was interrupted; it is not repeated.", f"cron:{job_id}")


def _interrupted(job: Job) -> Job:
    state = {"runningAtMs": None, "lastStatus": "error", "lastRunStatus": "error", "lastError": "interrupted"}
    return job.evolve(state=state) if job.is_recurring else job.evolve(state=state, enabled=False)


def tell(agent: Agent, text: str, tag: str) -> None:
    """Queue a notice for the agent's next turn."""
    event = AgentEvent(agent.ids.uuid(), "event", text, to_ms(agent.clock.now()), tag)
    EventFile(agent.home.events_file(agent.id)).add(event)


async def _limited(agent: Agent, job: Job, slot: Slot) -> Worked:
    timeout_ms = job.timeout_ms()
    try:
        async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
            if job.target == "main":
                return await _remind(agent, job, slot)
            return await _agent_turn(agent, job, slot)
    except TimeoutError:
        return Worked("error", error=TIMED_OUT, error_kind="timeout")
    except ModelError as error:
        return Worked("error", error=str(error), error_kind=error.kind)
    except (TurngraphError, OSError) as error:
        return Worked("error", error=f"{type(error).__name__}: {error}")
    except Exception as error:  # a fault of a plugin or of ours: the slot must have an outcome all the same
        log.exception("job %s failed", job.id)
        return Worked("error", error=type(error).__name__)


async def _remind(agent: Agent, job: Job, slot: Slot) -> Worked:
    """Queue a reminder for the main session and wake the agent, at once or with its next beat."""
    text = str(job.payload.get("text") or "").strip()
    if not text:
        return Worked("skipped", error="the reminder has no text")
    tag, key = f"cron:{job.id}", beat_session(agent)
    events = EventFile(agent.home.events_file(agent.id))
    event = AgentEvent(agent.ids.uuid(), "event", text, to_ms(agent.clock.now()), tag, key)
    await asyncio.to_thread(events.add, event)
    if not job.wakes_now:
        return Worked("ok", text, session_key=key)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAKE_WAIT_S
    while True:
        beat = await run_beat(agent, tag, flow_run_id=slot.flow_run_id, target="last")
        if beat.reason != "requests-in-flight":
            break
        if loop.time() >= deadline:
            wake = AgentEvent(agent.ids.uuid(), "wake", tag, to_ms(agent.clock.now()), tag, key)
            await asyncio.to_thread(events.add, wake)
            return Worked("ok", text, session_key=key)
        await asyncio.sleep(WAKE_POLL_S)
    status: RunStatus = {"ran": "ok", "skipped": "skipped"}.get(beat.status, "error")  # type: ignore[assignment]
    error = None if status == "ok" else beat.reason
    return Worked(status, beat.text or text, error, session_key=key, trace_id=beat.trace_id)


async def _agent_turn(agent: Agent, job: Job, slot: Slot) -> Worked:
    isolated = job.target == "isolated"
    key = f"agent:{agent.id}:cron:{job.id}" if isolated else _named_session(agent, job)
    lines = [f"[cron:{job.id} {job.name}] {job.payload.get('message') or ''}"]
    lines.append(time_line(agent.clock.now(), agent.settings.zone))
    if result_sink(agent, job) is not None:
        lines.append(PLAIN_TEXT)
    inbound = Inbound(
        text="\n".join(lines),
        session_key=key,
        kind="cron",
        flow_run_id=slot.flow_run_id,
        light_context=job.payload.get("lightContext") is True,
        provenance={"kind": "internal_system", "sourceTool": "cron"},
    )
    result = await agent.turn(inbound)
    if isolated and result.session_id:
        key = await asyncio.to_thread(record_run, agent.sessions(), result, f"Cron: {job.name}")
    facts = result.trace.facts
    failed = result.kind in ("error", "cancelled")
    return Worked(
        "error" if failed else "ok",
        "" if failed else result.text,
        (result.text or "the turn failed") if failed else None,
        error_kind=model_error_kind(facts.get("error")),
        session_key=key,
        session_id=result.session_id or None,
        trace_id=result.trace.trace_id,
        model=facts.get("model"),
        provider=str(facts.get("model") or "").partition(":")[0] or None,
        usage=_usage(facts.get("reported_usage") or {}),
    )


def _usage(counted: Mapping[str, float]) -> dict[str, float] | None:
    """Return reported tokens under the names that run logs use."""
    known = {_USAGE_NAMES[name]: value for name, value in counted.items() if name in _USAGE_NAMES}
    return known | {"total_tokens": sum(known.values())} if known else None


def _named_session(agent: Agent, job: Job) -> str:
    wanted = job.target.removeprefix("session:")
    return store_key(agent.id, "main" if wanted == "current" else wanted, agent.settings.session.main_key)


async def _deliver(agent: Agent, job: Job, worked: Worked, started_ms: int, ended_ms: int, slot: Slot) -> Delivered:
    sink = result_sink(agent, job)
    if sink is None or (job.target == "main" and sink.get("kind") == "session"):
        return NOT_REQUESTED
    if worked.status != "ok" or not worked.text.strip() or is_silent(worked.text) or is_ack(worked.text, 0):
        return Delivered("not-delivered")
    if slot.slot_ms is not None and started_ms - slot.slot_ms > TOO_OLD_MS:
        return Delivered("not-delivered")
    event = _entry(job, slot, worked, started_ms, ended_ms)
    return await deliver(worked.text, sink, agent, event=event, heading=job.name)


def _entry(job: Job, slot: Slot, worked: Worked, started_ms: int, ended_ms: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "ts": ended_ms,
        "jobId": job.id,
        "action": "finished",
        "status": worked.status,
        "error": worked.error,
        "summary": worked.text[:SUMMARY_CHARS] or None,
        "sessionId": worked.session_id,
        "sessionKey": worked.session_key,
        "runAtMs": started_ms,
        "durationMs": max(0, ended_ms - started_ms),
        "slotMs": slot.slot_ms,
        "model": worked.model,
        "provider": worked.provider,
        "usage": worked.usage,
        "traceId": worked.trace_id,
        "flowRunId": slot.flow_run_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _record(agent: Agent, store: JobStore, job: Job, slot: Slot, worked: Worked, result: RunResult) -> JobRun:
    """Write run log, ledger and job record; a job that was deleted meanwhile keeps only the first two."""
    cron = agent.settings.cron
    now_ms = to_ms(agent.clock.now())
    applied = apply_result(job, result, cron, now_ms)

    def apply(known: Job) -> Job | None:
        nonlocal applied
        applied = apply_result(known, result, cron, now_ms)
        return applied.job

    entry = _entry(job, slot, worked, result.started_ms, result.ended_ms)
    entry["deliveryStatus"] = result.delivery
    if result.delivery != "not-requested":
        entry["delivered"] = result.delivery == "delivered"
    if result.delivery_error:
        entry["deliveryError"] = result.delivery_error
    if applied.job is not None and (following := applied.job.state.get("nextRunAtMs")):
        entry["nextRunAtMs"] = following
    store.logs.append(entry, cron.run_log)
    facts: dict[str, Any] = {"status": result.status, "reason": slot.reason, "flowRunId": slot.flow_run_id}
    if slot.slot_ms is not None:
        facts["lateMs"] = max(0, result.started_ms - slot.slot_ms) if slot.late else None
    event: Outcome = "late" if slot.late else "done"
    store.ledger.settle(job.id, slot.slot_ms, slot.run_id, event, now_ms, cron.run_log, **facts)
    if slot.slot_ms is None:
        store.update(job.id, lambda known: _forced(known, result))
    else:
        store.update(job.id, apply)
    for notice in applied.notices:
        tell(agent, notice, f"cron:{job.id}")
    return JobRun(entry, applied)


async def _tell_of_failure(agent: Agent, job: Job, run: JobRun) -> None:
    """Send the alert that is due, and what a failure destination asks for; trouble with that is logged."""
    each = failure_sink(agent, job) if run.status == "error" and not job.best_effort else None
    if each is not None:
        text = f'Cron job "{job.name}" failed: {str(run.entry.get("error") or "unknown")[:SHOWN_ERROR_CHARS]}'
        await _send_notice(agent, job, run, each, text)
    if run.applied.alert is None:
        return
    sink = alert_sink(agent, job)
    if sink is None or not await _send_notice(agent, job, run, sink, run.applied.alert):
        await asyncio.to_thread(tell, agent, run.applied.alert, f"cron:{job.id}")


async def _send_notice(agent: Agent, job: Job, run: JobRun, sink: Mapping[str, Any], text: str) -> bool:
    done = await deliver(text, sink, agent, event={**run.entry, "summary": text}, heading=job.name)
    if done.error:
        log.warning("job %s: a notice of its failure was not delivered: %s", job.name, done.error)
    return done.status == "delivered"


def _forced(job: Job, result: RunResult) -> Job:
    """Note a run by hand without moving the schedule."""
    state = {
        "runningAtMs": None,
        "lastRunAtMs": result.started_ms,
        "lastRunStatus": result.status,
        "lastStatus": result.status,
        "lastError": result.error,
        "lastDurationMs": result.ended_ms - result.started_ms,
    }
    return job.evolve(state=state)
