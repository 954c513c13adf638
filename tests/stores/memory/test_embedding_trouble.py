"""What embedders and their cache do wrong: it costs vectors, never words, and never a cache that was paid for."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from stores.memory import embedding_cache
from stores.memory.embedding_cache import EmbeddingCache
from stores.memory.index import MemoryIndex
from tests.stores.memory.conftest import Notes
from turngraph.errors import StoreError
from turngraph.models.embedders import HashEmbedder


class Named(HashEmbedder):
    """A model that keeps its name whatever it gives."""

    id = "named"


def _cache(index: MemoryIndex) -> EmbeddingCache:
    found = index.meaning.cache()
    assert found is not None
    return found


def test_other_dimensions_under_the_same_name_are_said_and_a_rebuild_takes_them(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    notes.index(Named(16)).sync(embed=True)
    index = notes.index(Named(32))
    result = index.search("walrus")
    assert (result.mode, len(result.hits)) == ("keyword", 1)
    assert "--force" in (result.rebuild or "")
    notes.write("memory/b.md", "another walrus")
    report = index.sync(embed=True)
    assert (report.embedded, report.pending) == (0, 1)
    assert "gives 32 dimensions now, the index holds 16" in (report.fallback or "")
    index.sync(force=True)
    with index.database.read() as connection:
        assert connection.execute("SELECT DISTINCT len(vector), count(*) FROM vectors GROUP BY 1").fetchall() == [
            (32, 2)
        ]
    assert index.search("walrus").mode == "hybrid"


def test_an_embedder_that_gives_too_few_vectors_is_a_reason(notes: Notes) -> None:
    class Short(HashEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            return super().embed_documents(texts)[:-1]

    notes.write("memory/a.md", "walrus")
    index = notes.index(Short(16))
    report = index.sync(embed=True)
    assert report.fallback is not None
    assert "gave 0 vectors for 1 texts" in report.fallback
    assert len(index.search("walrus").hits) == 1


def test_a_cache_that_another_process_holds_is_kept(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_cache, "_WAIT_S", 0.05)
    notes.write("memory/a.md", "walrus")
    index = notes.index(HashEmbedder(16))
    index.sync(embed=True)
    cache = _cache(index)
    with sqlite3.connect(cache.path, isolation_level=None) as holder:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        notes.write("memory/b.md", "another walrus")
        with pytest.raises(StoreError, match="try again later"):
            index.sync(embed=True)
        assert len(index.search("walrus").hits) == 2
        holder.execute("ROLLBACK")
        holder.execute("PRAGMA locking_mode = NORMAL")
        holder.execute("SELECT count(*) FROM embeddings").fetchall()
    holder.close()
    assert cache.count() == 1


def test_a_damaged_cache_is_moved_aside(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    index = notes.index(HashEmbedder(16))
    index.sync(embed=True)
    cache = _cache(index)
    for companion in ("-wal", "-shm"):
        cache.path.with_name(cache.path.name + companion).unlink(missing_ok=True)
    cache.path.write_bytes(b"no database " * 1000)
    assert "damaged" in index.status().problems[0]
    assert cache.path.with_name(f"{cache.path.name}.damaged").exists()
    notes.write("memory/b.md", "another walrus")
    assert index.sync(embed=True).embedded == 1
    assert index.status().problems == ()
