"""The vectors that a process holds."""

from __future__ import annotations

import numpy as np
import pytest

from stores.memory import vector
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
