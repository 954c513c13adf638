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
    from turngraph.api import Turngraph
    from turngraph.scheduled.reindexing import reindex_agent

    found = find_home(home)
    settings = read_settings(found, sets)
    opened = Turngraph(found, settings)
    agents = (pick_agent(settings, agent),) if agent else settings.agent_ids
    done = [reindex_agent(opened, agent_id, reason="manual", force=force) for agent_id in agents]
    if json:
        print_json({"agents": [asdict(one) for one in done]})
        return
    for one in done:
        print(one.line())
