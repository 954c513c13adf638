"""Watch memory files and sync a moment after they changed.

A convenience for long-running processes: searches look at the disk themselves, so nothing depends on it.
Source: spec/memory.md 3.6.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from stores.memory.index import MemoryIndex
from turngraph.errors import StoreError

IGNORED_FOLDERS = frozenset({".git", "node_modules", ".pnpm-store", ".venv", "venv", ".tox", "__pycache__"})
_STEP_MS = 100


class MemoryWatcher:
    """Syncs an index when its files change, ``debounce_ms`` after the first change of a burst.

    Attributes:
        failure: why files are not watched (the system ran out of watches); searches go on looking themselves.
    """

    def __init__(self, index: MemoryIndex, on_sync: Callable[[], None] | None = None) -> None:
        self._index = index
        self._on_sync = on_sync
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failure: str | None = None

    def start(self) -> None:
        """Begin to watch; does nothing when ``sync.watch`` is off."""
        if not self._index.settings.memory_search.sync.watch or self._threads:
            return
        disk = self._index.places.disk
        # The workspace itself may hold anything; only its own level and memory/ are watched.
        watched = [(disk.workspace, False), (disk.workspace / "memory", True), *((e.path, True) for e in disk.extra)]
        for path, recursive in watched:
            if path.exists():
                thread = threading.Thread(target=self._watch, args=(path, recursive), name="memory-watch", daemon=True)
                thread.start()
                self._threads.append(thread)

    def stop(self) -> None:
        """Stop watching and wait for a running sync."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        self._threads.clear()

    def _watch(self, path: Path, recursive: bool) -> None:
        from watchfiles import watch

        debounce = self._index.settings.memory_search.sync.watch_debounce_ms
        try:
            for changes in watch(
                path,
                watch_filter=None,
                debounce=max(_STEP_MS, debounce),
                step=min(_STEP_MS, debounce) or 1,
                stop_event=self._stop,
                rust_timeout=500,
                recursive=recursive,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                if any(_counts(Path(changed)) for _, changed in changes) and self._settled(debounce):
                    self._sync()
        except OSError as error:
            self.failure = f"files are not watched ({error.strerror or error}); each search looks at them instead"

    def _settled(self, debounce_ms: int) -> bool:
        """Give a burst of writes time to end; false when stopped meanwhile."""
        return not self._stop.wait(debounce_ms / 1000)

    def _sync(self) -> None:
        try:
            self._index.sync("watch")
        except StoreError as error:
            self.failure = str(error)
            return
        self.failure = None
        if self._on_sync is not None:
            self._on_sync()


def _counts(path: Path) -> bool:
    return path.suffix == ".md" and IGNORED_FOLDERS.isdisjoint(part.lower() for part in path.parts)
