"""Engine: DuckDB, started once, to which an index file is attached for as long as it is used.

Starting it costs 15 ms of CPU (its catalogue of functions), attaching and checking a file one.
Source: spec/stack.md 1 and 4.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory.schema import SCHEMA_VERSION, TABLES, quoted
from turngraph.errors import StoreError

if TYPE_CHECKING:
    import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # No extension is needed and none is ever fetched: known-faults 14.1.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "threads": "1",
    "checkpoint_threshold": "1MB",
}
_NAME = "memory_index"


class IndexDamaged(StoreError):
    """The file is no index of this version; it must be moved aside and rebuilt."""


class Engine:
    """Opens one index file, again and again; not for several threads at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._duckdb: duckdb.DuckDBPyConnection | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def attach(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        """Open the file and return a connection that knows its tables; a writer creates what is missing.

        Raises:
            duckdb.Error: the file is held by another process, or is no database.
            IndexDamaged: it is a database, but no index of this version.
        """
        import duckdb

        if self._duckdb is None:
            # What does not fit into memory goes beside the index, not into the working folder.
            config = {**_CONFIG, "temp_directory": f"{self._path}.tmp"}
            self._duckdb = duckdb.connect(":memory:", config=config)
        kind = "READ_ONLY" if read_only else "READ_WRITE"
        # A file that is held is asked for again and again: only what goes wrong behind this ends the engine.
        self._duckdb.execute(f"ATTACH {quoted(str(self._path))} AS {_NAME} ({kind})")
        self._connection = connection = self._duckdb.cursor()
        try:
            connection.execute(f"USE {_NAME}")
            _check(connection, self._path, create=not read_only)
        except BaseException:
            self.stop()
            raise
        return connection

    def detach(self) -> None:
        """Let go of the file."""
        if self._duckdb is not None and self._connection is not None:
            self._connection.close()
            self._connection = None
            self._duckdb.execute(f"DETACH {_NAME}")

    def stop(self) -> None:
        """Let go of everything: after an error nothing of what was opened is used again."""
        for opened in (self._connection, self._duckdb):
            if opened is not None:
                opened.close()
        self._connection = self._duckdb = None


def _check(connection: duckdb.DuckDBPyConnection, path: Path, *, create: bool) -> None:
    """Make sure that this is an index of this version; create the tables in an empty file."""
    import duckdb

    try:
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    except duckdb.CatalogException:
        if create and connection.execute("SELECT 1 FROM duckdb_tables()").fetchone() is None:
            _create(connection)
            return
        row = None
    if row is None or row[0] != str(SCHEMA_VERSION):
        found = row[0] if row else "none"
        raise IndexDamaged(f"{path} has index version {found}, wanted {SCHEMA_VERSION}")


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("BEGIN")
    for statement in TABLES:
        connection.execute(statement)
    # The epoch tells files apart that were rebuilt: their chunk ids start again.
    connection.execute(
        "INSERT INTO meta VALUES ('schema', ?), ('generation', '0'), ('epoch', ?)",
        [str(SCHEMA_VERSION), uuid.uuid4().hex[:8]],
    )
    connection.execute("COMMIT")
