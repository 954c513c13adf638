"""Keeper: the word side of an index, brought up to the disk - by a plan, by single files, or by a rebuild beside it.

Source: spec/memory.md 3.3 to 3.6, known-faults 7.7, 7.9 and 7.16.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from stores.memory import sync as syncing
from stores.memory.database import IndexBusy
from stores.memory.engine import IndexDamaged
from stores.memory.schema import text_identity

if TYPE_CHECKING:
    from stores.memory.database import Database
    from stores.memory.places import IndexPlaces
    from stores.memory.reading import Sizes, Wanted
    from stores.memory.sync import Progress, SyncReport
    from stores.memory.view import IndexView

CHEAP_LOOK_S = 0.02  # a look at the disk that takes less goes before every search
LOOK_SHARE = 10  # a dearer one may take a tenth of the time between two looks
_REBUILD_WAIT_S = 60.0

Vectors = Callable[["Database", "Progress | None"], None]


class Keeper:
    """Knows what has changed on disk since the last look and writes it into the index.

    Attributes:
        problems: what could not be read at the last look, one line each.
    """

    def __init__(self, view: IndexView, places: IndexPlaces, sizes: Sizes, vectors: Vectors, stamp: Callable[[], str]):
        self.problems: tuple[str, ...] = ()
        self._view = view
        self._places = places
        self._sizes = sizes
        self._embed_beside = vectors
        self._stamp = stamp
        self._dirty: set[str] = set()
        self._looked_at = 0.0
        self._look_cost = 0.0
        self._lock = threading.RLock()

    def mark(self, path: str) -> None:
        """Note that a file of the workspace was written."""
        with self._lock:
            self._dirty.add(path.replace("\\", "/").removeprefix("./"))

    @property
    def dirty(self) -> frozenset[str]:
        """Files that were marked and not read since."""
        with self._lock:
            return frozenset(self._dirty)

    @property
    def look_is_due(self) -> bool:
        """Whether the whole disk may be looked at before an answer."""
        since = time.monotonic() - self._looked_at
        return self._look_cost < CHEAP_LOOK_S or since >= LOOK_SHARE * self._look_cost

    def sync(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        """Bring the words up to the disk; see :meth:`MemoryIndex.sync`."""
        why = self._rebuild_reason() or ("forced" if force else None)
        problems: list[str] = []
        forgotten = self._view.forgotten
        disk = self._places.disk
        sources = ("memory",) if reason in ("session-start", "watch") and not why else disk.sources
        looking = time.thread_time()
        with self._lock:
            self._dirty.clear()
        wanted = disk.look(sources, forgotten, problems)
        self.problems = tuple(problems)
        if not (wanted or force or self._view.database.exists):
            return syncing.SyncReport("", problems=self.problems)  # where there is no memory, none is begun
        facts = {} if why else self._view.facts
        if reason == "search" and not why:
            wanted = disk.due(wanted, facts)
        plan = syncing.plan_sync(wanted, facts, sources)
        self._looked_at, self._look_cost = time.monotonic(), time.thread_time() - looking
        if not why and plan.bytes >= syncing.REBUILD_FROM_BYTES and plan.bytes > self._view.indexed_bytes // 2:
            why = f"{len(plan.added) + len(plan.changed)} files are new or changed"
            wanted = disk.look(disk.sources, forgotten, [])
        if why:
            report = self._rebuild(wanted, why, problems, progress, with_vectors=force)
        else:
            report = syncing.apply_plan(self._view.write, plan, self._sizes, problems)
        self.problems = tuple(problems)
        return replace(report, problems=self.problems)

    def sync_paths(self, paths: Collection[str]) -> None:
        """Read some files again, without a look at all the others."""
        forgotten = self._view.forgotten
        found: list[Wanted] = []
        gone = []
        for path in paths:
            wanted = self._places.disk.note(path, forgotten)
            if wanted is None:
                gone.append(("memory", path))
            else:
                found.append(wanted)
        syncing.apply_plan(self._view.write, syncing.SyncPlan((), tuple(found), tuple(gone), 0), self._sizes, [])
        with self._lock:
            self._dirty -= set(paths)

    def _rebuild_reason(self) -> str | None:
        """Return why the index must be written anew; one that cannot be used is moved aside here."""
        if not self._view.database.exists:
            return "there is no index yet"
        try:
            stored = self._view.snapshot().meta.get("text")
        except IndexDamaged:
            aside = self._view.database.move_aside(self._stamp())
            return f"the index could not be used; it was kept as {aside.name}"
        return None if stored == text_identity(self._sizes.tokens, self._sizes.overlap) else "chunking has changed"

    def _rebuild(
        self, wanted: list[Wanted], why: str, problems: list[str], progress: Progress | None, *, with_vectors: bool
    ) -> SyncReport:
        from filelock import FileLock, Timeout

        index = self._places.index
        index.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{index}.rebuild", timeout=_REBUILD_WAIT_S):
                beside, chunks = syncing.build_beside(self._view.database, wanted, self._sizes, progress)
                try:
                    if with_vectors:
                        self._embed_beside(beside, progress)
                except BaseException:
                    syncing.discard(beside)
                    raise
                beside.close()
                self._view.database.replace_by(beside.path)
                syncing.remove_leftovers(self._view.database)
        except Timeout:
            raise IndexBusy(f"{index} is being rebuilt by another process; try again later") from None
        self._view.forget_snapshot()
        gone = len(wanted) - len(self._view.snapshot().files)
        if gone:
            problems.append(f"{gone} files vanished or could not be read while they were indexed")
        return syncing.SyncReport("", added=len(wanted) - gone, chunks=chunks, rebuilt=why)
