"""Lock files as OpenClaw makes them: ``<path>.lock`` with pid, time and kernel start ticks, and when one is stale.

Source: spec/sessions.md 3.5.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from turngraph.clock import iso_ms, parse_iso


@dataclass(frozen=True, slots=True)
class LockOwner:
    """What a lock file says about its owner; ``None`` where it says nothing usable."""

    pid: int | None
    created: datetime | None
    start_ticks: int | None


def create(lock: Path) -> bool:
    """Make the lock file for this process; ``False`` when there is one already."""
    facts: dict[str, Any] = {"pid": os.getpid(), "createdAt": iso_ms(datetime.now(UTC))}
    ticks = start_ticks(os.getpid())
    if ticks is not None:
        facts["starttime"] = ticks
    if lock.exists():
        return False
    lock.parent.mkdir(parents=True, exist_ok=True)
    # Written beside and linked into place: a process that is killed here leaves no lock file without an owner, which
    # nobody may reclaim before its time.
    beside = lock.with_name(f"{lock.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    beside.unlink(missing_ok=True)  # of an earlier process with this number
    try:
        _write_new(beside, json.dumps(facts, indent=2))
        os.link(beside, lock)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        return _write_new(lock, json.dumps(facts, indent=2))
    finally:
        beside.unlink(missing_ok=True)
    return True


def _write_new(path: Path, text: str) -> bool:
    try:
        number = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
    return True


def reclaim(lock: Path, stale_ms: int) -> None:
    """Remove a lock file that was found to be stale."""
    # Renamed first: two processes that find the same stale lock must not delete each other's new one.
    aside = lock.with_name(f"{lock.name}.{os.getpid()}.{threading.get_ident()}.stale")
    try:
        lock.rename(aside)
    except FileNotFoundError:
        return
    if not is_stale(aside, stale_ms):
        with suppress(FileExistsError):
            os.link(aside, lock)
    aside.unlink(missing_ok=True)


def is_stale(lock: Path, stale_ms: int, *, held_here: bool = False) -> bool:
    """Tell whether nobody stands behind a lock file any more.

    Args:
        lock: the lock file.
        stale_ms: age beyond which no owner is believed.
        held_here: whether this process knows that it holds the file itself.
    """
    try:
        age = datetime.now(UTC) - datetime.fromtimestamp(lock.stat().st_mtime, UTC)
    except FileNotFoundError:
        return False
    limit = timedelta(milliseconds=stale_ms)
    owner = read_owner(lock)
    if owner.pid is not None and not _is_alive(owner):
        return True
    if owner.pid is None or owner.created is None:
        return age > limit  # a lock that is being written looks like this
    if owner.pid == os.getpid() and owner.start_ticks is None and not held_here:
        return True
    return datetime.now(UTC) - owner.created > limit


def _is_alive(owner: LockOwner) -> bool:
    if owner.pid is None or not pid_is_alive(owner.pid):
        return False
    ticks = start_ticks(owner.pid)
    return owner.start_ticks is None or ticks is None or ticks == owner.start_ticks


def read_owner(lock: Path) -> LockOwner:
    """Read who made a lock file; a file that cannot be read names nobody."""
    try:
        facts = json.loads(lock.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        facts = None
    if not isinstance(facts, dict):
        return LockOwner(None, None, None)
    pid, ticks, created = facts.get("pid"), facts.get("starttime"), facts.get("createdAt")
    return LockOwner(
        pid if type(pid) is int and pid > 0 else None,
        parse_iso(created) if isinstance(created, str) else None,
        ticks if type(ticks) is int and ticks >= 0 else None,
    )


def pid_is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    state = _stat_fields(pid)
    return state is None or state[0] not in ("Z", "X")


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in kernel ticks since the machine started; ``None`` where it cannot be known."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and len(fields) > 19 and fields[19].isdigit() else None


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of ``/proc/<pid>/stat`` behind the command name, which may hold spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
