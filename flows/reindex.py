"""Flow ``reindex``: bring the memory index of one agent or of all up to date, one task an agent.

Source: spec/memory.md 3.6, spec/scheduling.md C1.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prefect import State, flow
from prefect.states import Completed

from flows.plain import PlainRunner
from flows.recording import do_work, publish
from turngraph.scheduled.reindexing import Reindexed


@flow(name="reindex", flow_run_name="{agent_id}", persist_result=False)
async def reindex(agent_id: str | None = None, home: str | None = None) -> State[Any]:
    """Re-index what has changed.

    A run that was killed leaves what it had written: the next one goes on from there.

    Args:
        agent_id: the agent; all when not given.
        home: folder of the home, for runs that serve does not start itself.
    """

    async def work(runner: PlainRunner) -> list[Reindexed]:
        agents = (agent_id,) if agent_id else runner.home().agents
        return list(await asyncio.gather(*(runner.run_reindex(agent) for agent in agents)))

    done = await do_work(work, home)
    for one in done if isinstance(done, list) else [done] if done else []:
        await publish(f"reindex-{one.agent_id}", one.markdown(), one.line())
    return Completed(name=None if done else "Skipped")
