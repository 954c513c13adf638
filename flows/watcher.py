"""Watch the memory folders: a change marks its agent's index as dirty.

Source: spec/memory.md 3.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from turngraph.memory_paths import may_hold_memory

if TYPE_CHECKING:
    from turngraph.api import Turngraph


def workspaces(home: Turngraph) -> dict[Path, str]:
    """Return the workspaces that are watched, each with its agent."""
    found = {}
    for agent_id in home.agents:
        settings = home.settings.agent(agent_id)
        folder = home.home.workspace(agent_id, settings)
        if settings.memory_search.enabled and settings.memory_search.sync.watch and folder.is_dir():
            found[folder.resolve()] = agent_id
    return found


async def watch(
    folders: Mapping[Path, str], changed: Callable[[str], None], stop: asyncio.Event, debounce_ms: int = 1_500
) -> None:
    """Call ``changed`` with the id of an agent whenever one of its Markdown files has changed, until ``stop``."""
    if not folders:
        await stop.wait()
        return
    from watchfiles import awatch

    async for changes in awatch(*folders, stop_event=stop, debounce=debounce_ms, recursive=True, rust_timeout=1_000):
        for _, text in changes:
            path = Path(text)
            for folder, agent_id in folders.items():
                if path.is_relative_to(folder) and may_hold_memory(path.relative_to(folder).as_posix()):
                    changed(agent_id)
