"""Locks: who may write a file, and who may run a turn.

``hold_lock`` makes the lock file ``<path>.lock`` that OpenClaw makes too, for ``sessions.json`` and transcripts, so
that both programs can work on one home. ``turn_lock`` is our own: one turn at a time for a session key, across
processes; the kernel gives it back when a process is killed.
Source: spec/sessions.md 3.5, spec/spike.md section 7, design decision 5.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from stores.lock_files import create, is_stale, read_owner, reclaim
from turngraph.clock import iso_ms
from turngraph.errors import SessionBusy

LOCK_TIMEOUT_MS = 10_000  # spec/sessions.md 3.5, store and transcript
STORE_STALE_MS = 30_000
TRANSCRIPT_STALE_MS = 1_800_000
TRANSCRIPT_HOLD_MS = 300_000  # longest hold of a transcript by a run without a time limit
POLL_S = 0.02  # turn lock; spec/spike.md section 7
_RETRY_STEP_S = 0.05
_RETRY_MOST_S = 1.0


@dataclass(slots=True)
class _Held:
    """A lock file of this process: how often it is held."""

    path: Path
    count: int = 1


@dataclass(slots=True)
class _Queue:
    """The threads of this process that want one file, first come first served."""

    waiting: deque[threading.Event] = field(default_factory=deque)
    busy: bool = False
    owner: int | None = None
    depth: int = 0


_registry = threading.RLock()
_held: dict[str, _Held] = {}
_queues: dict[str, _Queue] = {}


@contextmanager
def hold_lock(
    path: Path,
    *,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    stale_ms: int = TRANSCRIPT_STALE_MS,
    max_hold_ms: int | None = None,
) -> Iterator[None]:
    """Hold ``<path>.lock``; held again by the same process it is counted, not waited for.

    Args:
        path: the file to protect.
        timeout_ms: how long to wait for another process.
        stale_ms: age beyond which no owner is believed.
        max_hold_ms: time after which the file is given back even though this block still runs.

    Raises:
        SessionBusy: a live process holds it for longer than ``timeout_ms``; with its pid and since when.
    """
    with _hold_file(_real(path), timeout_ms, stale_ms, max_hold_ms):
        yield


@contextmanager
def hold_exclusive(path: Path, *, timeout_ms: int = LOCK_TIMEOUT_MS, stale_ms: int = STORE_STALE_MS) -> Iterator[None]:
    """Hold ``<path>.lock`` against the other threads of this process too, in the order in which they came.

    The holding thread may enter again.

    Raises:
        SessionBusy: as :func:`hold_lock`.
    """
    lock = _real(path)
    started = time.monotonic()
    _enter_queue(str(lock), timeout_ms)
    try:
        left = timeout_ms - int((time.monotonic() - started) * 1000)
        with _hold_file(lock, max(0, left), stale_ms):
            yield
    finally:
        _leave_queue(str(lock))


@contextmanager
def _hold_file(lock: Path, timeout_ms: int, stale_ms: int, max_hold_ms: int | None = None) -> Iterator[None]:
    _acquire(lock, timeout_ms, stale_ms)
    watchdog = threading.Timer(max_hold_ms / 1000, _give_up, [lock]) if max_hold_ms is not None else None
    if watchdog:
        watchdog.daemon = True
        watchdog.start()
    try:
        yield
    finally:
        if watchdog:
            watchdog.cancel()
        _release(lock)


def sweep_stale_locks(folder: Path, *, stale_ms: int = TRANSCRIPT_STALE_MS) -> list[Path]:
    """Remove the lock files of transcripts whose owners are gone; return them."""
    gone = [
        lock for lock in sorted(folder.glob("*.jsonl.lock")) if is_stale(lock, stale_ms, held_here=str(lock) in _held)
    ]
    for lock in gone:
        lock.unlink(missing_ok=True)
    return gone


def is_locked(path: Path, *, stale_ms: int = TRANSCRIPT_STALE_MS) -> bool:
    """Tell whether some live process holds ``<path>.lock``."""
    lock = _real(path)
    return lock.exists() and (str(lock) in _held or not is_stale(lock, stale_ms))


def release_all() -> None:
    """Give back every lock file of this process; runs at exit.

    A killed process needs none of this: its pid is dead, so its locks count as stale.
    """
    with _registry:
        for held in _held.values():
            held.path.unlink(missing_ok=True)
        _held.clear()


atexit.register(release_all)


def _real(path: Path) -> Path:
    folder = path.parent.resolve()
    return folder / f"{path.name}.lock"


def _acquire(lock: Path, timeout_ms: int, stale_ms: int) -> None:
    deadline = time.monotonic() + timeout_ms / 1000
    attempt = 0
    while True:
        with _registry:
            if held := _held.get(str(lock)):
                held.count += 1
                return
            if create(lock):
                _held[str(lock)] = _Held(lock)
                return
            if is_stale(lock, stale_ms):
                reclaim(lock, stale_ms)
                continue
        attempt += 1
        left = deadline - time.monotonic()
        if left <= 0:
            raise _busy(lock, timeout_ms)
        time.sleep(min(left, _RETRY_MOST_S, _RETRY_STEP_S * attempt))


def _release(lock: Path) -> None:
    with _registry:
        held = _held.get(str(lock))
        if held is None:
            return
        held.count -= 1
        if held.count <= 0:
            del _held[str(lock)]
            lock.unlink(missing_ok=True)


def _busy(lock: Path, timeout_ms: int) -> SessionBusy:
    owner = read_owner(lock)
    since = iso_ms(owner.created) if owner.created else None
    who = f"process {owner.pid}" if owner.pid else "another process"
    return SessionBusy(
        f"{lock} is held by {who} since {since or 'an unknown time'}; waited {timeout_ms} ms. "
        "Wait for it to finish, or stop it, and try again.",
        pid=owner.pid,
        since=since,
    )


def _give_up(lock: Path) -> None:
    with _registry:
        if _held.pop(str(lock), None):
            lock.unlink(missing_ok=True)


def _enter_queue(name: str, timeout_ms: int) -> None:
    me = threading.get_ident()
    with _registry:
        queue = _queues.setdefault(name, _Queue())
        if queue.owner == me:
            queue.depth += 1
            return
        if not queue.busy:
            queue.busy, queue.owner, queue.depth = True, me, 1
            return
        turn = threading.Event()
        queue.waiting.append(turn)
    if not turn.wait(timeout_ms / 1000):
        with _registry:
            if not turn.is_set():
                queue.waiting.remove(turn)
                raise SessionBusy(
                    f"{name} is held by another thread of this process; waited {timeout_ms} ms", pid=os.getpid()
                )
    with _registry:
        queue.owner, queue.depth = me, 1


def _leave_queue(name: str) -> None:
    with _registry:
        queue = _queues[name]
        queue.depth -= 1
        if queue.depth:
            return
        queue.owner = None
        if queue.waiting:
            queue.waiting.popleft().set()
        else:
            del _queues[name]


@asynccontextmanager
async def turn_lock(path: Path, *, timeout_ms: int, purpose: str = "turn") -> AsyncIterator[None]:
    """Hold the right to run a turn; ``path`` names the lock file, which stays behind and must not be deleted.

    Waiting can be cancelled and leaves nothing behind. There is no order among processes.

    Raises:
        SessionBusy: somebody else holds it for longer than ``timeout_ms``; with its pid and since when, as far as
            the hint file ``<path>.owner`` tells.
    """
    from filelock import FileLock, Timeout

    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    lock = FileLock(path, timeout=0, thread_local=False)
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            if time.monotonic() >= deadline:
                raise _turn_is_busy(path, timeout_ms) from None
        await asyncio.sleep(POLL_S)
    try:
        _write_owner(path, purpose)
        yield
    finally:
        lock.release()


def turn_is_running(path: Path) -> bool:
    """Tell whether somebody holds the turn lock ``path``."""
    from filelock import FileLock, Timeout

    if not path.exists():
        return False
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return True
    lock.release()
    return False


def _write_owner(path: Path, purpose: str) -> None:
    facts = {"pid": os.getpid(), "since": iso_ms(datetime.now(UTC)), "what": purpose}
    Path(f"{path}.owner").write_text(json.dumps(facts), encoding="utf-8")


def _turn_is_busy(path: Path, timeout_ms: int) -> SessionBusy:
    try:
        facts = json.loads(Path(f"{path}.owner").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        facts = {}
    pid, since, what = facts.get("pid"), facts.get("since"), facts.get("what")
    return SessionBusy(
        f"the session runs a {what or 'turn'} in process {pid or '(unknown)'} since {since or 'an unknown time'}; "
        f"waited {timeout_ms} ms. Send the message again later, or raise session.busyTimeoutMs.",
        pid=pid,
        since=since,
    )
