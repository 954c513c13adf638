"""Flow ``cron``: one run of a job, or everything that is due.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.due_now import run_by_hand, run_claimed_slot, run_due
from flows.recording import do_work, publish
from turngraph.clock import from_ms, iso_ms
from turngraph.scheduled.job_run import JobRun


def _run_name() -> str:
    job_id, slot_ms = flow_run.parameters.get("job_id"), flow_run.parameters.get("slot_ms")
    if job_id is None:
        return "all that is due"
    return f"{job_id}, {'by hand' if slot_ms is None else iso_ms(from_ms(slot_ms))}"


@flow(name="cron", flow_run_name=_run_name, persist_result=False)
async def cron(
    job_id: str | None = None, slot_ms: int | None = None, run_id: str | None = None, home: str | None = None
) -> State[Any]:
    """Run a job once.

    Args:
        job_id: the job; without one everything that is due runs, as a deployment with a schedule of its own does it.
        slot_ms: its planned time, epoch milliseconds; without one it is a run by hand.
        run_id: the run that has claimed the slot already; without one this run claims it.
        home: folder of the home, for runs that serve does not start itself.
    """
    if job_id is None:
        runs = await do_work(run_due, home) or ()
        return Completed(message=f"{len(runs)} jobs were due", name=None if runs else "Skipped")
    if slot_ms is None and run_id is None:
        run = await do_work(lambda runner: run_by_hand(runner, job_id), home)
    else:
        run = await do_work(lambda runner: run_claimed_slot(runner, job_id, slot_ms, run_id), home)
    if run is None:
        return Completed(name="Skipped", message="the slot has an outcome already, or the job is gone")
    await publish(f"cron-{job_id}", job_markdown(run), f"job {job_id}: {run.status}")
    if run.status == "error":
        return Failed(message=str(run.entry.get("error") or "failed"))
    return Completed(name="Skipped" if run.status == "skipped" else None, message=str(run.entry.get("error") or "ok"))


def job_markdown(run: JobRun) -> str:
    """Return the artifact of a job's run: planned and real time, result, delivery, where the trace is."""
    entry = run.entry
    slot_ms, trace_id = entry.get("slotMs"), entry.get("traceId")
    rows = [
        ("status", entry["status"]),
        ("planned", iso_ms(from_ms(slot_ms)) if slot_ms is not None else "by hand"),
        ("started", iso_ms(from_ms(entry["runAtMs"]))),
        ("took", f"{entry['durationMs'] / 1000:.1f} s"),
        ("delivery", entry.get("deliveryStatus", "-")),
        ("error", entry.get("error", "-")),
        ("next", iso_ms(from_ms(entry["nextRunAtMs"])) if entry.get("nextRunAtMs") else "-"),
        ("trace", trace_line(trace_id) if trace_id else "-"),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return f"# Job {entry['jobId']}\n\n| | |\n|---|---|\n{table}\n\n{entry.get('summary', '')}\n"


def trace_line(trace_id: str) -> str:
    """Return how to look at the trace of a turn."""
    return f"`{trace_id}` (`turngraph report {trace_id}`)"
