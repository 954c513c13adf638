"""Flow ``reindex``: bring the memory index of one agent, of several or of all up to date.

Source: spec/memory.md 3.6, spec/scheduling.md C1.
"""

from __future__ import annotations

from typing import Any

from prefect import State, flow
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.plain import PlainRunner
from flows.recording import do_work, publish
from turngraph.scheduled.reindexing import Reindexed, markdown_of


def _run_name() -> str:
    wanted = flow_run.parameters.get("agent_id")
    return "all agents" if wanted is None else wanted if isinstance(wanted, str) else " ".join(wanted)


@flow(name="reindex", flow_run_name=_run_name, persist_result=False)
async def reindex(agent_id: str | list[str] | None = None, home: str | None = None) -> State[Any]:
    """Re-index what has changed.

    A run that was killed leaves what it had written: the next one goes on from there.

    Args:
        agent_id: the agent, or several; all when not given.
        home: folder of the home, for runs that serve does not start itself.
    """
    agents = (agent_id,) if isinstance(agent_id, str) else agent_id

    async def work(runner: PlainRunner) -> tuple[Reindexed, ...]:
        return await runner.run_reindex(agents)

    done: tuple[Reindexed, ...] | None = await do_work(work, home)
    if done is None:
        return Completed(name="Skipped", message="it was run without this record")
    failed = [one for one in done if one.report is None]
    line = f"{len(done) - len(failed)} of {len(done)} indexes are up to date"
    await publish("reindex", markdown_of(done), line)
    return Failed(message=f"{line}; {failed[0].line()}") if failed else Completed(message=line)
