"""Bring the index up to the files on disk: plan what differs, then write it in short transactions.

Source: spec/memory.md 3.3 to 3.6, known-faults 7.7, 7.9, 7.16.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory import writing
from stores.memory.database import Database
from stores.memory.files import MemoryFile
from stores.memory.postings import PostingsBuilder
from stores.memory.prepare import FileFacts, PreparedFile
from stores.memory.reading import Sizes, Unchanged, Wanted, read_wanted
from stores.memory.schema import text_identity
from stores.memory.workers import prepare_all

if TYPE_CHECKING:
    import duckdb

RACY_NS = 100_000_000  # a file changed this shortly before it was read may have changed again with the same time
REBUILD_FROM_BYTES = 3_000_000  # so much new text goes into a new file beside the old one
_TRANSACTION_BYTES = 1_000_000

Key = tuple[str, str]
Facts = Mapping[Key, tuple[str, int, int, int, int]]
Progress = Callable[[str, int, int], None]
Write = Callable[[], "AbstractContextManager[duckdb.DuckDBPyConnection]"]


@dataclass(frozen=True, slots=True)
class SyncPlan:
    """What differs between disk and index.

    Attributes:
        added, changed: files to read.
        doubtful: files whose size and time are as indexed, but which were changed just before they were read.
        removed: (source, path) of what is indexed and gone from disk.
        unchanged: number of files that are as indexed.
    """

    added: tuple[Wanted, ...]
    changed: tuple[Wanted, ...]
    removed: tuple[Key, ...]
    unchanged: int
    doubtful: tuple[Wanted, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed)

    @property
    def bytes(self) -> int:
        return sum(wanted.file.size for wanted in (*self.added, *self.changed))


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did.

    Attributes:
        reason: why it ran.
        added, changed, removed, unchanged: files.
        chunks: chunks written.
        took_ms: time in milliseconds.
        rebuilt: why the whole index was written anew, if it was.
        embedded, pending: vectors written, and chunks still without one.
        problems: what could not be read, one line each.
        fallback: why there are no vectors, when an embedder was wanted.
    """

    reason: str
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    took_ms: float = 0.0
    rebuilt: str | None = None
    embedded: int = 0
    pending: int = 0
    problems: tuple[str, ...] = field(default_factory=tuple)
    fallback: str | None = None


def plan_sync(on_disk: Iterable[Wanted], indexed: Facts, sources: Iterable[str] = ("memory", "sessions")) -> SyncPlan:
    """Compare files with the index by size and time; a doubtful file is read again.

    Args:
        on_disk: every file that should be indexed.
        indexed: (hash, size, mtime_ns, read_ns, chunks) by (source, path).
        sources: sources that ``on_disk`` lists completely; rows of others are left alone.
    """
    added, changed, doubtful, unchanged = [], [], [], 0
    seen: set[Key] = set()
    for wanted in on_disk:
        key = (wanted.source, wanted.file.path)
        seen.add(key)
        known = indexed.get(key)
        if known is None:
            added.append(wanted)
        elif wanted.waits:
            unchanged += 1
        elif _differs(wanted.file, known):
            changed.append(replace(wanted, known_hash=known[0]))
        elif known[2] > known[3] - RACY_NS:  # (hash, size, mtime_ns, read_ns, chunks)
            doubtful.append(replace(wanted, known_hash=known[0]))
        else:
            unchanged += 1
    listed = frozenset(sources)
    removed = tuple(key for key in indexed if key[0] in listed and key not in seen)
    return SyncPlan(tuple(added), tuple(changed), removed, unchanged, tuple(doubtful))


def _differs(file: MemoryFile, known: tuple[str, int, int, int, int]) -> bool:
    _, size, mtime_ns, _, _ = known
    return file.size != size or file.mtime_ns != mtime_ns


def _is_racy(facts: FileFacts) -> bool:
    return facts.mtime_ns > facts.read_ns - RACY_NS


