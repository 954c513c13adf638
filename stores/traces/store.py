"""The trace store of a home, for those who write: live turns and maintenance.

Source: spec/seeing.md section 1, design decision 13.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from stores.traces.blobs import Blobs, transcript_holds
from stores.traces.merged import MergedDay, MergedDays, merge_finished_days
from stores.traces.open_days import OpenDays
from stores.traces.reader import TraceReader
from stores.traces.spool import Spool, spools
from turngraph.decisions import TurnTrace
from turngraph.errors import StoreError

StoreText = Literal["segments", "all", "none"]
MAINTENANCE_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep removed, or would remove: days of traces, blobs and spools, by file, and their bytes."""

    days: tuple[Path, ...]
    blobs: tuple[Path, ...]
    spools: tuple[Path, ...]
    freed_bytes: int


class TraceStore:
    """Writes traces below ``root`` (``<home>/traces``).

    Args:
        root: the folder; it is made when the first turn runs.
        store_text: which segment texts are kept: those that no transcript holds, all, or none; ``None`` keeps no
            traces at all.
    """

    def __init__(self, root: Path, store_text: StoreText | None = "segments") -> None:
        self.root = root
        self.store_text = store_text
        self.open_days = OpenDays(root / "open")
        self.merged = MergedDays(root / "merged")
        self.blobs = Blobs(root / "blobs")
        self.live = root / "live"

    def spool(self, trace_id: str, header: Mapping[str, Any]) -> Spool | NoSpool:
        """Open the spool of a turn that starts now; ``header`` has its agent, session key and start."""
        if self.store_text is None:
            return NoSpool()
        return Spool(self.live / f"{trace_id}.jsonl", trace_id, header)

    def append(self, trace: TurnTrace) -> None:
        """Keep the trace of a finished turn; one that cannot be written is a warning, never an error of the turn."""
        if self.store_text is None:
            return
        try:
            self._append(trace)
        except (OSError, TypeError, ValueError) as error:
            _log.warning("trace %s of turn %d is not kept: %s", trace.trace_id, trace.turn, _reason(error))

    def _append(self, trace: TurnTrace) -> None:
        if self.store_text == "all":
            self.blobs.put(trace.segments)
        elif self.store_text == "segments":
            self.blobs.put(segment for segment in trace.segments if not transcript_holds(segment))
        self.open_days.append(trace)

    def adopt_dead_spools(self) -> list[TurnTrace]:
        """Turn the spools of killed turns into traces with the error ``interrupted``; return these.

        A turn that was killed after its trace was safe only loses its spool.
        """
        dead = [rows for rows in spools(self.live) if rows.is_dead]
        if not dead:
            return []
        reader = TraceReader(self.root)
        adopted: list[TurnTrace] = []
        try:
            with self._alone("adopt.lock", timeout_s=0):
                for rows in dead:
                    if rows.path.exists() and not reader.has(rows.trace_id):
                        self.open_days.append(rows.interrupted())
                        adopted.append(rows.interrupted())
                    rows.path.unlink(missing_ok=True)
        except TimeoutError:
            return []  # another process is at it
        except (OSError, StoreError, ValueError) as error:
            _log.warning("spools of killed turns stay in %s: %s", self.live, _reason(error))
        return adopted

    def merge_finished_days(self, today: date) -> list[MergedDay]:
        """Merge the open days before ``today`` (UTC) into the Parquet data set; safe to kill and to repeat.

        Raises:
            StoreError: for a day of a newer schema version.
            OSError: when a file cannot be written, or another merge runs.
        """
        with self._alone("merge.lock"):
            return merge_finished_days(self.open_days, self.merged, today)

    def forget(self, texts: Iterable[str], *, dry_run: bool = False) -> tuple[Path, ...]:
        """Remove the stored prompt texts that quote ``texts``; a reader then shows them as missing, with their hash.

        Source: design decision 14.
        """
        found = tuple(self.blobs.quoting(texts))
        for path in () if dry_run else found:
            path.unlink(missing_ok=True)
        return found

    def sweep(self, retention: timedelta | None, now: datetime, *, dry_run: bool = False) -> Swept:
        """Remove days that are older than ``retention``, then blobs that no row names, and old spools of dead turns.

        Args:
            retention: age of a whole day at which it goes; ``None`` keeps all rows.
            now: aware time.
            dry_run: only list, write nothing.

        Raises:
            StoreError: for rows that would stay and have a newer schema version: nothing is removed then.
            OSError: when a merge runs.
        """
        if dry_run:
            return self._removable(retention, now)
        with self._alone("merge.lock"):
            found = self._removable(retention, now)
            for agent_id, day in self._split_days(retention, now)[1]:
                self._remove_day(agent_id, day)
            for path in (*found.blobs, *found.spools):
                path.unlink(missing_ok=True)
        return found

    def _removable(self, retention: timedelta | None, now: datetime) -> Swept:
        kept, gone = self._split_days(retention, now)
        named = frozenset(digest for agent_id, day in kept for digest in self._digests(agent_id, day))
        blobs = tuple(self.blobs.unnamed(named, now))
        dead = tuple(s.path for s in spools(self.live) if retention and s.is_dead and now - s.written > retention)
        days = tuple(path for agent_id, day in gone for path in self._files(agent_id, day))
        return Swept(days, blobs, dead, sum(path.stat().st_size for path in (*days, *blobs, *dead)))

    def _split_days(
        self, retention: timedelta | None, now: datetime
    ) -> tuple[list[tuple[str, date]], list[tuple[str, date]]]:
        last = (now - retention).astimezone(UTC).date() if retention is not None else date.min
        found = {(agent, day) for agent in self.open_days.agents() for day in self.open_days.days(agent)}
        found |= {(agent, day) for agent in self.merged.agents() for day in self.merged.days(agent)}
        return sorted(d for d in found if d[1] >= last), sorted(d for d in found if d[1] < last)

    def _digests(self, agent_id: str, day: date) -> Iterator[str]:
        for row in self.open_days.rows(agent_id, day):
            yield from (segment["sha256"] for segment in row["segments"])
        yield from self.merged.digests(agent_id, day)

    def _files(self, agent_id: str, day: date) -> Iterator[Path]:
        yield from self.open_days.days(agent_id).get(day, [])
        yield from (path for path in self.merged.files(agent_id, day) if path.exists())

    def _remove_day(self, agent_id: str, day: date) -> None:
        self.merged.remove(agent_id, day)
        with self.open_days.locked(agent_id):
            for path in self.open_days.days(agent_id).get(day, []):
                path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self, name: str, timeout_s: float = MAINTENANCE_TIMEOUT_S) -> Iterator[None]:
        from filelock import FileLock

        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.root / name, timeout=timeout_s):
            yield


class NoSpool:
    """The spool of a turn that keeps no trace."""

    def write(self, event: str, data: Mapping[str, Any]) -> None:
        """Forget the event."""

    def close(self) -> None:
        """Do nothing: there is nothing to remove."""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
