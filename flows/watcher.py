"""Watch the memory folders: a change marks its agent's index as dirty.

Source: spec/memory.md 3.6.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory.files import extra_paths
from turngraph.memory_paths import MEMORY_FOLDER, may_hold_memory

if TYPE_CHECKING:
    from turngraph.api import Turngraph

LOOK_S = 1.0

log = logging.getLogger("turngraph.serve")


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders that are watched, each with its agent.

    Attributes:
        workspaces: their own level only; a workspace may hold anything below it.
        memory: memory folders and extra paths, with all that lies below them.
    """

    workspaces: Mapping[Path, str]
    memory: Mapping[Path, str]


def folders_of(home: Turngraph) -> Folders:
    """Return what there is to watch now; a folder that is made later is found by the next look."""
    workspaces, memory = {}, {}
    for agent_id in home.agents:
        settings = home.settings.agent(agent_id)
        search = settings.memory_search
        workspace = home.home.workspace(agent_id, settings)
        if not (search.enabled and search.sync.watch):
            continue
        if workspace.is_dir():
            workspaces[workspace.resolve()] = agent_id
        extra = (entry.path for entry in extra_paths(workspace, search.extra_paths))
        for folder in (workspace / MEMORY_FOLDER, *extra):
            if folder.exists():
                memory[folder.resolve()] = agent_id
    return Folders(workspaces, memory)


class Watcher:
    """Watches the memory of all agents of a home, also of agents and workspaces that appear meanwhile.

    Args:
        home: returns the home as it is now.
        changed: told the id of an agent whose files have changed.
    """

    def __init__(self, home: Callable[[], Turngraph], changed: Callable[[str], None]) -> None:
        self.home = home
        self.changed = changed

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until ``stop`` is set, anew whenever there are other folders."""
        while not stop.is_set():
            folders = folders_of(self.home())
            ended = asyncio.Event()
            watching = [
                asyncio.create_task(self._watch(folders.workspaces, False, ended)),
                asyncio.create_task(self._watch(folders.memory, True, ended)),
            ]
            try:
                await self._until_others(folders, stop)
            finally:
                ended.set()
                await asyncio.gather(*watching, return_exceptions=True)
            # What changed while nobody watched, and what a new folder holds.
            for agent_id in {*folders_of(self.home()).workspaces.values()}:
                self.changed(agent_id)

    async def _until_others(self, folders: Folders, stop: asyncio.Event) -> None:
        while not stop.is_set() and folders_of(self.home()) == folders:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_S)

    async def _watch(self, folders: Mapping[Path, str], recursive: bool, ended: asyncio.Event) -> None:
        if not folders:
            return
        from watchfiles import awatch

        debounce_ms = max(self.home().settings.agent().memory_search.sync.watch_debounce_ms, 50)
        watching = awatch(
            *folders,
            watch_filter=None,
            stop_event=ended,
            debounce=debounce_ms,
            recursive=recursive,
            rust_timeout=1_000,
            ignore_permission_denied=True,
        )
        try:
            async for changes in watching:
                for agent_id in {agent for _, text in changes if (agent := _agent_of(Path(text), folders, recursive))}:
                    self.changed(agent_id)
        except OSError as error:  # the system has no watches left
            log.warning("memory files are not watched (%s); the index looks at them at intervals", error.strerror)


def _agent_of(path: Path, folders: Mapping[Path, str], recursive: bool) -> str | None:
    """Return whose memory a changed file belongs to; ``None`` when it is none."""
    for folder, agent_id in folders.items():
        if path == folder or path.is_relative_to(folder):
            return agent_id if recursive or may_hold_memory(path.relative_to(folder).as_posix()) else None
    return None
