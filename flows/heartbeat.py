"""Flow ``heartbeat``: one heartbeat of an agent.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.due_now import run_due_beats
from flows.recording import do_work, publish
from turngraph.scheduled.beat import BeatResult


def _run_name() -> str:
    given = flow_run.parameters
    return f"{given.get('agent_id') or 'all that are due'}, {given.get('reason')}"


@flow(name="heartbeat", flow_run_name=_run_name, persist_result=False)
async def heartbeat(agent_id: str | None = None, reason: str = "manual", home: str | None = None) -> State[Any]:
    """Run one heartbeat, or those that are due.

    Args:
        agent_id: the agent; without one every agent beats whose planned time has come, as a deployment with a
            schedule of its own does it.
        reason: what asks for it.
        home: folder of the home, for runs that serve does not start itself.
    """
    if agent_id is None:
        beats = await do_work(run_due_beats, home) or ()
        return Completed(message=f"{len(beats)} heartbeats were due", name=None if beats else "Skipped")
    beat: BeatResult | None = await do_work(lambda runner: runner.heartbeat(agent_id, reason), home)
    if beat is None:
        return Completed(name="Skipped", message="it was run without this record")
    line = f"heartbeat of {agent_id}: {beat.status} ({beat.reason})"
    trace = f"\n\nTrace `{beat.trace_id}` (`turngraph report {beat.trace_id}`)" if beat.trace_id else ""
    await publish(f"heartbeat-{agent_id}", f"# Heartbeat of {agent_id}\n\n{line}{trace}\n\n{beat.text}\n", line)
    if beat.status == "failed":
        return Failed(message=beat.reason)
    return Completed(name="Skipped" if beat.status == "skipped" else None, message=beat.reason)
