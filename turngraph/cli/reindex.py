"""``turngraph reindex``: bring the memory indexes of a home up to date."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    find_home,
    pick_agent,
    print_json,
    read_settings,
    warn,
)


def reindex(
    home: HomeOption = None,
    agent: AgentOption = None,
    force: Annotated[bool, typer.Option("--force", help="Build the index anew beside the old one.")] = False,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Re-index the memory of every agent, or of one.

    Example: turngraph reindex --agent main
    """
    import asyncio

    from turngraph.api import Turngraph
    from turngraph.scheduled.reindexing import reindex_agents

    found = find_home(home)
    settings = read_settings(found, sets)
    opened = Turngraph(found, settings)
    agents = (pick_agent(settings, agent),) if agent else settings.agent_ids
    done = asyncio.run(reindex_agents(opened, agents, reason="manual", force=force, say=warn))
    if json:
        print_json({"agents": [asdict(one) for one in done]})
    else:
        for one in done:
            print(one.line())
            for remark in one.remarks() if one.report else ():
                print(f"  {remark}")
    if any(one.report is None for one in done):
        raise typer.Exit(3)
