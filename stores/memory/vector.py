"""Vectors of chunks: made safe, stored in DuckDB, multiplied in numpy.

All stored vectors have length 1 and come from one model; a text whose vector is unusable has a row without one, so
that it is not asked for again and never ranks.
Source: spec/stack.md 3, spec/memory.md 3.8, known-faults 7.8 and 7.14.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stores.memory import writing

if TYPE_CHECKING:
    import duckdb

MIN_NORM = 1e-10  # spec/memory.md 3.8
_MANY = 500  # vectors; so many are read faster with all others than one by one
_BATCH_ROWS = 8_192
_SIDECAR_FROM = 2_000  # vectors; below this reading them from the index takes a few milliseconds

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of an index in memory.

    Attributes:
        ids: ``int32[n]``, chunk ids, ascending.
        matrix: ``float32[n, dim]``, rows of length 1.
    """

    ids: NDArray[np.int32]
    matrix: Floats


def sanitized(vector: Any) -> NDArray[np.float64]:
    """Return a vector of length 1 with what is not finite taken as 0; a zero vector stays zero."""
    clean = np.asarray(vector, dtype=np.float64)
    clean = np.where(np.isfinite(clean), clean, 0.0)
    norm = float(np.linalg.norm(clean))
    return clean / norm if norm >= MIN_NORM else clean


def usable(raw: Any, dimensions: int | None) -> Floats | None:
    """Return an embedder's vector at length 1, or ``None`` when it holds no direction: NaN, zero, other length."""
    try:
        vector = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if vector.ndim != 1 or (dimensions is not None and len(vector) != dimensions) or not np.isfinite(vector).all():
        return None
    norm = float(np.linalg.norm(vector))
    return (vector / norm).astype(np.float32) if norm >= MIN_NORM else None


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 for a zero vector and for vectors of different length."""
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    norms = float(np.linalg.norm(first) * np.linalg.norm(second))
    if first.shape != second.shape or norms == 0 or not np.isfinite(norms):
        return 0.0
    return float(first @ second / norms)


def write_vectors(
    connection: duckdb.DuckDBPyConnection, model: str, dimensions: int, rows: Sequence[tuple[int, Floats | None]]
) -> None:
    """Store vectors of chunks that still exist; another model's vectors go first."""
    import pyarrow as pa

    stored = writing.meta(connection)
    if (stored.get("model"), stored.get("dimensions")) != (model, str(dimensions)):
        connection.execute("DROP TABLE IF EXISTS vectors")
        connection.execute(f"CREATE TABLE vectors (chunk_id INTEGER NOT NULL, vector FLOAT[{dimensions:d}])")
        writing.set_meta(connection, model=model, dimensions=dimensions)
    ids = [chunk_id for chunk_id, _ in rows]
    nothing = np.zeros(dimensions, dtype=np.float32)
    flat = np.concatenate([nothing if vector is None else vector for _, vector in rows] or [nothing[:0]])
    unusable = pa.array([vector is None for _, vector in rows], pa.bool_())
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), dimensions, mask=unusable)
    arrow = pa.table({"chunk_id": pa.array(ids, pa.int32()), "vector": vectors})
    connection.register("arrow_rows", arrow)
    connection.execute("DELETE FROM vectors WHERE chunk_id IN (SELECT chunk_id FROM arrow_rows)")
    connection.execute(
        "INSERT INTO vectors SELECT chunk_id, vector FROM arrow_rows WHERE chunk_id IN (SELECT chunk_id FROM chunks)"
    )
    connection.unregister("arrow_rows")
    writing.touch(connection)


def stored_dimensions(connection: duckdb.DuckDBPyConnection, model: str) -> int | None:
    """Return the dimensions of the stored vectors when they are of this model."""
    stored = writing.meta(connection)
    return int(stored["dimensions"]) if stored.get("model") == model and "dimensions" in stored else None


def pending(connection: duckdb.DuckDBPyConnection, model: str, limit: int) -> list[tuple[int, str, str]]:
    """Return (chunk id, hash, text) of chunks without a vector of this model, oldest first."""
    known = "chunk_id NOT IN (SELECT chunk_id FROM vectors)" if _is_current(connection, model) else "true"
    # The ids first: a file just opened would read every text there is to find the first without a vector.
    wanted = f"SELECT chunk_id FROM chunks WHERE {known} ORDER BY chunk_id LIMIT {limit:d}"
    rows: list[tuple[int, str, str]] = connection.execute(
        f"SELECT chunk_id, hash, text FROM chunks WHERE chunk_id IN ({wanted}) ORDER BY chunk_id"
    ).fetchall()
    return rows


def pending_count(connection: duckdb.DuckDBPyConnection, model: str) -> int:
    """Return how many chunks have no vector of this model."""
    known = "chunk_id NOT IN (SELECT chunk_id FROM vectors)" if _is_current(connection, model) else "true"
    row = connection.execute(f"SELECT count(*) FROM chunks WHERE {known}").fetchone()
    return int(row[0]) if row else 0


def _is_current(connection: duckdb.DuckDBPyConnection, model: str) -> bool:
    return writing.has_vectors(connection) and writing.meta(connection).get("model") == model


