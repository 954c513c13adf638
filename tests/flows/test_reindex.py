"""Re-indexing under the dispatcher: every agent, own intervals, the watcher, agents that appear (known-faults 7.7)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from flows.plain import PlainRunner
from flows.watcher import Watcher, folders_of
from stores.home import Home
from stores.memory.index import MemoryIndex
from tests.scheduling import Bench
from turngraph.api import Turngraph
from turngraph.config import load_settings
from turngraph.scheduled.reindexing import markdown_of, reindex_agents

TWO = 'agents.list=[{"id":"main"},{"id":"ops"}]'
BEATLESS = ("agents.defaults.heartbeat.every=0", "serve.maintenanceEvery=0")


def opened(root: Path, *sets: str) -> Turngraph:
    root.mkdir(parents=True, exist_ok=True)
    return Turngraph(Home(root), load_settings(root, sets=(*BEATLESS, *sets), env={}))


def note(home: Turngraph, agent_id: str, name: str, text: str) -> Path:
    path = home.home.workspace(agent_id, home.settings.agent(agent_id)) / "memory" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def found(home: Turngraph, agent_id: str, query: str) -> list[str]:
    """Search without looking at the files first: what the index itself knows."""
    index = MemoryIndex.open(home.home, agent_id, home.settings.agent(agent_id))
    try:
        return [hit.path for hit in index.search(query, refresh=False).hits]
    finally:
        index.close()


async def test_every_agent_is_indexed_and_the_artifact_shows_before_and_after(tmp_path: Path) -> None:
    home = opened(tmp_path, TWO)
    note(home, "main", "a.md", "apples")
    note(home, "ops", "b.md", "pears")
    done = await reindex_agents(home, home.agents)
    assert [one.agent_id for one in done] == ["main", "ops"]
    text = markdown_of(done)
    assert "| main | 0 → 1 | 0 → 1 | 1 / 0 / 0 |" in text
    assert "| ops | 0 → 1 |" in text
    again = markdown_of(await reindex_agents(home, home.agents))
    assert "| main | 1 → 1 | 1 → 1 | 0 / 0 / 0 |" in again


async def test_an_index_that_cannot_be_synced_does_not_stop_the_others(tmp_path: Path) -> None:
    home = opened(tmp_path, TWO)
    note(home, "ops", "b.md", "pears")
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "main.duckdb").mkdir()  # a folder where the file should be
    main, ops = await reindex_agents(home, home.agents)
    assert main.report is None
    assert "main: " in markdown_of((main, ops))
    assert found(home, "ops", "pears") == ["memory/b.md"]


KILLED = """
import os, signal, sys
from pathlib import Path
from stores.home import Home
from turngraph.api import Turngraph
from turngraph.config import load_settings
from turngraph.scheduled.reindexing import reindex_agent

def progress(what, done, total):
    if what == "vectors":
        os.kill(os.getpid(), signal.SIGKILL)

root = Path(sys.argv[1])
reindex_agent(Turngraph(Home(root), load_settings(root, env={})), "main", progress=progress)
"""


async def test_a_killed_run_is_gone_on_with(tmp_path: Path) -> None:
    home = opened(tmp_path)
    for number in range(300):
        note(home, "main", f"{number}.md", f"# Note {number}\n\nThe box {number} holds apples and pears.\n")
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    killed = await asyncio.to_thread(subprocess.run, argv, cwd=Path(__file__).parents[2], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (done,) = await reindex_agents(home, ("main",))
    assert done.report is not None
    assert (done.files_before, done.report.added, done.report.unchanged) == (300, 0, 300)
    assert 0 < done.report.embedded < 300
    assert done.report.pending == 0


@dataclass
class Counting(PlainRunner):
    """Keeps which indexes were asked for."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def reindex(self, agents: Sequence[str]) -> None:
        self.asked.append(tuple(agents))


async def test_each_agent_has_its_own_interval_and_a_start_looks_at_all(tmp_path: Path) -> None:
    own = '[{"id":"main"},{"id":"ops","memorySearch":{"sync":{"intervalMinutes":10}}}]'
    bench = Bench(tmp_path / "home", (f"agents.list={own}", *BEATLESS, "serve.reindexEvery=1h"))
    counting = Counting(lambda: bench.dispatcher.home, bench.clock)
    bench.dispatcher.runner = counting
    await bench.tick(seconds=1)
    for _ in range(6):
        await bench.tick(minutes=10)
    assert counting.asked == [("main", "ops"), *[("ops",)] * 5, ("main", "ops")]


async def test_a_dirty_mark_leads_to_a_sync_with_the_next_tick(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", (*BEATLESS, "serve.reindexEvery=0"))
    await bench.tick(seconds=1)
    note(bench.home, "main", "a.md", "apples")
    await bench.tick(seconds=1)
    assert found(bench.home, "main", "apples") == []
    bench.dispatcher.mark_dirty("main")
    await bench.tick(seconds=1)
    assert found(bench.home, "main", "apples") == ["memory/a.md"]


@contextlib.asynccontextmanager
async def watching(home: Callable[[], Turngraph]) -> AsyncIterator[asyncio.Queue[str]]:
    changed: asyncio.Queue[str] = asyncio.Queue()
    stop = asyncio.Event()
    task = asyncio.create_task(Watcher(home, changed.put_nowait).run(stop))
    try:
        await asyncio.sleep(0.3)  # the system needs a moment until it watches
        yield changed
    finally:
        stop.set()
        await asyncio.wait_for(task, 10)


async def test_a_changed_note_marks_its_agent(tmp_path: Path) -> None:
    home = opened(tmp_path, TWO)
    note(home, "main", "a.md", "apples")
    note(home, "ops", "b.md", "pears")
    async with watching(lambda: home) as changed:
        note(home, "ops", "b.md", "plums")
        assert await asyncio.wait_for(changed.get(), 10) == "ops"
        note(home, "main", "MEMORY.md", "curated")
        assert await asyncio.wait_for(changed.get(), 10) == "main"


async def test_what_is_no_memory_marks_nobody(tmp_path: Path) -> None:
    home = opened(tmp_path)
    workspace = note(home, "main", "a.md", "apples").parent.parent
    async with watching(lambda: home) as changed:
        (workspace / "AGENTS.md").write_text("rules")
        (workspace / "src").mkdir()
        (workspace / "src" / "memory.md").write_text("not ours")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(changed.get(), 2.5)


async def test_an_agent_and_a_workspace_that_appear_later_are_watched(tmp_path: Path) -> None:
    now = [opened(tmp_path)]
    async with watching(lambda: now[0]) as changed:
        note(now[0], "main", "a.md", "apples")  # the workspace is new
        assert await asyncio.wait_for(changed.get(), 10) == "main"
        now[0] = opened(tmp_path, TWO)
        note(now[0], "ops", "b.md", "pears")
        while await asyncio.wait_for(changed.get(), 10) != "ops":
            pass
        await asyncio.sleep(1.5)
        while not changed.empty():
            changed.get_nowait()
        note(now[0], "ops", "c.md", "plums")
        assert await asyncio.wait_for(changed.get(), 10) == "ops"


def test_extra_paths_are_watched_and_a_switched_off_watcher_watches_nothing(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    home = opened(tmp_path / "home", f'agents.defaults.memorySearch.extraPaths=["{tmp_path / "notes"}"]')
    assert folders_of(home).memory == {(tmp_path / "notes").resolve(): "main"}
    off = opened(tmp_path / "home", "agents.defaults.memorySearch.sync.watch=false")
    assert (folders_of(off).workspaces, folders_of(off).memory) == ({}, {})
