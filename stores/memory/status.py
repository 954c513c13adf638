"""Say what an index holds and how it differs from the disk."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from stores.memory import sync as syncing
from stores.memory.engine import IndexDamaged
from stores.memory.reading import has_changed
from stores.memory.results import IndexStatus, SourceCounts
from turngraph.errors import StoreError

if TYPE_CHECKING:
    from stores.memory.index import MemoryIndex
    from stores.memory.snapshot import FileRow


def index_status(index: MemoryIndex) -> IndexStatus:
    """Return the status of an index; counts are taken from disk and index, never from memory of an earlier sync."""
    problems: list[str] = []
    disk, search = index.places.disk, index.settings.memory_search
    path = index.places.index
    try:
        snapshot = index.view.snapshot() if index.database.exists else None
    except IndexDamaged as damage:
        problems.append(f"{damage}; the next sync moves it aside and rebuilds it")
        snapshot = None
    wanted = disk.look(disk.sources, index.view.forgotten, problems)
    plan = syncing.plan_sync(wanted, snapshot.facts() if snapshot else {}, disk.sources)
    rows = list(snapshot.files.values()) if snapshot else []
    model = snapshot.meta.get("model") if snapshot else None
    pending = snapshot.pending(model or "") if snapshot else 0
    size, cached = 0, _cached(index, problems)
    with suppress(FileNotFoundError):
        size = path.stat().st_size
    return IndexStatus(
        str(path),
        snapshot is not None,
        size,
        len(rows),
        snapshot.chunks if snapshot else 0,
        tuple(
            SourceCounts(source, len(of_source := [row for row in rows if row.source == source]), _chunks(of_source))
            for source in disk.sources
        ),
        len(wanted),
        len(plan.added),
        len(plan.changed) + sum(map(has_changed, plan.doubtful)),
        len(plan.removed),
        search.provider,
        model,
        snapshot.embedded if snapshot else 0,
        pending if search.provider != "none" else 0,
        cached,
        len(index.view.forgotten),
        index.meaning.reason,
        _rebuild_note(index, model),
        tuple(problems),
    )


def _cached(index: MemoryIndex, problems: list[str]) -> int:
    cache = index.meaning.cache()
    try:
        return cache.count() if cache else 0
    except StoreError as error:
        problems.append(str(error))
        return 0


def _chunks(rows: list[FileRow]) -> int:
    return sum(row.chunks for row in rows)


def _rebuild_note(index: MemoryIndex, stored: str | None) -> str | None:
    wanted = index.meaning.embedder() if index.settings.memory_search.provider != "none" else None
    if stored is None or wanted is None or wanted.id == stored:
        return None
    return f"vectors are of {stored}, not of {wanted.id}; run `turngraph memory index`"
