"""Bring the memory index of an agent up to its files.

Source: spec/memory.md 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stores.memory.sync import SyncReport
    from turngraph.api import Turngraph

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Reindexed:
    """An index before and after."""

    agent_id: str
    files_before: int
    chunks_before: int
    files_after: int
    chunks_after: int
    report: SyncReport

    def markdown(self) -> str:
        """Return the artifact of a flow run."""
        report = self.report
        rows = [
            ("files", self.files_before, self.files_after),
            ("chunks", self.chunks_before, self.chunks_after),
        ]
        table = "\n".join(f"| {name} | {before:,} | {after:,} |" for name, before, after in rows)
        changed = (
            f"{report.added} added, {report.changed} changed, {report.removed} removed, {report.unchanged} unchanged"
        )
        lines = [
            f"# Index of {self.agent_id}",
            "",
            "| | before | after |",
            "|---|---|---|",
            table,
            "",
            f"{changed}; {report.embedded} vectors written, {report.pending} waiting; {report.took_ms / 1000:.1f} s.",
            *(f"- {problem}" for problem in report.problems),
        ]
        if report.fallback:
            lines.append(f"- no vectors: {report.fallback}")
        return "\n".join(lines) + "\n"

    def line(self) -> str:
        """Return the report as one line."""
        report = self.report
        return (
            f"agent {self.agent_id}: {report.added} added, {report.changed} changed, {report.removed} removed, "
            f"{report.unchanged} unchanged; {self.chunks_after:,} chunks, {report.pending} without a vector; "
            f"{report.took_ms / 1000:.1f} s"
        )


def reindex_agent(
    home: Turngraph, agent_id: str, *, reason: str = "interval", force: bool = False, progress: Progress | None = None
) -> Reindexed:
    """Sync the index of one agent, vectors included. What a killed run has written stays, so the next goes on.

    Raises:
        IndexBusy: another process holds the index.
        StoreError: the disk is full.
    """
    from stores.memory.index import MemoryIndex

    index = MemoryIndex.open(home.home, agent_id, home.settings.agent(agent_id))
    try:
        before = index.status()
        report = index.sync(reason, force=force, embed=True, progress=progress)
        after = index.status()
    finally:
        index.close()
    return Reindexed(agent_id, before.files, before.chunks, after.files, after.chunks, report)
