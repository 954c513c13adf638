"""Embeddings by model and text, kept beside the index so that no rebuild and no restart asks for them twice.

SQLite and not DuckDB: several processes put single rows here, with no other relation to the index.
Source: spec/memory.md 3.7, known-faults 7.9.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from turngraph.errors import StoreError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LOOKUP = 400  # keys of one query: spec/memory.md 3.7
_WAIT_S = 5.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS embeddings (model TEXT NOT NULL, hash TEXT NOT NULL, vector BLOB NOT NULL,"
    " written_ms INTEGER NOT NULL, PRIMARY KEY (model, hash)) WITHOUT ROWID"
)


class EmbeddingCache:
    """A file of embeddings; everything in it can be computed again, but that may cost money.

    All methods raise ``StoreError`` when the file is busy, cannot be written, or is damaged; a damaged one is moved
    aside, so that the next call starts a new one.
    """

    def __init__(self, path: Path, max_entries: int | None = None) -> None:
        self.path = path
        self._max_entries = max_entries
        self._lock = threading.Lock()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._lock:
            try:
                with closing(self._connect()) as connection, connection:
                    yield connection
            except sqlite3.OperationalError as error:
                raise StoreError(f"{self.path} cannot be used now ({error}); try again later") from error
            except sqlite3.DatabaseError as error:
                aside = self._move_aside()
                raise StoreError(f"{self.path} was damaged and is kept as {aside}; run the command again") from error

    def _move_aside(self) -> str:
        for companion in ("-wal", "-shm"):
            self.path.with_name(f"{self.path.name}{companion}").unlink(missing_ok=True)
        return self.path.replace(self.path.with_name(f"{self.path.name}.damaged")).name

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_WAIT_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def get(self, model: str, hashes: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the known vectors of texts by their SHA-256, ``float32[dim]`` each."""
        import numpy as np

        if not self.path.exists() or not hashes:
            return {}
        found: dict[str, NDArray[np.float32]] = {}
        with self._open() as connection:
            for start in range(0, len(hashes), _LOOKUP):
                keys = hashes[start : start + _LOOKUP]
                marks = ",".join("?" * len(keys))
                rows = connection.execute(
                    f"SELECT hash, vector FROM embeddings WHERE model = ? AND hash IN ({marks})", (model, *keys)
                )
                found.update((key, np.frombuffer(vector, dtype=np.float32)) for key, vector in rows if vector)
        return found

    def put(self, model: str, vectors: Iterable[tuple[str, NDArray[np.float32]]], now_ms: int) -> None:
        """Keep vectors; the oldest written go when there are more than the limit."""
        rows = [(model, key, vector.tobytes(), now_ms) for key, vector in vectors]
        if not rows:
            return
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?, ?)", rows)
            if self._max_entries:
                connection.execute(
                    "DELETE FROM embeddings WHERE (model, hash) IN (SELECT model, hash FROM embeddings"
                    " ORDER BY written_ms DESC, hash LIMIT -1 OFFSET ?)",
                    (self._max_entries,),
                )

    def forget(self, hashes: Iterable[str]) -> int:
        """Drop the vectors of texts, of every model; return how many went."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            before = connection.total_changes
            connection.executemany("DELETE FROM embeddings WHERE hash = ?", [(key,) for key in hashes])
            return connection.total_changes - before

    def count(self) -> int:
        """Return how many vectors are kept."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            return int(connection.execute("SELECT count(*) FROM embeddings").fetchone()[0])
