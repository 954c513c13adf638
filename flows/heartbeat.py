"""Flow ``heartbeat``: one heartbeat of an agent.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.states import Completed, Failed

from flows.recording import do_work, publish
from turngraph.scheduled.beat import BeatResult


@flow(name="heartbeat", flow_run_name="{agent_id} {reason}", persist_result=False)
async def heartbeat(agent_id: str = "main", reason: str = "manual", home: str | None = None) -> State[Any]:
    """Run one heartbeat.

    Args:
        agent_id: the agent.
        reason: what asks for it.
        home: folder of the home, for runs that serve does not start itself.
    """
    beat: BeatResult | None = await do_work(lambda runner: runner.heartbeat(agent_id, reason), home)
    if beat is None:
        return Completed(name="Skipped", message="it was run without this record")
    line = f"heartbeat of {agent_id}: {beat.status} ({beat.reason})"
    trace = f"\n\nTrace `{beat.trace_id}` (`turngraph report {beat.trace_id}`)" if beat.trace_id else ""
    await publish(f"heartbeat-{agent_id}", f"# Heartbeat of {agent_id}\n\n{line}{trace}\n\n{beat.text}\n", line)
    if beat.status == "failed":
        return Failed(message=beat.reason)
    return Completed(name="Skipped" if beat.status == "skipped" else None, message=beat.reason)
