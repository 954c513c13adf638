from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stores.lock_files import is_stale, read_owner, start_ticks
from stores.locks import hold_exclusive, hold_lock, is_locked, sweep_stale_locks, turn_is_running, turn_lock
from turngraph.clock import iso_ms
from turngraph.errors import SessionBusy

DEAD_PID = 2**22 + 1  # above the largest pid that Linux gives


def lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def write_lock(path: Path, pid: int | None, *, age: timedelta = timedelta(0), ticks: int | None = None) -> Path:
    facts = {"pid": pid, "createdAt": iso_ms(datetime.now(UTC) - age)}
    lock = lock_of(path)
    lock.write_text(json.dumps(facts | ({"starttime": ticks} if ticks is not None else {}), indent=2))
    return lock


def run_python(code: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_the_lock_file_says_who_holds_it_and_goes_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with hold_lock(path):
        owner = read_owner(lock_of(path))
        assert (owner.pid, owner.start_ticks) == (os.getpid(), start_ticks(os.getpid()))
        assert lock_of(path).read_text().startswith('{\n  "pid": ')
        assert is_locked(path)
    assert not lock_of(path).exists()


def test_the_same_process_holds_a_lock_twice_and_gives_it_back_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with hold_lock(path):
        with hold_lock(path):
            pass
        assert lock_of(path).exists()
    assert not lock_of(path).exists()


def test_a_live_owner_makes_the_second_one_busy_with_pid_and_time(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    write_lock(path, os.getppid(), ticks=start_ticks(os.getppid()))
    with pytest.raises(SessionBusy) as busy, hold_lock(path, timeout_ms=60):
        pass
    assert busy.value.pid == os.getppid()
    assert busy.value.since is not None


@pytest.mark.parametrize(
    ("pid", "ticks", "age"),
    [
        (DEAD_PID, None, timedelta(0)),
        (os.getppid(), 1, timedelta(0)),  # the pid was given to another process since
        (os.getppid(), None, timedelta(hours=1)),
        (os.getpid(), None, timedelta(0)),  # ours, but we do not know of it: an orphan
    ],
    ids=("dead", "another process since", "too old", "an orphan of ours"),
)
def test_a_lock_without_a_living_owner_is_taken_over(
    tmp_path: Path, pid: int, ticks: int | None, age: timedelta
) -> None:
    path = tmp_path / "s.jsonl"
    write_lock(path, pid, ticks=ticks, age=age)
    with hold_lock(path, timeout_ms=0):
        assert read_owner(lock_of(path)).pid == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_half_written_lock_is_believed_until_it_is_old(tmp_path: Path) -> None:
    lock = tmp_path / "s.jsonl.lock"
    lock.write_text("")
    assert not is_stale(lock, 30_000)
    old = time.time() - 60
    os.utime(lock, (old, old))
    assert is_stale(lock, 30_000)


def test_the_start_sweep_removes_only_locks_of_the_dead(tmp_path: Path) -> None:
    write_lock(tmp_path / "dead.jsonl", DEAD_PID)
    write_lock(tmp_path / "live.jsonl", os.getppid())
    with hold_lock(tmp_path / "ours.jsonl"):
        assert [lock.name for lock in sweep_stale_locks(tmp_path)] == ["dead.jsonl.lock"]
        assert is_locked(tmp_path / "ours.jsonl")


def test_the_watchdog_gives_back_what_is_held_too_long(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with hold_lock(path, max_hold_ms=1):
        deadline = time.monotonic() + 5
        while lock_of(path).exists() and time.monotonic() < deadline:
            threading.Event().wait(0.005)
        assert not lock_of(path).exists()


def test_threads_enter_one_at_a_time_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    path, order = tmp_path / "sessions.json", []
    inside = threading.Semaphore(1)

    def work(name: int) -> None:
        with hold_exclusive(path):
            assert inside.acquire(blocking=False)
            order.append(name)
            inside.release()

    with hold_exclusive(path):
        threads = []
        for name in range(4):
            threads.append(threading.Thread(target=work, args=[name]))
            threads[-1].start()
            threading.Event().wait(0.02)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


def test_a_killed_owner_leaves_nothing_that_blocks(tmp_path: Path) -> None:
    path = tmp_path / "sessions.json"
    owner = run_python(
        """
        import sys, time
        from pathlib import Path
        from stores.locks import hold_lock
        with hold_lock(Path(sys.argv[1])):
            print("held", flush=True)
            time.sleep(60)
        """,
        path,
    )
    assert owner.stdout is not None
    with owner:
        assert owner.stdout.readline() == "held\n"
        with pytest.raises(SessionBusy), hold_lock(path, timeout_ms=0):
            pass
        owner.kill()
    with hold_lock(path, timeout_ms=0):
        pass


async def test_a_second_turn_waits_or_is_told_who_has_the_session(tmp_path: Path) -> None:
    path = tmp_path / "turn.lock"
    async with turn_lock(path, timeout_ms=0, purpose="heartbeat"):
        assert turn_is_running(path)
        with pytest.raises(SessionBusy, match="heartbeat") as busy:
            async with turn_lock(path, timeout_ms=30):
                pass
        assert busy.value.pid == os.getpid()
    assert not turn_is_running(path)
    async with turn_lock(path, timeout_ms=0):
        pass


async def test_a_cancelled_waiter_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "turn.lock"

    async def wait() -> None:
        async with turn_lock(path, timeout_ms=60_000):
            pass

    async with turn_lock(path, timeout_ms=0):
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0.03)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
    async with turn_lock(path, timeout_ms=0):
        pass
