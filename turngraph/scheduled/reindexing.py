"""Bring the memory indexes of agents up to their files: a few agents at a time, each for itself.

Source: spec/memory.md 3.6.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turngraph.errors import TurngraphError

if TYPE_CHECKING:
    from stores.memory.sync import SyncReport
    from turngraph.api import Turngraph

Progress = Callable[[str, int, int], None]

AT_ONCE = 2  # agents indexed side by side: a sync reads, cuts and embeds, and two of them keep two cores busy
TOLD_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Reindexed:
    """An index before and after; without a report ``problem`` says why it stayed as it was."""

    agent_id: str
    files_before: int = 0
    chunks_before: int = 0
    files_after: int = 0
    chunks_after: int = 0
    report: SyncReport | None = None
    problem: str | None = None

    @property
    def has_news(self) -> bool:
        """Whether anything was written, or could not be."""
        report = self.report
        return report is None or bool(report.added or report.changed or report.removed or report.embedded)

    def line(self) -> str:
        """Return the report as one line."""
        report = self.report
        if report is None:
            return f"agent {self.agent_id}: not done: {self.problem}"
        return (
            f"agent {self.agent_id}: {report.added} added, {report.changed} changed, {report.removed} removed, "
            f"{report.unchanged} unchanged; {self.chunks_after:,} chunks, {report.pending} without a vector; "
            f"{report.took_ms / 1000:.1f} s"
        )

    def row(self) -> str:
        """Return the report as a row of the artifact's table."""
        files = f"{self.files_before:,} → {self.files_after:,}"
        chunks = f"{self.chunks_before:,} → {self.chunks_after:,}"
        report = self.report
        if report is None:
            return f"| {self.agent_id} | {files} | {chunks} | not done | | |"
        changed = f"{report.added} / {report.changed} / {report.removed}"
        vectors = f"{report.embedded:,} written, {report.pending:,} waiting"
        return f"| {self.agent_id} | {files} | {chunks} | {changed} | {vectors} | {report.took_ms / 1000:.1f} s |"

    def remarks(self) -> Iterator[str]:
        """Describe what went wrong or was left out, one line each."""
        if self.report is None:
            yield f"{self.agent_id}: {self.problem}"
            return
        if self.report.rebuilt:
            yield f"{self.agent_id}: built anew: {self.report.rebuilt}"
        if self.report.fallback:
            yield f"{self.agent_id}: no vectors: {self.report.fallback}"
        for problem in self.report.problems:
            yield f"{self.agent_id}: {problem}"


def markdown_of(done: Sequence[Reindexed]) -> str:
    """Return the artifact of a flow run: every index before and after."""
    head = ("| agent | files | chunks | added / changed / removed | vectors | took |", "|---|---|---|---|---|---|")
    remarks = [f"- {line}" for one in done for line in one.remarks()]
    return "\n".join(("# Memory indexes", "", *head, *(one.row() for one in done), "", *remarks)).rstrip() + "\n"


async def reindex_agents(
    home: Turngraph,
    agents: Sequence[str],
    *,
    reason: str = "interval",
    force: bool = False,
    say: Callable[[str], None] | None = None,
) -> tuple[Reindexed, ...]:
    """Sync the indexes of agents, vectors included; an index that cannot be synced does not stop the others.

    What a killed run has written stays, so the next one goes on from there.

    Args:
        agents: their ids.
        force: build each index anew beside the old one.
        say: told how far it is, one line each.
    """
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(agent_id: str) -> Reindexed:
        progress = _telling(agent_id, say) if say else None
        async with turns:
            return await asyncio.to_thread(reindex_agent, home, agent_id, reason=reason, force=force, progress=progress)

    return tuple(await asyncio.gather(*(one(agent_id) for agent_id in agents)))


def reindex_agent(
    home: Turngraph, agent_id: str, *, reason: str = "interval", force: bool = False, progress: Progress | None = None
) -> Reindexed:
    """Sync the index of one agent; trouble is a result."""
    from stores.memory.index import MemoryIndex

    index = MemoryIndex.open(home.home, agent_id, home.settings.agent(agent_id))
    try:
        before = index.status()
        report = index.sync(reason, force=force, embed=True, progress=progress)
        after = index.status()
    except (TurngraphError, OSError) as error:
        return Reindexed(agent_id, problem=f"{type(error).__name__}: {error}")
    finally:
        index.close()
    return Reindexed(agent_id, before.files, before.chunks, after.files, after.chunks, report)


def _telling(agent_id: str, say: Callable[[str], None]) -> Progress:
    """Return a progress that speaks every few seconds, so that a short sync says nothing."""
    told = time.monotonic()

    def progress(what: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told >= TOLD_EVERY_S:
            told = now
            say(f"agent {agent_id}: {what} {done:,} of {total:,}")

    return progress
