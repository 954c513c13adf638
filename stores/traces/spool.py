"""The spool of a running turn: its events as they happen, for any other process to follow.

Source: spec/seeing.md 1.1. The first line is the header (trace id, process, agent, session key, start); then come the
events as they were told, one line each.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson

from stores.lock_files import pid_is_alive, start_ticks
from stores.traces.rows import SCHEMA_VERSION, json_line
from turngraph.decisions import NodeRun, TurnTrace

INTERRUPTED = "interrupted"  # error of a turn whose process died
_log = logging.getLogger(__name__)


class Spool:
    """The spool of one turn. A spool that cannot be written is one warning; the turn goes on without it."""

    def __init__(self, path: Path, trace_id: str, header: Mapping[str, Any]) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        begin = {
            "version": SCHEMA_VERSION,
            "trace_id": trace_id,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            **header,
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            _log.warning("%s: the running turn cannot be followed (%s)", path, error.strerror)
        self._line(begin)

    def write(self, event: str, data: Mapping[str, Any]) -> None:
        """Add one event."""
        self._line({"event": event, **data})

    def _line(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json_line(row, default=str))
        except (OSError, TypeError) as error:
            _log.warning("%s: the running turn cannot be followed any more (%s)", self._path, type(error).__name__)
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Remove the spool: the turn is over and its trace is kept."""
        if self._file is not None:
            self._file.close()
            self._file = None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s: cannot be removed (%s)", self._path, error.strerror)


@dataclass(frozen=True, slots=True)
class SpoolRows:
    """What stands in a spool.

    Attributes:
        path: the file; header: its first line; events: the others, oldest first.
        written: when the last of them was written.
    """

    path: Path
    header: Mapping[str, Any]
    events: tuple[Mapping[str, Any], ...]
    written: datetime

    @property
    def trace_id(self) -> str:
        return str(self.header["trace_id"])

    @property
    def is_dead(self) -> bool:
        """Whether the process that ran the turn is gone."""
        pid, ticks = self.header.get("pid"), self.header.get("start_ticks")
        if not isinstance(pid, int) or not pid_is_alive(pid):
            return True
        now_ticks = start_ticks(pid)
        return ticks is not None and now_ticks is not None and ticks != now_ticks

    def interrupted(self) -> TurnTrace:
        """Return what is known of a turn that was killed, as a trace with the error ``interrupted``."""
        started = datetime.fromisoformat(str(self.header["started"]))
        return TurnTrace(
            trace_id=self.trace_id,
            agent_id=str(self.header["agent"]),
            session_key=str(self.header["session_key"]),
            session_id="",
            turn=0,
            started=started,
            ended=max(started, self.written),
            facts={"error": INTERRUPTED},
            nodes=tuple(self._runs(started)),
            decisions=(),
            segments=(),
        )

    def _runs(self, started: datetime) -> Iterator[NodeRun]:
        ended = {event.get("ordinal"): event for event in self.events if event.get("event") == "node_end"}
        for event in self.events:
            if event.get("event") == "node_start":
                end = ended.get(event["ordinal"])
                error = end.get("error") if end else INTERRUPTED
                ms = float(end["ms"]) if end else 0.0
                yield NodeRun(int(event["ordinal"]), str(event["node"]), started, ms, error=error)


def read_spool(path: Path) -> SpoolRows | None:
    """Read a spool; ``None`` when it is gone or has no usable header yet. A half-written last line is left out."""
    try:
        data, written = path.read_bytes(), path.stat().st_mtime
    except OSError:
        return None
    rows = []
    for line in data.split(b"\n"):
        try:
            row = orjson.loads(line) if line else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    if not rows or not {"trace_id", "agent", "session_key", "started"} <= rows[0].keys():
        return None
    return SpoolRows(path, rows[0], tuple(rows[1:]), datetime.fromtimestamp(written, UTC))


def spools(folder: Path) -> list[SpoolRows]:
    """Return the spools of a folder ``live/``, by trace id."""
    paths = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
    return [rows for path in paths if (rows := read_spool(path))]
