"""The merged data set: one Parquet file a table, agent and day, made from open days that are over.

``merged/<table>/agent=<agent>/day=<day>/part.parquet`` reads as a hive-partitioned data set. A merge takes a day by
renaming its file, writes the tables with the turns last, and removes the taken file; killed anywhere, the next merge
takes up what it finds, and until then a reader may see a trace twice and takes it once.
Source: spec/seeing.md 1.2.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from stores.traces.open_days import MERGING, OpenDays, parse_day, read_rows
from stores.traces.rows import EVERYTHING, Row, Wanted
from stores.traces.tables import PARTS, TABLES, DamagedTable, from_tables, read_table, to_tables, write_table

PART = "part.parquet"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MergedDay:
    """One day that was merged: how many traces it has now, and how many of them are new."""

    agent_id: str
    day: date
    traces: int
    added: int


class MergedDays:
    """The folder ``merged/`` of a trace store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, table: str, agent_id: str, day: date) -> Path:
        """Return the file of a table, an agent and a day."""
        return self.folder / table / f"agent={agent_id}" / f"day={day}" / PART

    def files(self, agent_id: str, day: date) -> list[Path]:
        """Return the files of a day, the turns first."""
        return [self.path(table, agent_id, day) for table in reversed(TABLES)]

    def agents(self) -> list[str]:
        """Return the agents that have merged days."""
        return sorted(path.name.removeprefix("agent=") for path in self.folder.glob("turns/agent=*"))

    def days(self, agent_id: str) -> list[date]:
        """Return the merged days of an agent, oldest first."""
        names = (path.parent.name.removeprefix("day=") for path in self.folder.glob(f"turns/agent={agent_id}/*/{PART}"))
        return sorted(day for name in names if (day := parse_day(name)))

    def rows(self, agent_id: str, day: date, wanted: Wanted = EVERYTHING) -> list[Row]:
        """Return the wanted rows of a day, oldest first.

        Raises:
            DamagedTable: when a file cannot be read.
            StoreError: for one of a newer schema version.
        """
        turns = wanted.select(read_table(self.path("turns", agent_id, day)))
        if not turns:
            return []
        of_these = None if wanted == EVERYTHING else [("trace_id", "in", [turn["trace_id"] for turn in turns])]
        parts = {name: read_table(self.path(name, agent_id, day), filters=of_these) for name in PARTS}
        return from_tables({**parts, "turns": turns})

    def digests(self, agent_id: str, day: date) -> Iterator[str]:
        """Yield the digests of the segment texts of a day."""
        for record in read_table(self.path("segments", agent_id, day), columns=["sha256"]):
            yield record["sha256"]

    def write(self, agent_id: str, day: date, rows: list[Row]) -> None:
        """Replace a day."""
        for name, table in to_tables(rows).items():
            write_table(table, self.path(name, agent_id, day))

    def set_aside(self, agent_id: str, day: date) -> None:
        """Rename the files of a damaged day, so that it can be written anew."""
        for path in self.files(agent_id, day):
            if path.exists():
                path.replace(path.with_name(f"{path.name}.damaged"))

    def remove(self, agent_id: str, day: date) -> None:
        """Remove a day; the turns go first, so that no reader meets half of it."""
        for path in self.files(agent_id, day):
            path.unlink(missing_ok=True)
            if path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()


def merge_finished_days(open_days: OpenDays, merged: MergedDays, today: date) -> list[MergedDay]:
    """Merge every open day before ``today``.

    The caller holds the lock of the merge; turns may go on appending meanwhile.

    Raises:
        StoreError: for a day of a newer schema version; its rows stay where they are.
        OSError: when a file cannot be written; the day stays open.
    """
    done: list[MergedDay] = []
    for agent_id in open_days.agents():
        for day in sorted(day for day in open_days.days(agent_id) if day < today):
            done.append(_merge(open_days, merged, agent_id, day))
    return done


def _merge(open_days: OpenDays, merged: MergedDays, agent_id: str, day: date) -> MergedDay:
    path = open_days.folder / agent_id / f"{day}.jsonl"
    taken = path.with_name(path.name + MERGING)
    rows = {row["trace_id"]: row for row in _rows_so_far(merged, agent_id, day)}
    before = len(rows)
    while True:
        if not taken.exists():  # what a killed merge had taken goes first
            with open_days.locked(agent_id):
                if not path.exists():
                    break
                path.rename(taken)
        rows |= {row["trace_id"]: row for row in read_rows(taken)}
        merged.write(agent_id, day, sorted(rows.values(), key=lambda row: (row["started"], row["trace_id"])))
        taken.unlink()
    return MergedDay(agent_id, day, len(rows), len(rows) - before)


def _rows_so_far(merged: MergedDays, agent_id: str, day: date) -> list[Row]:
    try:
        return merged.rows(agent_id, day)
    except DamagedTable as error:
        _log.warning("%s; the day is set aside and begun anew", error)
        merged.set_aside(agent_id, day)
        return []
