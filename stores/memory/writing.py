"""Change rows of the index, inside a transaction that the caller opened.

One changed file costs its own rows; postings that are gone in ``chunks`` are dropped when they are read.
Source: spec/stack.md 2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stores.memory.postings import PostingLists, group
from stores.memory.prepare import PreparedFile
from stores.memory.schema import quoted

if TYPE_CHECKING:
    import duckdb

FOLD_DELTA_ROWS = 100_000  # spec/stack.md 2
FOLD_DEAD_SHARE = 0.1
FOLD_DEAD_CHUNKS = 100  # fewer dead ones cost a search nothing
_ARROW_FROM_ROWS = 2_000  # below this the import of pyarrow costs more than it saves

_FILE_COLUMNS = {
    "file_id": "INTEGER",
    "source": "VARCHAR",
    "path": "VARCHAR",
    "scope": "VARCHAR",
    "session_kind": "VARCHAR",
    "hash": "VARCHAR",
    "size": "BIGINT",
    "mtime_ns": "BIGINT",
    "read_ns": "BIGINT",
    "chunks": "INTEGER",
}
_CHUNK_COLUMNS = {
    "chunk_id": "INTEGER",
    "file_id": "INTEGER",
    "start_line": "INTEGER",
    "end_line": "INTEGER",
    "length": "INTEGER",
    "hash": "VARCHAR",
    "origin": "VARCHAR",
    "observed_ms": "BIGINT",
    "text": "VARCHAR",
}


def replace_files(
    connection: duckdb.DuckDBPyConnection, files: Sequence[PreparedFile], removed: Iterable[tuple[str, str]] = ()
) -> int:
    """Put the rows of ``files`` in the place of what stood under their paths, and drop ``removed`` (source, path).

    Returns:
        The number of chunks written. They can be searched as soon as the transaction ends.
    """
    gone = [*removed, *((file.facts.source, file.facts.path) for file in files)]
    drop_files(connection, gone)
    stored = meta(connection)
    first = chunk_id = int(stored.get("next_chunk", "0"))
    rows: list[tuple[Any, ...]] = []
    delta: tuple[list[str], list[int], list[int]] = ([], [], [])
    file_rows = []
    file_id = int(stored.get("next_file", "0"))
    for file in files:
        file_rows.append(file_row(file_id, file))
        for chunk in file.chunks:
            rows.append(chunk_row(chunk_id, file_id, chunk))
            delta[0].extend(chunk.terms)
            delta[1].extend([chunk_id] * len(chunk.terms))
            delta[2].extend(chunk.terms.values())
            chunk_id += 1
        file_id += 1
    insert(connection, "files", _FILE_COLUMNS, file_rows)
    insert(connection, "chunks", _CHUNK_COLUMNS, rows)
    _insert_delta(connection, *delta)
    generation = int(stored.get("generation", "0")) + 1
    set_meta(connection, next_chunk=chunk_id, next_file=file_id, generation=generation)
    return chunk_id - first


def file_row(file_id: int, file: PreparedFile) -> tuple[Any, ...]:
    """Return a row of ``files``."""
    f = file.facts
    numbers = (f.size, f.mtime_ns, f.read_ns, len(file.chunks))
    return (file_id, f.source, f.path, f.scope, f.session_kind, f.hash, *numbers)


def chunk_row(chunk_id: int, file_id: int, chunk: Any) -> tuple[Any, ...]:
    """Return a row of ``chunks``."""
    lines = (chunk.start_line, chunk.end_line, chunk.length)
    return (chunk_id, file_id, *lines, chunk.hash, chunk.origin, chunk.observed_ms, chunk.text)


def insert_bulk(connection: duckdb.DuckDBPyConnection, file_rows: list[Any], chunk_rows: list[Any]) -> None:
    """Insert rows of many files into an index that nobody else sees yet."""
    insert(connection, "files", _FILE_COLUMNS, file_rows)
    insert(connection, "chunks", _CHUNK_COLUMNS, chunk_rows)


def drop_files(connection: duckdb.DuckDBPyConnection, paths: Sequence[tuple[str, str]]) -> int:
    """Delete file, chunk, vector and unfolded keyword rows of (source, path) pairs; return how many files went."""
    ids = file_ids(connection, paths)
    if not ids:
        return 0
    marks = ",".join(map(str, ids))
    dead = f"SELECT chunk_id FROM chunks WHERE file_id IN ({marks})"
    connection.execute(f"DELETE FROM delta WHERE chunk_id IN ({dead})")
    if has_vectors(connection):
        connection.execute(f"DELETE FROM vectors WHERE chunk_id IN ({dead})")
    connection.execute(f"DELETE FROM chunks WHERE file_id IN ({marks})")
    connection.execute(f"DELETE FROM files WHERE file_id IN ({marks})")
    return len(ids)


def file_ids(connection: duckdb.DuckDBPyConnection, paths: Sequence[tuple[str, str]]) -> list[int]:
    """Return the ids of (source, path) pairs that are indexed."""
    if not paths:
        return []
    rows = connection.execute(
        "SELECT file_id FROM files WHERE source || chr(10) || path IN (SELECT unnest(string_split(?, chr(0))))",
        ["\0".join(f"{source}\n{path}" for source, path in paths)],
    ).fetchall()
    return [row[0] for row in rows]


def mark_read(connection: duckdb.DuckDBPyConnection, seen: Iterable[tuple[str, str, int, int, int]]) -> None:
    """Store new size and times of files whose text did not change: (source, path, size, mtime_ns, read_ns)."""
    columns = ("source", "path", "size", "mtime_ns", "read_ns")
    rows = [dict(zip(columns, row, strict=True)) for row in seen]
    if rows:
        shape = '[{"source":"VARCHAR","path":"VARCHAR","size":"BIGINT","mtime_ns":"BIGINT","read_ns":"BIGINT"}]'
        connection.execute(
            "UPDATE files SET size = r.size, mtime_ns = r.mtime_ns, read_ns = r.read_ns"
            f" FROM (SELECT unnest(from_json(?, '{shape}'), recursive := true)) AS r"
            " WHERE files.source = r.source AND files.path = r.path",
            [json.dumps(rows)],
        )


def has_vectors(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the index holds embeddings of some model: their dimensions are noted when the table is made."""
    return connection.execute("SELECT value FROM meta WHERE key = 'dimensions'").fetchone() is not None


