"""The watcher syncs after a change, without being asked."""

from __future__ import annotations

import threading

from stores.memory.watcher import MemoryWatcher
from tests.stores.memory.conftest import Notes


def test_a_changed_file_is_indexed_without_a_search(notes: Notes) -> None:
    notes.write("memory/a.md", "apples")
    index = notes.index(sync={"watchDebounceMs": 50})
    index.sync()
    synced = threading.Event()
    watcher = MemoryWatcher(index, synced.set)
    watcher.start()
    try:
        for number in range(50):  # the system may need a moment until it watches
            notes.write("memory/b.md", f"pears {number}")
            if synced.wait(0.3):
                break
    finally:
        watcher.stop()
    assert watcher.failure is None
    assert [hit.path for hit in index.search("pears", refresh=False).hits] == ["memory/b.md"]


def test_nothing_is_watched_when_it_is_switched_off(notes: Notes) -> None:
    watcher = MemoryWatcher(notes.index(sync={"watch": False}))
    watcher.start()
    assert threading.active_count() == len(threading.enumerate())
    assert not [thread for thread in threading.enumerate() if thread.name == "memory-watch"]
    watcher.stop()
