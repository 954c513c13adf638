"""Vectors catch up in the background: nothing waits for them, nothing is lost, and two processes do not do it twice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from stores.home import Home
from stores.memory.index import MemoryIndex
from tests.stores.memory.conftest import Notes
from turngraph.models.embedders import HashEmbedder


class Gated(HashEmbedder):
    """An embedder that stands still at documents until it is let go; questions are answered at once."""

    def __init__(self, name: str = "gated", *, is_remote: bool = False) -> None:
        super().__init__(16)
        self.gate = threading.Event()
        self.texts = 0
        self.is_remote = is_remote
        self._name = name

    @property
    def id(self) -> str:
        return self._name

    def embed_documents(self, texts: Sequence[str]) -> Any:
        self.gate.wait(20)
        self.texts += len(texts)
        return super().embed_documents(texts)

    def embed_query(self, text: str) -> Any:
        return super().embed_documents([text])[0]


def _until(told: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not told() and time.monotonic() < ends:
        time.sleep(0.01)
    assert told()


def _live(notes: Notes, embedder: Any, **search: Any) -> MemoryIndex:
    settings = notes.settings(provider="auto", **search)
    index = MemoryIndex.open(
        Home(notes.root), "main", settings, embedder, cache_dir=notes.root / "cache", background=True
    )
    notes.opened.append(index)
    return index


def test_a_search_is_answered_by_words_while_vectors_are_made(notes: Notes) -> None:
    for number in range(40):
        notes.write(f"memory/{number}.md", f"walrus number {number}")
    embedder = Gated()
    index = _live(notes, embedder)
    first = index.search("walrus")
    assert (len(first.hits), first.mode, first.pending) == (6, "keyword", 40)
    notes.write("memory/new.md", "a parrot")
    assert [hit.path for hit in index.search("parrot").hits] == ["memory/new.md"]
    embedder.gate.set()
    _until(lambda: index.status().pending == 0)
    last = index.search("walrus")
    assert (last.mode, last.pending, last.fallback) == ("hybrid", 0, None)
    index.close()
    assert embedder.texts == 41


def test_closing_ends_the_work_within_a_few_texts_and_keeps_what_was_made(notes: Notes) -> None:
    for number in range(100):
        notes.write(f"memory/{number}.md", f"walrus number {number}")
    embedder = Gated()
    index = _live(notes, embedder)
    index.search("walrus")
    threading.Timer(0.1, embedder.gate.set).start()
    index.close()
    assert embedder.texts <= 32
    done = embedder.texts
    assert 100 - notes.index(HashEmbedder(16)).status().pending <= done
    again = _live(notes, embedder)
    again.search("walrus")
    _until(lambda: again.status().pending == 0)
    assert embedder.texts == 100


def test_trouble_in_the_background_is_said(notes: Notes) -> None:
    class Broken(Gated):
        def embed_documents(self, texts: Sequence[str]) -> Any:
            raise RuntimeError("no such model")

    notes.write("memory/a.md", "walrus")
    index = _live(notes, Broken())
    index.search("walrus")
    _until(lambda: index.status().fallback is not None)
    result = index.search("walrus")
    assert len(result.hits) == 1
    assert result.fallback is not None
    assert "RuntimeError" in result.fallback


def test_while_another_process_makes_them_nobody_starts_to(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    embedder = Gated()
    embedder.gate.set()
    index = _live(notes, embedder)
    index.sync(embed=False)
    with FileLock(f"{index.places.index}.embedding"):
        index.sync()
        index.close()
    assert embedder.texts == 0


def test_a_paid_model_is_not_asked_anew_unless_somebody_asks(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    notes.index(HashEmbedder(16)).sync(embed=True)
    paid = Gated("paid", is_remote=True)
    paid.gate.set()
    unasked = _live(notes, paid)
    assert unasked.search("walrus").rebuild is not None
    unasked.close()
    assert paid.texts == 0
    at_once = _live(notes, paid, reindex="auto")
    at_once.search("walrus")
    _until(lambda: paid.texts == 1)
    at_once.close()


def test_the_flow_asks_a_paid_model_anew(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    notes.index(HashEmbedder(16)).sync(embed=True)
    paid = Gated("paid", is_remote=True)
    paid.gate.set()
    index = notes.index(paid)
    report = index.sync("interval", embed=True)
    assert (report.embedded, report.fallback) == (1, None)
    assert index.search("walrus").mode == "hybrid"


def test_a_search_does_not_wait_for_a_rebuild_of_its_own_process(notes: Notes) -> None:
    notes.write("memory/a.md", "walrus")
    embedder = Gated()
    index = notes.index(embedder)
    index.sync(embed=False)
    rebuild = threading.Thread(target=lambda: index.sync(force=True))
    rebuild.start()
    time.sleep(0.2)
    started = time.monotonic()
    result = index.search("walrus")
    assert time.monotonic() - started < 5
    assert [hit.path for hit in result.hits] == ["memory/a.md"]
    assert result.stale is not None
    embedder.gate.set()
    rebuild.join()
    assert index.search("walrus").stale is None


_ENDS = """
import sys
from pathlib import Path
from stores.home import Home
from stores.memory.index import MemoryIndex
from turngraph.config import default_settings

root = Path(sys.argv[1])
MemoryIndex.open(Home(root), "main", default_settings(), cache_dir=root / "cache", background=True).search("walrus")
"""


@pytest.mark.slow
def test_a_process_that_ends_while_vectors_are_made_ends_in_peace(notes: Notes) -> None:
    for number in range(400):
        notes.write(f"memory/{number}.md", f"walrus number {number} " * 40)
    root = Path(__file__).parents[3]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _ENDS, str(notes.root)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - started < 10
    assert notes.index().search("walrus").hits
