"""Run logs: ``cron/runs/<jobId>.jsonl``, one line a finished run, as OpenClaw 2026.3 writes and reads them.

Source: spec/scheduling.md B6.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from stores.sessions import write_whole
from turngraph.config.schema_schedule import RunLog
from turngraph.errors import NotFound
from turngraph.schedules.job import is_job_id

MOST_SHOWN = 200
_STATUSES = ("ok", "error", "skipped")
_DELIVERIES = ("delivered", "not-delivered", "unknown", "not-requested")
_TEXTS = ("error", "summary", "deliveryError", "sessionId", "sessionKey", "model", "provider", "traceId", "flowRunId")
_NUMBERS = ("runAtMs", "durationMs", "nextRunAtMs", "slotMs")
_USAGE = ("input_tokens", "output_tokens", "total_tokens", "cache_read_tokens", "cache_write_tokens")


def safe_job_id(text: str) -> str:
    """Return an id that can name a file inside the folder of logs.

    Raises:
        NotFound: it cannot.
    """
    if not is_job_id(text):
        raise NotFound(f"{text!r} is no job id; `turngraph cron list` shows them")
    return text.strip()


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of all jobs, below the folder of the job store."""

    folder: Path

    def path(self, job_id: str) -> Path:
        """Return the log of a job; it may not exist."""
        return self.folder / f"{safe_job_id(job_id)}.jsonl"

    def append(self, entry: Mapping[str, Any], limits: RunLog) -> None:
        """Append a finished run and prune the log to its limits."""
        path = self.path(str(entry["jobId"]))
        append_line(path, entry)
        prune_file(path, limits)

    def read(self, job_id: str) -> list[dict[str, Any]]:
        """Return the finished runs of a job, oldest first; what cannot be read is left out."""
        try:
            return parse_run_log(self.path(job_id).read_bytes())
        except FileNotFoundError:
            return []

    def page(
        self, job_id: str, *, limit: int = 50, status: str | None = None, delivery: str | None = None, text: str = ""
    ) -> list[dict[str, Any]]:
        """Return the newest runs first, those that match only."""
        wanted = text.lower()
        found = [
            entry
            for entry in reversed(self.read(job_id))
            if status in (None, entry.get("status"))
            and delivery in (None, entry.get("deliveryStatus"))
            and wanted in f"{entry.get('summary', '')} {entry.get('error', '')}".lower()
        ]
        return found[: max(1, min(limit, MOST_SHOWN))]


def append_line(path: Path, entry: Mapping[str, Any], *, durable: bool = False) -> None:
    """Append one whole line; a line that a crash left unfinished is closed first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        size = os.fstat(number).st_size
        torn = size > 0 and os.pread(number, 1, size - 1) != b"\n"
        os.write(number, (b"\n" if torn else b"") + orjson.dumps(entry) + b"\n")
        if durable:
            os.fsync(number)
    finally:
        os.close(number)


def parse_run_log(data: bytes) -> list[dict[str, Any]]:
    """Return the finished runs of a log, cleaned of what no reader knows, oldest first."""
    return [entry for entry in (_entry(row) for row in json_lines(data)) if entry is not None]


def json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of lines; other lines are left out."""
    for line in data.split(b"\n"):
        try:
            row = orjson.loads(line) if line.strip() else None
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            yield row


def _entry(row: Mapping[str, Any]) -> dict[str, Any] | None:
    job_id, ts = row.get("jobId"), row.get("ts")
    named = isinstance(job_id, str) and job_id.strip()
    if row.get("action") != "finished" or not named or not _is_number(ts):
        return None
    entry: dict[str, Any] = {"ts": ts, "jobId": job_id, "action": "finished"}
    if row.get("status") in _STATUSES:
        entry["status"] = row["status"]
    for name in _TEXTS:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            entry[name] = value
    for name in _NUMBERS:
        if _is_number(row.get(name)):
            entry[name] = row[name]
    if isinstance(row.get("delivered"), bool):
        entry["delivered"] = row["delivered"]
    if row.get("deliveryStatus") in _DELIVERIES:
        entry["deliveryStatus"] = row["deliveryStatus"]
    usage = row.get("usage")
    counted = {name: usage[name] for name in _USAGE if _is_number(usage.get(name))} if isinstance(usage, dict) else {}
    return entry | ({"usage": counted} if counted else {})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def prune_file(path: Path, limits: RunLog, *, keep_from: int | None = None) -> None:
    """Rewrite a file of lines that has grown beyond its limits.

    Args:
        keep_from: index of the first line that must stay, counted from the end (1 is the last line).
    """
    if path.stat().st_size <= limits.max_bytes:
        return
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    kept = prune_lines(lines, limits.max_bytes, limits.keep_lines)
    if keep_from is not None and len(kept) < keep_from:
        kept = lines[-keep_from:]
    write_whole(path, b"".join(line + b"\n" for line in kept))


def prune_lines(lines: Sequence[bytes], max_bytes: int, keep_lines: int) -> list[bytes]:
    """Return the newest lines within both limits; all of them when they are not above ``max_bytes``."""
    if sum(len(line) + 1 for line in lines) <= max_bytes:
        return list(lines)
    kept: list[bytes] = []
    size = 0
    for line in reversed(lines[-keep_lines:]):
        size += len(line) + 1
        if size > max_bytes and kept:
            break
        kept.append(line)
    return kept[::-1]