def meta(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the meta record."""
    return dict(connection.execute("SELECT key, value FROM meta").fetchall())


def set_meta(connection: duckdb.DuckDBPyConnection, **values: object) -> None:
    """Store values of the meta record."""
    rows = ", ".join(f"({quoted(key)}, {quoted(str(value))})" for key, value in values.items())
    connection.execute(f"INSERT OR REPLACE INTO meta VALUES {rows}")


def touch(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise the generation, which tells every process that its cached arrays are old."""
    set_meta(connection, generation=int(meta(connection).get("generation", "0")) + 1)


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows of one table; ``columns`` are names with their types.

    Few rows go as one JSON parameter: every parameter costs DuckDB a vain look for pandas (0.3 ms), so that
    ``executemany`` with 2,000 rows takes seconds.
    """
    if not rows:
        return
    names = ", ".join(columns)
    if len(rows) < _ARROW_FROM_ROWS:
        import orjson

        shape = json.dumps([columns])
        values = orjson.dumps([dict(zip(columns, row, strict=True)) for row in rows]).decode()
        fields = ", ".join(f"r.{name}" for name in columns)
        statement = f"INSERT INTO {table} ({names}) SELECT {fields} FROM (SELECT unnest(from_json(?, '{shape}')) AS r)"
        connection.execute(statement, [values])
        return
    import pyarrow as pa

    arrow = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    connection.register("arrow_rows", arrow)
    connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM arrow_rows")
    connection.unregister("arrow_rows")


def _insert_delta(connection: duckdb.DuckDBPyConnection, terms: list[str], ids: list[int], times: list[int]) -> None:
    # Three text parameters are split by DuckDB: 4 ms for 1,000 rows, where lists as parameters cost 150 ms.
    if terms:
        connection.execute(
            "INSERT INTO delta SELECT unnest(string_split(?, chr(10))), unnest(string_split(?, ','))::INTEGER,"
            " least(unnest(string_split(?, ','))::INTEGER, 32767)::SMALLINT",
            ["\n".join(terms), ",".join(map(str, ids)), ",".join(map(str, times))],
        )


def write_segment(connection: duckdb.DuckDBPyConnection, lists: PostingLists) -> None:
    """Put posting lists in the place of the segment and of the delta."""
    import pyarrow as pa

    arrow = pa.table(
        {
            "term": pa.array(lists.vocabulary, pa.string()),
            "ids": pa.ListArray.from_arrays(pa.array(lists.offsets), pa.array(lists.ids)),
            "frequencies": pa.ListArray.from_arrays(pa.array(lists.offsets), pa.array(lists.frequencies)),
        }
    )
    connection.register("arrow_rows", arrow)
    connection.execute("DROP TABLE segment")
    connection.execute(
        "CREATE TABLE segment (term VARCHAR PRIMARY KEY, ids INTEGER[] NOT NULL, frequencies SMALLINT[] NOT NULL)"
    )
    connection.execute("INSERT INTO segment SELECT term, ids, frequencies FROM arrow_rows WHERE len(ids) > 0")
    connection.unregister("arrow_rows")
    connection.execute("DELETE FROM delta")


def fold_is_due(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether delta or dead chunks have grown so far that every search pays for them."""
    stored = meta(connection)
    below = int(stored.get("folded_below", "0"))
    counts = connection.execute(
        "SELECT (SELECT count(*) FROM delta), count(*), count(*) FILTER (WHERE chunk_id < ?) FROM chunks", [below]
    ).fetchone()
    delta, alive, still_there = counts or (0, 0, 0)
    dead = int(stored.get("folded_chunks", "0")) - still_there
    return bool(delta > FOLD_DELTA_ROWS or dead > max(FOLD_DEAD_SHARE * alive, FOLD_DEAD_CHUNKS))


def fold(connection: duckdb.DuckDBPyConnection) -> None:
    """Merge the delta into the segment and drop what names dead chunks."""
    segment = connection.execute("SELECT term, ids, frequencies FROM segment").to_arrow_table().combine_chunks()
    vocabulary: list[str] = segment["term"].to_pylist()
    ids_lists = segment["ids"].combine_chunks()
    sizes = np.diff(ids_lists.offsets.to_numpy()) if len(vocabulary) else np.zeros(0, dtype=np.int32)
    terms = np.repeat(np.arange(len(vocabulary), dtype=np.int32), sizes)
    ids = ids_lists.flatten().to_numpy() if len(vocabulary) else np.zeros(0, dtype=np.int32)
    times = segment["frequencies"].combine_chunks().flatten().to_numpy() if len(vocabulary) else ids.astype(np.int16)
    numbers = {term: number for number, term in enumerate(vocabulary)}
    new = connection.execute("SELECT term, chunk_id, frequency FROM delta ORDER BY chunk_id").fetchnumpy()
    new_terms = np.array([numbers.setdefault(term, len(numbers)) for term in new["term"]], dtype=np.int32)
    terms = np.concatenate([terms, new_terms])
    ids = np.concatenate([ids, new["chunk_id"].astype(np.int32)])
    times = np.concatenate([times, new["frequency"].astype(np.int16)])
    alive = connection.execute("SELECT chunk_id FROM chunks ORDER BY chunk_id").fetchnumpy()["chunk_id"]
    keep = np.isin(ids, alive, assume_unique=False)
    write_segment(connection, group(list(numbers), terms[keep], ids[keep], times[keep]))
    mark_folded(connection, len(alive), int(meta(connection).get("next_chunk", "0")))
    touch(connection)


def mark_folded(connection: duckdb.DuckDBPyConnection, chunks: int, below: int) -> None:
    """Note that the segment holds ``chunks`` chunks, all with ids under ``below``."""
    set_meta(connection, folded_chunks=chunks, folded_below=below)


def facts_by_path(connection: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], tuple[str, int, int, int, int]]:
    """Return (hash, size, mtime_ns, read_ns, chunks) of every indexed file by (source, path)."""
    rows = connection.execute("SELECT source, path, hash, size, mtime_ns, read_ns, chunks FROM files").fetchall()
    return {(row[0], row[1]): row[2:] for row in rows}