def apply_plan(write: Write, plan: SyncPlan, sizes: Sizes, problems: list[str]) -> SyncReport:
    """Write a plan into the index, about a megabyte of text a transaction; texts are prepared outside of it.

    Rows can be searched from the commit that wrote them; when they have grown many, they are folded.
    A file that is gone when it is read loses its rows. ``write`` opens a transaction.
    """
    added = {wanted.file.path for wanted in plan.added}
    counts = {"added": 0, "changed": 0, "chunks": 0}
    gone = list(plan.removed)
    touched: list[Unchanged] = []
    due = False
    for batch in _batches((*plan.added, *plan.changed, *plan.doubtful), sizes, problems, gone, touched):
        with write() as connection:
            counts["chunks"] += writing.replace_files(connection, batch)
            due = writing.fold_is_due(connection)
        new = sum(file.facts.path in added for file in batch)
        counts["added"] += new
        counts["changed"] += len(batch) - new
    # A doubtful file stays doubtful until it is read a moment after its last change.
    moved = {wanted.file.path for wanted in plan.changed}
    drifted = [item.facts for item in touched if item.facts.path in moved or not _is_racy(item.facts)]
    removed = 0
    if gone or drifted:
        with write() as connection:
            removed = writing.drop_files(connection, gone)
            writing.mark_read(connection, [(f.source, f.path, f.size, f.mtime_ns, f.read_ns) for f in drifted])
            writing.touch(connection)
            due = due or writing.fold_is_due(connection)
    if due:
        with write() as connection:
            writing.fold(connection)
    return SyncReport("", counts["added"], counts["changed"], removed, plan.unchanged + len(touched), counts["chunks"])


def _batches(
    wanted: Sequence[Wanted], sizes: Sizes, problems: list[str], gone: list[Key], touched: list[Unchanged]
) -> Iterator[list[PreparedFile]]:
    batch: list[PreparedFile] = []
    room = _TRANSACTION_BYTES
    for item in wanted:
        try:
            prepared = read_wanted(item, sizes)
        except OSError as error:
            problems.append(f"{item.file.path} cannot be read: {error.strerror}")
            continue
        if prepared is None:
            gone.append((item.source, item.file.path))
        elif isinstance(prepared, Unchanged):
            touched.append(prepared)
        else:
            batch.append(prepared)
            room -= item.file.size
        if room <= 0:
            yield batch
            batch, room = [], _TRANSACTION_BYTES
    if batch:
        yield batch


def build_beside(
    database: Database, wanted: Sequence[Wanted], sizes: Sizes, progress: Progress | None = None
) -> tuple[Database, int]:
    """Write a complete index into a new file beside the old one, which goes on answering.

    Returns:
        The new file (closed) and how many chunks it holds; put it in place with :meth:`Database.replace_by`.
    """
    beside = Database(database.path.with_name(f"{database.path.name}.new"), keeps_log=False)
    discard(beside)
    builder = PostingsBuilder()
    chunks = files = 0
    with beside.write() as connection:
        for batch in prepare_all(wanted, sizes):
            file_rows, chunk_rows = [], []
            builder.add(batch.terms, chunks)
            for file in batch.files:
                file_rows.append(writing.file_row(files, file))
                for chunk in file.chunks:
                    chunk_rows.append(writing.chunk_row(chunks, files, chunk))
                    chunks += 1
                files += 1
            writing.insert_bulk(connection, file_rows, chunk_rows)
            if progress:
                progress("files", files, len(wanted))
        writing.write_segment(connection, builder.lists())
        writing.mark_folded(connection, chunks, chunks)
        writing.set_meta(
            connection, next_chunk=chunks, next_file=files, text=text_identity(sizes.tokens, sizes.overlap)
        )
        writing.touch(connection)
    return beside, chunks


def discard(database: Database) -> None:
    """Remove an unfinished index with everything that belongs to it."""
    database.close()
    for path in database.path.parent.glob(f"{database.path.name}*"):
        path.unlink(missing_ok=True)


def elapsed_ms(since: float) -> float:
    """Return the milliseconds since a ``time.perf_counter()`` value."""
    return round((time.perf_counter() - since) * 1000, 1)


def remove_leftovers(database: Database) -> None:
    """Remove what a killed rebuild left beside the index."""
    with suppress(OSError):
        discard(Database(Path(f"{database.path}.new")))
