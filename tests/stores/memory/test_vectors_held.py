"""The vectors that a process holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stores.memory import vector
from stores.memory.database import Database
from tests.stores.memory.conftest import Notes
from turngraph.models.embedders import HashEmbedder


def test_vectors_are_held_in_the_order_of_their_chunks_after_files_changed(notes: Notes) -> None:
    for number in range(20):
        notes.write(f"memory/{number:02d}.md", f"note {number}")
    index = notes.index(HashEmbedder(8))
    index.sync(embed=True)
    with index.database.read() as connection:
        known = vector.load(connection, None)
    for number in (3, 11, 7):
        notes.write(f"memory/{number:02d}.md", f"another note {number}")
        index.sync(embed=True)
    with index.database.read() as connection:
        held, fresh = vector.load(connection, known), vector.load(connection, None)
        alive = {row[0] for row in connection.execute("SELECT chunk_id FROM chunks").fetchall()}
    assert held is not None
    assert fresh is not None
    assert (np.diff(held.ids) > 0).all()
    assert set(fresh.ids.tolist()) == alive <= set(held.ids.tolist())
    assert (held.matrix[np.isin(held.ids, fresh.ids)] == fresh.matrix).all()


def test_cosines_of_some_chunks_are_those_of_their_rows() -> None:
    matrix = np.eye(3, dtype=np.float32)
    vectors = vector.Vectors(np.array([2, 5, 9], dtype=np.int32), matrix)
    found = vector.cosines_of(vectors, np.array([0.0, 0.6, 0.8], dtype=np.float32), [9, 4, 5, 100])
    assert found == {9: pytest.approx(0.8), 5: pytest.approx(0.6)}


def test_vectors_of_another_length_have_no_cosine() -> None:
    vectors = vector.Vectors(np.array([1], dtype=np.int32), np.ones((1, 3), dtype=np.float32))
    assert vector.cosines_of(vectors, np.ones(4, dtype=np.float32), [1]) == {}


def _stored(path: Path, count: int) -> Database:
    """An index of ``count`` chunks with vectors, every seventh of them unusable."""
    database = Database(path)
    source = np.random.default_rng(1)
    with database.write() as connection:
        connection.execute(
            f"INSERT INTO chunks SELECT range, 0, 1, 1, 1, 'h' || range, 'owner', NULL, 'text' FROM range({count:d})"
        )
        units = [vector.usable(raw, 4) for raw in source.standard_normal((count, 4))]
        rows = [(number, None if number % 7 == 0 else unit) for number, unit in enumerate(units)]
        vector.write_vectors(connection, "made-up", 4, rows)
    return database


@pytest.mark.parametrize("count", [8, 12_000])
def test_few_vectors_and_many_are_read_alike(tmp_path: Path, count: int) -> None:
    database = _stored(tmp_path / "index.duckdb", count)
    with database.read() as connection:
        held = vector.load(connection, None)
        stored = dict(connection.execute("SELECT chunk_id, vector FROM vectors").fetchall())
    database.close()
    assert held is not None
    assert held.ids.tolist() == [number for number in range(count) if number % 7]
    for row in (0, len(held.ids) // 2, len(held.ids) - 1):
        assert held.matrix[row].tolist() == list(stored[int(held.ids[row])])


def test_a_sidecar_gives_back_what_was_saved(tmp_path: Path) -> None:
    ids = np.arange(0, 30_000, 3, dtype=np.int32)
    saved = vector.Vectors(ids, np.random.default_rng(2).standard_normal((len(ids), 4), dtype=np.float32))
    vector.save_sidecar(tmp_path / "vectors.npy", saved)
    mapped = vector.load_sidecar(tmp_path / "vectors.npy")
    assert mapped is not None
    assert (mapped.ids == saved.ids).all()
    assert (mapped.matrix == saved.matrix).all()


def test_equally_near_chunks_come_in_the_order_of_their_ids() -> None:
    vectors = vector.Vectors(np.arange(50, dtype=np.int32), np.ones((50, 1), dtype=np.float32))
    allowed = np.arange(50) != 1
    ids, _ = vector.nearest(vectors, np.ones(1, dtype=np.float32), allowed, 3)
    assert ids.tolist() == [0, 2, 3]
