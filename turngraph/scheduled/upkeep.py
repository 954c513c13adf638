"""Maintenance of a home: archives and leftovers, sessions, runs of jobs, traces, logs. Plans first, lists everything.

Never touched: a live transcript, and a file of unknown kind.
Source: spec/sessions.md 3.6 and 6.4, spec/scheduling.md B6, known-faults 1.7 and 12.1, design decisions 6 and 13.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stores.jobs import JobStore
from stores.run_logs import prune_file
from stores.session_maintenance import MaintenanceReport, Task, run_maintenance
from stores.traces import TraceStore
from turngraph.clock import Clock
from turngraph.errors import TurngraphError
from turngraph.scheduled.run_sessions import sweep_runs

if TYPE_CHECKING:
    from turngraph.api import Turngraph


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What maintenance removed, or would remove.

    Attributes:
        sessions: the report of each agent.
        runs: keys of swept sessions of isolated runs, by agent.
        merged_days: finished days of traces that were merged, of how many turns.
        trace_files: traces, blobs and spools past their retention, and their bytes.
        logs: run logs and ledgers of deleted jobs.
        problems: what could not be done, one line each; the rest was done.
    """

    dry_run: bool
    sessions: tuple[MaintenanceReport, ...] = ()
    runs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    merged_days: tuple[tuple[str, int], ...] = ()
    trace_files: tuple[Path, ...] = ()
    trace_bytes: int = 0
    logs: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def files(self) -> int:
        """Count of files that went or would go."""
        budgets = sum(len(report.budget.files) for report in self.sessions if report.budget)
        swept = sum(len(report.swept) for report in self.sessions)
        return swept + budgets + len(self.trace_files) + len(self.logs)

    @property
    def freed_bytes(self) -> int:
        budgets = sum(report.budget.freed_bytes for report in self.sessions if report.budget)
        return sum(item.bytes for report in self.sessions for item in report.swept) + budgets + self.trace_bytes

    def lines(self) -> Iterator[str]:
        """Describe the report, one line a fact."""
        done, kept = ("would sweep", "would remove") if self.dry_run else ("swept", "removed")
        for report in self.sessions:
            yield f"agent {report.agent_id}: {report.before} sessions, mode {report.mode}"
            for item in report.swept:
                yield f"  {done} {item.name}  {item.bytes:,} bytes"
            if report.budget and report.budget.over_budget:
                budget = report.budget
                yield f"  {budget.total_before:,} bytes, allowed are {budget.max_bytes:,}; then {budget.total_after:,}"
                for name in budget.files:
                    yield f"  {done} {name}  (disk budget)"
            for name in report.orphaned:
                yield f"  {'would set' if self.dry_run else 'set'} {name} aside with its session"
            gone = kept if self.dry_run or report.applied else "would remove (mode warn)"
            for key in report.removed_keys:
                yield f"  {gone} {key}  ({report.action(key)})"
        for agent_id, keys in self.runs:
            for key in keys:
                yield f"agent {agent_id}: {kept} the session of a run {key}"
        for day, turns in self.merged_days:
            yield f"traces of {day}: merged {turns} turns"
        for path in (*self.trace_files, *self.logs):
            yield f"{kept} {path}"
        for problem in self.problems:
            yield f"not done: {problem}"
        yield f"{self.files} files, {self.freed_bytes:,} bytes {'would go' if self.dry_run else 'gone'}"

    def markdown(self, took_s: float) -> str:
        """Return the report as the artifact of a flow run."""
        listed = "\n".join(f"- {line.strip()}" for line in self.lines())
        return f"# Maintenance{' (dry run)' if self.dry_run else ''}\n\n{listed}\n\nTook {took_s:.1f} s.\n"


def run_upkeep(
    home: Turngraph, clock: Clock, *, agents: Sequence[str] | None = None, dry_run: bool = False
) -> UpkeepReport:
    """Tidy a home.

    Args:
        home: the opened home.
        clock: for ages.
        agents: ids of the agents; all when not given.
        dry_run: plan and list, touch nothing.
    """
    problems: list[str] = []
    reports, runs = [], []
    for agent_id in agents or home.agents:
        agent = home.agent(agent_id, clock=clock)
        session = agent.settings.session
        store = agent.sessions()
        task = Task(main_key=session.main_key, dry_run=dry_run)
        with _noted(problems, f"sessions of {agent_id}"):
            reports.append(run_maintenance(store, session.maintenance, task))
        with _noted(problems, f"runs of {agent_id}"):
            swept = sweep_runs(store, agent.settings.cron.session_retention, dry_run=dry_run)
            runs.append((agent_id, swept))
    tidied = Tidied()
    with _noted(problems, "traces"):
        tidied = _tidy_traces(home, clock.now(), dry_run=dry_run)
    logs: tuple[Path, ...] = ()
    with _noted(problems, "run logs"):
        logs = _tidy_logs(home, clock.now(), dry_run=dry_run)
    swept_runs = tuple(item for item in runs if item[1])
    return UpkeepReport(
        dry_run, tuple(reports), swept_runs, tidied.merged_days, tidied.files, tidied.bytes, logs, tuple(problems)
    )


@dataclass(frozen=True, slots=True)
class Tidied:
    """What became of the traces of a home."""

    merged_days: tuple[tuple[str, int], ...] = ()
    files: tuple[Path, ...] = ()
    bytes: int = 0


def _tidy_traces(home: Turngraph, now: datetime, *, dry_run: bool) -> Tidied:
    """Merge the traces of finished days, and sweep those past their retention."""
    if not home.home.traces_dir.is_dir():
        return Tidied()
    traces = TraceStore(home.home.traces_dir)
    merged: tuple[tuple[str, int], ...] = ()
    if not dry_run:
        traces.adopt_dead_spools()
        days = traces.merge_finished_days(now.astimezone(UTC).date())
        merged = tuple((str(day.day), day.added) for day in days)
    found = traces.sweep(home.settings.agent().traces.retention, now, dry_run=dry_run)
    return Tidied(merged, (*found.days, *found.blobs, *found.spools), found.freed_bytes)


@contextmanager
def _noted(problems: list[str], what: str) -> Iterator[None]:
    """Go on after a failure of one part, and note it."""
    try:
        yield
    except (TurngraphError, OSError) as error:
        problems.append(f"{what}: {error}")


def _tidy_logs(home: Turngraph, now: datetime, *, dry_run: bool) -> tuple[Path, ...]:
    """Prune run logs; remove those of deleted jobs, and their ledgers, after the retention of leftovers."""
    settings = home.settings.agent()
    store = JobStore.of_home(home.home, settings)
    retention = settings.session.maintenance.leftover_retention
    known = {str(row.get("id")) for row in store.load().rows if isinstance(row, dict)}
    gone = []
    for path in (*sorted(store.logs.folder.glob("*.jsonl")), *sorted(store.ledger.folder.glob("*.jsonl"))):
        age = now - datetime.fromtimestamp(path.stat().st_mtime, UTC)
        if path.stem not in known and retention is not None and age > retention:
            gone.append(path)
        elif not dry_run and path.parent == store.logs.folder:
            prune_file(path, settings.cron.run_log)
    if not dry_run:
        for path in gone:
            path.unlink(missing_ok=True)
    return tuple(gone)
