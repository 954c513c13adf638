"""Events of an agent: ``events.jsonl``, what waits for its next turn, and requests to wake it.

Chat, flows and serve all write here: one appended line an event, under a lock of our own. Reading takes nothing away;
an event is consumed by its id, and consumed ones are dropped when the file is rewritten.
Source: design.md Disk, spec/scheduling.md A2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from stores.run_logs import append_line, json_lines
from stores.sessions import write_whole
from turngraph.errors import SessionBusy
from turngraph.schedules.wakes import Wake

LOCK_TIMEOUT_S = 5.0
REWRITE_BYTES = 65_536  # beyond this consumed events are dropped

EventType = Literal["event", "wake", "steer"]


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """Something that waits.

    Attributes:
        kind: ``event`` a text for the next turn, ``wake`` a request to beat, ``steer`` a message for a running turn.
        text: what happened; of a wake request, its reason.
        tag: who says it, such as ``cron:<jobId>``.
        session_key: the session it is meant for; ``None`` is the agent's main session.
    """

    id: str
    kind: EventType
    text: str
    at_ms: int
    tag: str | None = None
    session_key: str | None = None


@dataclass(frozen=True, slots=True)
class EventFile:
    """The events of one agent."""

    path: Path

    def add(self, event: AgentEvent) -> None:
        """Append an event."""
        row: dict[str, Any] = {"id": event.id, "kind": event.kind, "text": event.text, "atMs": event.at_ms}
        if event.tag:
            row["tag"] = event.tag
        if event.session_key:
            row["sessionKey"] = event.session_key
        with self._locked():
            append_line(self.path, row, durable=True)

    def waiting(self, kind: EventType | None = None, session_key: str | None = None) -> tuple[AgentEvent, ...]:
        """Return events that nobody has consumed, oldest first.

        Args:
            session_key: only those for this session or for the main one.
        """
        return tuple(
            event
            for event in self._read()
            if kind in (None, event.kind) and (session_key is None or event.session_key in (None, session_key))
        )

    def wakes(self) -> tuple[Wake, ...]:
        """Return the waiting wake requests, oldest first."""
        return tuple(Wake(event.id, event.text, event.at_ms, event.session_key) for event in self.waiting("wake"))

    def consume(self, ids: Collection[str], now_ms: int) -> None:
        """Mark events as dealt with."""
        if not ids:
            return
        with self._locked():
            append_line(self.path, {"kind": "consumed", "ids": sorted(ids), "atMs": now_ms}, durable=True)
            if self.path.stat().st_size > REWRITE_BYTES:
                rows = [orjson.dumps(row) for row in self._rows()]
                write_whole(self.path, b"".join(row + b"\n" for row in rows))

    def _rows(self) -> list[dict[str, Any]]:
        try:
            rows = list(json_lines(self.path.read_bytes()))
        except FileNotFoundError:
            return []
        gone = {id_ for row in rows if row.get("kind") == "consumed" for id_ in row.get("ids") or ()}
        return [row for row in rows if row.get("kind") != "consumed" and row.get("id") not in gone]

    def _read(self) -> Iterator[AgentEvent]:
        for row in self._rows():
            kind, at_ms = row.get("kind"), row.get("atMs")
            if kind in ("event", "wake", "steer") and isinstance(at_ms, int):
                text = str(row.get("text") or "")
                yield AgentEvent(str(row.get("id")), kind, text, at_ms, row.get("tag"), row.get("sessionKey"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.path.with_name(".events.lock"), timeout=LOCK_TIMEOUT_S, thread_local=False):
                yield
        except Timeout as error:
            raise SessionBusy(f"{self.path} is being written by another process for {LOCK_TIMEOUT_S:g} s") from error
