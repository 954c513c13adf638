"""Open the index for one short transaction at a time, share it between processes, survive what breaks it.

DuckDB lets one process write a file or several read it. So everybody opens, works and closes; a writer announces
itself by a lock file, and readers that keep their connection for the next search let go when they see it.
Source: spec/stack.md 4, known-faults 7.17 and 14.4.
"""

from __future__ import annotations

import atexit
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory.engine import Engine, IndexDamaged
from turngraph.errors import StoreError

if TYPE_CHECKING:
    import duckdb

WAIT_S = 5.0  # spec/memory.md 10: a writer waits up to 5 s
READER_KEEPS_S = 0.3  # how long a reader may keep its connection without a search
_LOCKED = re.compile(r"Could not set lock|Conflicting lock|already attached", re.IGNORECASE)
_HOLDER = re.compile(r"PID (\d+)")
_FULL = re.compile(r"No space left|disk is full|Could not write", re.IGNORECASE)


class IndexBusy(StoreError):
    """Another process holds the index for longer than a caller may wait."""


class Database:
    """The index file of one agent.

    One instance serves all threads of a process; calls wait for each other.
    """

    def __init__(self, path: Path, *, wait_s: float = WAIT_S, keeps_log: bool = True) -> None:
        """Name the file; it is opened by the first read or write.

        Args:
            path: the index file.
            wait_s: how long a call waits while another process holds the file.
            keeps_log: leave small changes in the log beside the file when it is closed, which halves what a small
                write costs; a file that will be renamed must not have one.
        """
        self.path = path
        self._wait_s = wait_s
        self._keeps_log = keeps_log
        self._lock = threading.RLock()
        self._engine = Engine(path)
        self._reader: duckdb.DuckDBPyConnection | None = None
        self._read_at = 0.0
        self._timer: threading.Timer | None = None
        atexit.register(_close_at_exit, weakref.ref(self))

    @property
    def exists(self) -> bool:
        return self.path.is_file()

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a read-only connection that sees the last commit.

        Raises:
            IndexBusy: a writer kept the file for longer than the wait.
            IndexDamaged: the file is no index of this version.
        """
        with self._lock:
            if self._reader is None or self._writer_waits():
                self._close_reader()
                self._reader = self._open(read_only=True)
            try:
                yield self._reader
            except BaseException as error:
                self._stop()
                if _is_damage(error):
                    raise IndexDamaged(f"{self.path} cannot be read ({type(error).__name__})") from error
                raise
            self._read_at = time.monotonic()
            self._arm_timer()

    @contextmanager
    def write(self, closed: Callable[[], None] | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection inside a transaction: committed at the end, rolled back by an exception.

        Creates the file and its tables; ``closed`` is called after the commit, while no other writer may come in.
        Raises as :meth:`read`, and ``StoreError`` on a full disk.
        """
        from filelock import FileLock, Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            self._close_reader()
            announced = FileLock(self._writer_lock_path, timeout=self._wait_s, poll_interval=0.005)
            try:
                announced.acquire()
            except Timeout:
                raise IndexBusy(f"{self.path} is being written by another process; try again in a moment") from None
            try:
                with self._transaction() as connection:
                    yield connection
                if closed is not None:
                    closed()
            finally:
                announced.release()

    @contextmanager
    def _transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = self._open(read_only=False)
        try:
            # DuckDB calls it the end of the process: it is whenever a file is let go.
            connection.execute(f"PRAGMA {'disable' if self._keeps_log else 'enable'}_checkpoint_on_shutdown")
            connection.execute("BEGIN")
            yield connection
            connection.execute("COMMIT")
            self._engine.detach()
        except BaseException as error:
            with suppress(Exception):
                connection.execute("ROLLBACK")
            self._engine.stop()
            if _FULL.search(str(error)):
                raise StoreError(f"{self.path}: the disk is full; free some space and index again") from error
            if _is_damage(error):
                raise IndexDamaged(f"{self.path} cannot be written ({type(error).__name__})") from error
            raise

    def close(self) -> None:
        """Let go of the file and stop the engine; the next call starts it again."""
        with self._lock:
            self._stop()

    def settle(self) -> None:
        """Write the log into the file: what was deleted does not live on in it, and the file may be renamed."""
        with self._lock:
            keeps, self._keeps_log = self._keeps_log, False
            try:
                with self.write():
                    pass
            finally:
                self._keeps_log = keeps

    def move_aside(self, stamp: str) -> Path:
        """Rename a file that cannot be used, with its log, so that a new one can take its place."""
        self.close()
        aside = self.path.with_name(f"{self.path.name}.damaged-{stamp}")
        wal = self._wal_of(self.path)
        if wal.exists():
            wal.replace(self._wal_of(aside))
        self.path.replace(aside)
        return aside

    def replace_by(self, other: Path) -> None:
        """Put a finished index (closed, without a log) in the place of this one; readers see either."""
        from filelock import FileLock

        with self._lock, FileLock(self._writer_lock_path, timeout=self._wait_s, poll_interval=0.005):
            self._close_reader()
            self._wal_of(self.path).unlink(missing_ok=True)
            other.replace(self.path)

    def signature(self) -> tuple[int, int, int, int]:
        """Return what changes whenever somebody has written: inode, size and time of the file, size of its log."""
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            return (0, 0, 0, 0)
        with suppress(FileNotFoundError):
            return (facts.st_ino, facts.st_size, facts.st_mtime_ns, self._wal_of(self.path).stat().st_size)
        return (facts.st_ino, facts.st_size, facts.st_mtime_ns, 0)

    @property
    def _writer_lock_path(self) -> str:
        return f"{self.path}.writer"

    @staticmethod
    def _wal_of(path: Path) -> Path:
        return path.with_name(f"{path.name}.wal")

    def _writer_waits(self) -> bool:
        from filelock import FileLock, Timeout

        if not Path(self._writer_lock_path).exists():
            return False
        try:
            with FileLock(self._writer_lock_path, timeout=0):
                return False
        except (Timeout, OSError):
            return True

    def _open(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Open the file; wait while others hold it, 5 ms growing to 50 ms with jitter."""
        import duckdb

        deadline = time.monotonic() + self._wait_s
        pause = 0.005
        while True:
            try:
                return self._engine.attach(read_only=read_only)
            except duckdb.Error as error:
                if not _LOCKED.search(str(error)):
                    raise _as_store_error(error, self.path) from error
                if time.monotonic() >= deadline:
                    holder = _HOLDER.search(str(error))
                    who = f"process {holder[1]}" if holder else "another process"
                    raise IndexBusy(f"{self.path} is held by {who}; try again in a moment") from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(0.05, pause * 1.5)

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader = None
            self._engine.detach()

    def _stop(self) -> None:
        self._reader = None
        self._engine.stop()

    def _arm_timer(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(READER_KEEPS_S, self._on_timer)
            self._timer.daemon = True
            self._timer.start()

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = None
            if self._reader is None:
                return
            if time.monotonic() - self._read_at >= READER_KEEPS_S or self._writer_waits():
                self._close_reader()
            else:
                self._arm_timer()


def _close_at_exit(left: weakref.ref[Database]) -> None:
    """Close a reader before the interpreter ends: its timer's thread, back from DuckDB later, aborts the process."""
    if (database := left()) is not None:
        database.close()


def _is_damage(error: BaseException) -> bool:
    import duckdb

    kinds = (duckdb.InternalException, duckdb.FatalException, duckdb.SerializationException)
    return isinstance(error, kinds)


def _as_store_error(error: Exception, path: Path) -> StoreError:
    import duckdb

    if isinstance(error, duckdb.IOException) and _FULL.search(str(error)):
        return StoreError(f"{path}: the disk is full; free some space and index again")
    if isinstance(error, duckdb.IOException) and isinstance(error.__cause__, PermissionError):
        return StoreError(f"{path} cannot be opened; check its permissions")
    return IndexDamaged(f"{path} is not a usable index ({type(error).__name__})")


_databases: dict[str, Database] = {}
_databases_lock = threading.Lock()


def shared_database(path: Path) -> Database:
    """Return the one :class:`Database` of this process for a file: DuckDB refuses two kinds of connection at once."""
    key = os.path.realpath(path)
    with _databases_lock:
        return _databases.setdefault(key, Database(path))
