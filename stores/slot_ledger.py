"""Slot ledger: ``cron/slots/<jobId>.jsonl``, what became of each planned time of a job.

A slot is claimed before its run starts, under a lock and on the disk; a slot with any line is never claimed again. So
neither a restart nor a second scheduler nor a clock set back runs it twice.
Source: spec/scheduling.md C3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stores.lock_files import pid_is_alive, start_ticks
from stores.run_logs import append_line, json_lines, prune_file, safe_job_id
from turngraph.config.schema_schedule import RunLog
from turngraph.errors import SessionBusy
from turngraph.schedules.slots import Stretch

LOCK_TIMEOUT_S = 10.0

Outcome = Literal["done", "late", "interrupted", "skipped", "missed"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim without an outcome yet."""

    job_id: str
    slot_ms: int | None
    run_id: str
    at_ms: int
    pid: int | None
    start_ticks: int | None

    @property
    def is_orphan(self) -> bool:
        """Whether the process that claimed it is gone."""
        if self.pid is None or not pid_is_alive(self.pid):
            return True
        ticks = start_ticks(self.pid)
        return self.start_ticks is not None and ticks is not None and ticks != self.start_ticks


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of one job as it was read.

    Attributes:
        settled_ms: newest slot with a line; ``None`` without one.
        open: claims without outcome, oldest first.
        lines: count of lines.
    """

    settled_ms: int | None
    open: tuple[Claim, ...]
    lines: tuple[Mapping[str, Any], ...]

    def knows(self, slot_ms: int) -> bool:
        """Tell whether a slot has a line of its own or lies in a stretch."""
        return any(
            line.get("slotMs") == slot_ms
            or _number(line, "fromMs", slot_ms + 1) <= slot_ms <= _number(line, "toMs", -1)
            for line in self.lines
        )


@dataclass(frozen=True, slots=True)
class SlotLedger:
    """The slot ledgers of all jobs."""

    folder: Path

    def path(self, job_id: str) -> Path:
        """Return the ledger of a job; it may not exist."""
        return self.folder / f"{safe_job_id(job_id)}.jsonl"

    def exists(self, job_id: str) -> bool:
        """Tell whether a job of this id has ever had a slot."""
        return self.path(job_id).exists()

    def read(self, job_id: str) -> Ledger:
        """Read the ledger of a job; what cannot be read is left out."""
        try:
            lines = tuple(json_lines(self.path(job_id).read_bytes()))
        except FileNotFoundError:
            return Ledger(None, (), ())
        open_claims: dict[str, Claim] = {}
        settled: int | None = None
        for line in lines:
            run_id, slot_ms = str(line.get("runId") or ""), line.get("slotMs")
            if line.get("event") == "claimed":
                pid, ticks = line.get("pid"), line.get("startTicks")
                at_ms = int(_number(line, "atMs", 0))
                open_claims[run_id] = Claim(job_id, slot_ms, run_id, at_ms, pid, ticks)
            else:
                open_claims.pop(run_id, None)
            newest = max(_number(line, "slotMs", -1), _number(line, "toMs", -1))
            if newest >= 0:
                settled = newest if settled is None else max(settled, newest)
        return Ledger(settled, tuple(open_claims.values()), lines)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            with FileLock(self.folder / ".slots.lock", timeout=LOCK_TIMEOUT_S, thread_local=False):
                yield
        except Timeout as error:
            raise SessionBusy(f"{self.folder} is being written by another process for {LOCK_TIMEOUT_S:g} s") from error

    def claim(self, job_id: str, slot_ms: int | None, run_id: str, now_ms: int, *, reason: str | None = None) -> bool:
        """Claim a slot for this process; ``False`` when it has a line already. On disk when this returns.

        Args:
            slot_ms: planned time; ``None`` for a run by hand, which blocks no slot.
        """
        with self._locked():
            if slot_ms is not None and self.read(job_id).knows(slot_ms):
                return False
            line: dict[str, Any] = {"slotMs": slot_ms, "event": "claimed", "atMs": now_ms, "runId": run_id}
            line |= {"pid": os.getpid(), "startTicks": start_ticks(os.getpid())}
            if slot_ms is not None and now_ms > slot_ms:
                line["lateMs"] = now_ms - slot_ms
            append_line(self.path(job_id), line | ({"reason": reason} if reason else {}), durable=True)
            return True

    def take_over(self, job_id: str, run_id: str, now_ms: int) -> bool:
        """Make this process, a worker, the owner of a claim that the dispatcher made; ``False`` without an open one."""
        with self._locked():
            claim = next((claim for claim in self.read(job_id).open if claim.run_id == run_id), None)
            if claim is None:
                return False
            owner = {"pid": os.getpid(), "startTicks": start_ticks(os.getpid()), "reason": "taken over by a worker"}
            line = {"slotMs": claim.slot_ms, "event": "claimed", "atMs": now_ms, "runId": run_id, **owner}
            append_line(self.path(job_id), line, durable=True)
            return True

    def settle(
        self, job_id: str, slot_ms: int | None, run_id: str, event: Outcome, now_ms: int, limits: RunLog, **facts: Any
    ) -> None:
        """Write the outcome of a claimed slot; ``facts`` are status, reason, lateMs, flowRunId."""
        known = {name: value for name, value in facts.items() if value is not None}
        line = {"slotMs": slot_ms, "event": event, "atMs": now_ms, "runId": run_id, **known}
        with self._locked():
            append_line(self.path(job_id), line, durable=True)
            prune_file(self.path(job_id), limits, keep_from=self._needed(job_id))

    def record(self, job_id: str, stretch: Stretch, run_id: str, now_ms: int) -> None:
        """Write a stretch of slots that do not run, unless they have lines already."""
        one = stretch.from_ms == stretch.to_ms
        where: dict[str, Any] = {"slotMs": stretch.to_ms}
        if not one:
            where |= {"fromMs": stretch.from_ms, "toMs": stretch.to_ms, "count": stretch.count}
        with self._locked():
            if self.read(job_id).knows(stretch.to_ms):
                return
            line = {**where, "event": stretch.event, "atMs": now_ms, "runId": run_id, "reason": stretch.reason}
            append_line(self.path(job_id), line, durable=True)

    def _needed(self, job_id: str) -> int:
        """Return how many of the newest lines must stay: back to the oldest open claim and the newest slot."""
        ledger = self.read(job_id)
        wanted = {claim.run_id for claim in ledger.open}
        needed = 1
        for back, line in enumerate(reversed(ledger.lines), start=1):
            if line.get("runId") in wanted or line.get("slotMs") == ledger.settled_ms:
                needed = max(needed, back)
        return needed


def _number(line: Mapping[str, Any], name: str, default: int) -> int:
    value = line.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else default
