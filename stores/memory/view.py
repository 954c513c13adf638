"""IndexView: the index as this process knows it, read again only after somebody has written.

Source: spec/stack.md 2 and 4.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stores.memory.database import Database, shared_database
from stores.memory.tombstones import Forgotten, Tombstones

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from stores.memory.snapshot import Snapshot
    from stores.memory.sync import Facts

_Signature = tuple[int, int, int, int]


class IndexView:
    """The last known snapshot of an index file, shared by keeping in step, searching and status."""

    def __init__(self, index: Path) -> None:
        self.database: Database = shared_database(index)
        self.tombstones = Tombstones(index)
        self._snapshot: Snapshot | None = None
        self._read_by: object = None
        self._signature: _Signature | None = None
        self._lock = threading.RLock()

    def snapshot(self, connection: duckdb.DuckDBPyConnection | None = None) -> Snapshot:
        """Return the snapshot; without a connection the file is opened only when it is not the one read last.

        Raises:
            IndexBusy, IndexDamaged: as :meth:`Database.read`.
        """
        from stores.memory.snapshot import load_snapshot

        if connection is None:
            with self._lock:
                if self._snapshot is not None and self._signature == self.database.signature():
                    return self._snapshot
            # Not inside the lock: a thread that reads has the file first, and then asks for the snapshot.
            with self.database.read() as opened:
                return self.snapshot(opened)
        with self._lock:
            # Nobody can write while a reader holds the file: the same connection has the same content.
            if self._snapshot is None or self._read_by is not connection:
                self._snapshot = load_snapshot(connection, self._snapshot)
                self._read_by = connection
                self._signature = self.database.signature()
            return self._snapshot

    @contextmanager
    def write(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open a transaction as :meth:`Database.write`, and know its result without opening the file once more."""
        from stores.memory.snapshot import load_snapshot

        written: list[Snapshot] = []

        def note() -> None:
            with self._lock:
                self._snapshot, self._read_by, self._signature = written[0], None, self.database.signature()

        with self.database.write(closed=note) as connection:
            yield connection
            written.append(load_snapshot(connection, self._snapshot))

    def forget_snapshot(self) -> None:
        """Read everything again next time: another file has taken the place of the index."""
        with self._lock:
            self._snapshot = None

    @property
    def facts(self) -> Facts:
        """What is indexed, as a sync plan wants it."""
        return self.snapshot().facts() if self.database.exists else {}

    @property
    def indexed_bytes(self) -> int:
        """Bytes of the files that are indexed."""
        return sum(row.size for row in self.snapshot().files.values())

    @property
    def forgotten(self) -> Forgotten:
        """What must not come back."""
        return self.tombstones.read()
