"""Forgetting: what goes, what stays, and that it does not come back (design decision 14)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stores.memory import vector
from tests.stores.memory.conftest import Notes
from tests.stores.memory.test_sessions_source import SOURCES, Transcripts
from turngraph.errors import NotFound
from turngraph.models.embedders import HashEmbedder

Paths = Callable[..., list[str]]
ARCHIVE = "s1.jsonl.reset.2026-05-01T10-00-00.000Z"


@pytest.fixture
def transcripts(notes: Notes) -> Transcripts:
    return Transcripts(notes)


def _bytes_beside(index: Any) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(index.places.index.parent.iterdir()) if file.is_file())


def test_a_forgotten_session_stays_away_when_it_is_archived(
    notes: Notes, transcripts: Transcripts, paths_of: Paths
) -> None:
    live = transcripts.write("s1", ("user", "the walrus arrived"))
    transcripts.write("s12", ("user", "another walrus"))
    transcripts.write("s1", ("user", "a walrus of a topic"), name="s1-topic-7.jsonl")
    index = notes.index(**SOURCES)
    index.sync()
    index.forget(session="s1", confirmed=True)
    live.rename(live.with_name(ARCHIVE))
    assert paths_of(index, "walrus") == ["sessions/s12.jsonl"]
    index.sync(force=True)
    assert paths_of(index, "walrus") == ["sessions/s12.jsonl"]


def test_one_archive_goes_alone(notes: Notes, transcripts: Transcripts, paths_of: Paths) -> None:
    transcripts.write("s1", ("user", "the new walrus"))
    transcripts.write("s1", ("user", "the old walrus"), name=ARCHIVE)
    index = notes.index(**SOURCES)
    index.forget(path=f"sessions/{ARCHIVE}", confirmed=True)
    index.sync(force=True)
    assert paths_of(index, "walrus") == ["sessions/s1.jsonl"]


@pytest.mark.parametrize("loss", ["deleted", "damaged"])
def test_what_was_forgotten_outlives_the_index(
    notes: Notes, transcripts: Transcripts, paths_of: Paths, loss: str
) -> None:
    transcripts.write("s1", ("user", "the walrus arrived"))
    notes.write("memory/a.md", "a walrus in a note")
    index = notes.index(**SOURCES)
    index.forget(session="s1", confirmed=True)
    index.forget(path="memory/a.md", confirmed=True)
    index.close()
    file = index.places.index
    if loss == "deleted":
        file.unlink()
        Path(f"{file}.wal").unlink(missing_ok=True)
    else:
        file.write_bytes(b"\0" * 4096)
    again = notes.index(**SOURCES)
    assert paths_of(again, "walrus") == []
    assert again.status().forgotten == 2


def test_a_session_that_was_never_indexed_is_forgotten_in_advance(
    notes: Notes, transcripts: Transcripts, paths_of: Paths
) -> None:
    transcripts.write("s1", ("user", "the walrus\n\narrived at the old harbour"))
    report = notes.index().forget(session="s1", confirmed=True)
    assert "the walrus\n\narrived at the old harbour" in report.texts
    assert report.paths == (("sessions/s1.jsonl", 0),)
    assert paths_of(notes.index(**SOURCES), "walrus") == []
    with pytest.raises(NotFound, match="s9"):
        notes.index().forget(session="s9")


def test_a_dry_run_names_what_would_be_deleted_and_changes_nothing(notes: Notes, paths_of: Paths) -> None:
    note = notes.write("memory/a.md", "a walrus in a note")
    index = notes.index()
    report = index.forget(path="memory/a.md", delete=True)
    assert (report.done, report.deleted) == (False, ("memory/a.md",))
    assert note.exists()
    assert paths_of(index, "walrus") == ["memory/a.md"]
    assert index.forget(path="memory/a.md", delete=True, confirmed=True).deleted == ("memory/a.md",)
    assert not note.exists()
    assert index.status().files == 0


def test_deleting_the_hits_of_a_query_takes_their_lines_and_leaves_the_rest(notes: Notes, paths_of: Paths) -> None:
    note = notes.write("MEMORY.md", "# People\r\n- Ann likes tea\r\n- Bob keeps a walrus\r\n- Cy sails\r\n")
    note.chmod(0o640)
    index = notes.index(query={"minScore": 0.9})
    planned = index.forget(query="walrus", delete=True)
    assert planned.deleted == ("MEMORY.md#L3",)
    done = index.forget(query="walrus", delete=True, confirmed=True)
    assert done.deleted == planned.deleted
    assert note.read_bytes() == b"# People\r\n- Ann likes tea\r\n- Cy sails\r\n"
    assert note.stat().st_mode & 0o777 == 0o640
    assert paths_of(index, "sails") == ["MEMORY.md"]
    assert index.status().is_clean


def test_a_changed_note_is_read_before_its_lines_go(notes: Notes) -> None:
    note = notes.write("MEMORY.md", "- Ann likes tea\n- Bob keeps a walrus\n")
    index = notes.index(query={"minScore": 0.9})
    index.sync()
    note.write_text("- Cy sails\n- Ann likes tea\n- Bob keeps a walrus\n")
    index.forget(query="walrus", delete=True, confirmed=True)
    assert note.read_text() == "- Cy sails\n- Ann likes tea\n"


def test_neither_words_nor_vectors_live_on_beside_the_index(
    notes: Notes, transcripts: Transcripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector, "_SIDECAR_FROM", 1)
    embedder = HashEmbedder(16)
    transcripts.write("s1", ("user", "the walrus arrived"))
    notes.write("memory/a.md", "apples")
    index = notes.index(embedder, **SOURCES)
    index.sync(embed=True)
    unit = vector.sanitized(embedder.embed_query("User: the walrus arrived")).astype(np.float32).tobytes()
    assert unit in _bytes_beside(index)
    index.forget(session="s1", confirmed=True)
    index.close()
    with sqlite3.connect(index.places.index.with_suffix(".embeddings.sqlite")) as cache:
        assert cache.execute("SELECT count(*) FROM embeddings").fetchone() == (1,)
    assert b"walrus" not in _bytes_beside(index)
    sidecars = list(index.places.index.parent.glob("*.vectors.npy"))
    assert [unit in file.read_bytes() for file in sidecars] == [False]