def load(connection: duckdb.DuckDBPyConnection, known: Vectors | None) -> Vectors | None:
    """Read vectors; those that ``known`` has are not read again. ``None`` when the index holds none.

    ``known`` must be of the same index and model.
    """
    if not writing.has_vectors(connection):
        return None
    stored = connection.execute("SELECT chunk_id FROM vectors WHERE vector IS NOT NULL").fetchnumpy()["chunk_id"]
    if known is None:
        known = Vectors(np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.float32))
    missing = np.setdiff1d(stored, known.ids)
    if len(missing):
        if len(missing) > _MANY:
            return _ascending(_read_all(connection, len(stored)))
        where = f"chunk_id IN ({','.join(map(str, missing))})"
        new = connection.execute(f"SELECT chunk_id, vector FROM vectors WHERE {where}").fetchnumpy()
        fresh = Vectors(new["chunk_id"].astype(np.int32), np.array(list(new["vector"]), dtype=np.float32))
        if not len(known.ids):
            return _ascending(fresh)
        known = Vectors(np.concatenate([known.ids, fresh.ids]), np.concatenate([known.matrix, fresh.matrix]))
    return _ascending(known)


def _read_all(connection: duckdb.DuckDBPyConnection, count: int) -> Vectors:
    """Read all vectors, a batch at a time: the matrix is what a process keeps, and most of what it needs for this."""
    ids, matrix = np.empty(count, dtype=np.int32), np.empty((0, 0), dtype=np.float32)
    at = 0
    rows = connection.execute("SELECT chunk_id, vector FROM vectors WHERE vector IS NOT NULL")
    for batch in rows.to_arrow_reader(_BATCH_ROWS):
        new = batch.column("vector").flatten().to_numpy().reshape(len(batch), -1)
        if not at:
            matrix = np.empty((count, new.shape[1]), dtype=np.float32)
        end = at + len(batch)
        ids[at:end], matrix[at:end] = batch.column("chunk_id").to_numpy(), new
        at = end
    return Vectors(ids, matrix)


def _ascending(vectors: Vectors) -> Vectors:
    """Return vectors in the order of their ids, which is the order in which they are made unless a file changed."""
    if (np.diff(vectors.ids) > 0).all():
        return vectors
    order = np.argsort(vectors.ids)
    return Vectors(vectors.ids[order], vectors.matrix[order])


def nearest(
    vectors: Vectors, query: Floats, allowed: NDArray[np.bool_], limit: int
) -> tuple[NDArray[np.int32], Floats]:
    """Return ids and cosines of the nearest allowed chunks, best first; ties by id.

    Args:
        vectors: all vectors of the index.
        query: ``float32[dim]`` of length 1.
        allowed: ``bool[n]`` by chunk id: alive and of a wanted source and scope. Filtered before the limit.
        limit: how many.
    """
    keep = np.flatnonzero(allowed[vectors.ids])
    if vectors.matrix.shape[1] != len(query) or not len(keep):
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float32)
    # Picking rows first would copy the matrix; a product of all rows is cheaper unless few are allowed.
    scores = (vectors.matrix @ query)[keep]
    if len(keep) > limit:
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        top = np.flatnonzero(scores >= least)
        keep, scores = keep[top], scores[top]
    order = np.argsort(-scores, kind="stable")[:limit]
    return vectors.ids[keep][order], scores[order]


def cosines_of(vectors: Vectors, query: Floats, ids: Sequence[int]) -> dict[int, float]:
    """Return the cosine of given chunks, where they have a vector."""
    if vectors.matrix.shape[1] != len(query) or not len(vectors.ids):
        return {}
    wanted = np.array(ids, dtype=vectors.ids.dtype)
    rows = np.minimum(np.searchsorted(vectors.ids, wanted), len(vectors.ids) - 1)
    rows = rows[vectors.ids[rows] == wanted]
    return dict(zip(vectors.ids[rows].tolist(), (vectors.matrix[rows] @ query).tolist(), strict=True))


def save_sidecar(path: Path, vectors: Vectors) -> None:
    """Write vectors to a file that the next process maps instead of reading them row by row."""
    if len(vectors.ids) < _SIDECAR_FROM:
        return
    kind = np.dtype([("id", "<i4"), ("vector", "<f4", (vectors.matrix.shape[1],))])
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": vectors.ids.shape}
    unfinished = path.with_name(f"{path.name}.tmp")
    with suppress(OSError):  # an accelerator: without it the vectors are read from the index
        with unfinished.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for start in range(0, len(vectors.ids), _BATCH_ROWS):
                part = slice(start, start + _BATCH_ROWS)
                rows = np.empty(len(vectors.ids[part]), dtype=kind)
                rows["id"], rows["vector"] = vectors.ids[part], vectors.matrix[part]
                stream.write(rows.tobytes())
        unfinished.replace(path)


def load_sidecar(path: Path) -> Vectors | None:
    """Map the file of :func:`save_sidecar`; ``None`` when there is none or it is damaged."""
    try:
        rows = np.load(path, mmap_mode="r")
        return Vectors(np.array(rows["id"]), rows["vector"])
    except (OSError, ValueError, IndexError):
        return None
