"""Traces of days that are not merged yet: ``open/<agent>/<day>.jsonl``, one line a finished turn.

Source: spec/seeing.md 1.2, spec/spike.md section 6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date
from pathlib import Path
from typing import Any

import orjson

from stores.archives import sync_folder
from stores.traces.rows import EVERYTHING, Row, Wanted, check_version, to_line
from turngraph.decisions import TurnTrace

LOCK_TIMEOUT_S = 5.0  # an append takes a millisecond; who waits longer has met a stopped process
MERGING = ".merging"  # suffix of a day that a merge has taken


def day_of(trace: TurnTrace) -> date:
    """Return the day a trace belongs to: that of its start, in UTC."""
    return trace.started.astimezone(UTC).date()


class OpenDays:
    """The folder ``open/`` of a trace store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, trace: TurnTrace) -> None:
        """Append a trace to its day and return once it would survive a power cut.

        A line that a killed process left half written is closed first, so that it spoils only itself.

        Raises:
            OSError: when the file cannot be written or its lock is held for too long.
            TypeError: when the trace holds what JSON does not have.
        """
        line = to_line(trace)
        path = self.folder / trace.agent_id / f"{day_of(trace)}.jsonl"
        with self.locked(trace.agent_id):
            is_new = not path.exists()
            with path.open("a+b") as file:
                if file.tell() and not _ends_line(file):
                    line = b"\n" + line
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(path.parent)

    @contextmanager
    def locked(self, agent_id: str) -> Iterator[None]:
        """Hold the lock of an agent's open days.

        Raises:
            OSError: when it is not free within ``LOCK_TIMEOUT_S``.
        """
        from filelock import FileLock

        folder = self.folder / agent_id
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "open.lock", timeout=LOCK_TIMEOUT_S):
            yield

    def agents(self) -> list[str]:
        """Return the agents that have a folder here."""
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir()) if self.folder.is_dir() else []

    def days(self, agent_id: str) -> dict[date, list[Path]]:
        """Return the files of each day of an agent; a day has two while it is being merged."""
        found: dict[date, list[Path]] = {}
        folder = self.folder / agent_id
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            name = path.name.removesuffix(MERGING)
            if name.endswith(".jsonl") and (day := parse_day(name.removesuffix(".jsonl"))):
                found.setdefault(day, []).append(path)
        return found

    def rows(self, agent_id: str, day: date, wanted: Wanted = EVERYTHING) -> list[Row]:
        """Return the wanted rows of a day, each trace once, oldest first."""
        for _ in range(3):  # a merge may rename or remove a file between listing and reading
            try:
                rows = [row for path in self.days(agent_id).get(day, []) for row in read_rows(path, wanted)]
            except FileNotFoundError:
                continue
            return wanted.select({row["trace_id"]: row for row in rows}.values())
        return []


def read_rows(path: Path, wanted: Wanted = EVERYTHING) -> Iterator[Row]:
    """Yield the rows of one file; a half-written or damaged line is skipped.

    Lines that cannot hold what is wanted are not parsed.

    Raises:
        StoreError: when a row has a newer schema version.
    """
    needles = [orjson.dumps({name: value})[1:-1] for name, value in wanted.values.items()]
    for line in path.read_bytes().split(b"\n"):
        row = _parse(line) if all(needle in line for needle in needles) else None
        if row is not None:
            check_version(row["version"], str(path))
            yield row


def _parse(line: bytes) -> Row | None:
    try:
        row = orjson.loads(line) if line else None
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) and "version" in row and "trace_id" in row else None


def _ends_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def parse_day(text: str) -> date | None:
    """Read ``2026-03-16``; ``None`` for any other text."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if str(day) == text else None
