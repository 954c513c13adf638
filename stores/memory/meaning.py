"""Meaning: the vector side of an index - its embedder, making vectors, and holding them for searches.

The embedder is loaded at its first use, so that keyword search and status never wait for it.
Source: spec/memory.md 3.3, 3.8 and 3.9; spec/stack.md 3 and 5; known-faults 7.8 to 7.10.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from turngraph.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from stores.memory.database import Database
    from stores.memory.embedding import Embedded, GuardedEmbedder
    from stores.memory.embedding_cache import EmbeddingCache
    from stores.memory.places import IndexPlaces
    from stores.memory.snapshot import Snapshot
    from stores.memory.sync import Progress, SyncReport
    from stores.memory.vector import Floats, Vectors
    from stores.memory.view import IndexView
    from turngraph.config import AgentSettings
    from turngraph.models.embedders import Embedder

HOW_TO_REBUILD_ALL = "run `turngraph memory index --force`; words are searched meanwhile"
HOW_TO_REBUILD = "run `turngraph memory index`; words are searched meanwhile"
_CLOSING_S = 10.0


@dataclass(frozen=True, slots=True)
class QueryMeaning:
    """The vector leg of one search, or why there is none.

    Attributes:
        leg: vector of the query and vectors of the index.
        pending: chunks without a vector. fallback, rebuild: as in a search result.
    """

    leg: tuple[Floats, Vectors] | None = None
    pending: int = 0
    fallback: str | None = None
    rebuild: str | None = None


class Meaning:
    """Makes, keeps and finds the vectors of one index."""

    def __init__(
        self,
        view: IndexView,
        places: IndexPlaces,
        settings: AgentSettings,
        given: Embedder | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._view = view
        self._places = places
        self._search = settings.memory_search
        self._settings = settings
        self._given = given
        self._now_ms = now_ms
        self._embedder: GuardedEmbedder | None = None
        self._embedder_made = False
        self._vectors: Vectors | None = None
        self._vectors_of: tuple[str, str, str] | None = None  # epoch, model, generation
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._no_embedder: str | None = None
        self._trouble: str | None = None

    def embedder(self) -> GuardedEmbedder | None:
        """Return the embedder, ``None`` with a :attr:`reason` where there is none."""
        from stores.memory.embedding import GuardedEmbedder
        from turngraph.models.embedders import embedder_or_reason

        with self._lock:
            if not self._embedder_made:
                made, reason = self._given, None
                if made is None:
                    made, reason = embedder_or_reason(self._settings, self._places.cache)
                self._embedder = GuardedEmbedder(made) if made is not None else None
                self._no_embedder = reason
                self._embedder_made = True
            return self._embedder

    @property
    def reason(self) -> str | None:
        """Why there are no vectors, or none of the embedder that the settings name, as far as it is known."""
        return self._trouble or self._no_embedder

    def cache(self) -> EmbeddingCache | None:
        """Return the embeddings by text that outlive every rebuild; ``None`` when they are switched off."""
        from stores.memory.embedding_cache import EmbeddingCache

        if not self._search.cache.enabled:
            return None
        return EmbeddingCache(self._places.index.with_suffix(".embeddings.sqlite"), self._search.cache.max_entries)

    # Making vectors

    def embed_beside(self, beside: Database, progress: Progress | None) -> None:
        """Give a new index all its vectors before it takes its place.

        Raises:
            StoreError: the embedder failed; what it gave is in the cache.
        """
        from stores.memory.embedding import embed_pending
        from turngraph.errors import ModelError

        embedder = self.embedder()
        if embedder is None:
            return
        try:
            probe = embedder.query("how many dimensions?")
        except ModelError as error:
            raise StoreError(f"the rebuild stopped ({error}); the old index still answers") from error
        dimensions = len(probe) if probe is not None else None
        done = embed_pending(beside, self.cache(), embedder, self._now_ms, dimensions=dimensions, progress=progress)
        if done.failure is not None:
            raise StoreError(
                f"the rebuild stopped with {done.pending} of {done.pending + done.written} chunks without a vector"
                f" ({done.failure}); the old index still answers, and the next try asks only for the rest"
            )

    def embed_missing(self, report: SyncReport, progress: Progress | None) -> SyncReport:
        """Embed what has no vector yet and say in the report how far that went."""
        embedder = self.embedder()
        if embedder is None:
            return replace(report, fallback=self.reason)
        # Whoever embeds in the background elsewhere goes on; nobody starts to while this runs.
        with self._alone():
            done = self._embed(embedder, progress)
        return replace(report, embedded=done.written, pending=done.pending, fallback=done.failure)

    def embed_in_background(self) -> None:
        """Embed what is missing in a thread, unless one of this or of another process is at it."""
        if not self._is_due():  # not inside the lock, which a search takes while it has the file
            return
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            if self._thread is None:
                atexit.register(_close_at_exit, weakref.ref(self))
            self._thread = threading.Thread(target=self._run_background, name="memory-embedding", daemon=True)
            self._thread.start()

    def _is_due(self) -> bool:
        """Whether vectors are missing and may be made unasked: a paid rebuild waits unless ``reindex`` is ``auto``."""
        embedder = self.embedder()
        if embedder is None or self._closing.is_set():
            return False
        try:
            snapshot = self._view.snapshot()
        except StoreError:  # another process writes; the next sync asks again
            return False
        stored = snapshot.meta.get("model")
        is_paid = embedder.inner.is_remote and stored is not None and stored != embedder.id
        return snapshot.pending(embedder.id) > 0 and (not is_paid or self._search.reindex == "auto")

    def _run_background(self) -> None:
        embedder = self.embedder()
        try:
            with self._alone() as alone:
                done = self._embed(embedder, None) if alone and embedder is not None else None
            if done is not None:
                self._trouble = done.failure
        # Nobody waits for this thread: what stopped it is said in results and status, and the next sync starts again.
        except Exception as error:
            self._trouble = f"vectors could not be made ({type(error).__name__}: {error})"

    def _embed(self, embedder: GuardedEmbedder, progress: Progress | None) -> Embedded:
        from stores.memory.embedding import embed_pending

        done = embed_pending(
            self._view.database, self.cache(), embedder, self._now_ms, stop=self._closing.is_set, progress=progress
        )
        if done.written:
            self._save_sidecar()
        return done

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Yield whether nobody else, in whatever process, makes vectors for this index now."""
        from filelock import FileLock, Timeout

        lock = FileLock(f"{self._places.index}.embedding", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def close(self) -> None:
        """Stop the background work; it ends within a few texts."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=_CLOSING_S)

    # Finding vectors

    def of_query(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, query: str) -> QueryMeaning:
        """Return the vector leg of a search in an open index."""
        from turngraph.errors import ModelError

        if self._search.provider == "none" or not self._search.store.vector.enabled or not query.strip():
            return QueryMeaning()
        embedder = self.embedder()
        if embedder is None:
            return QueryMeaning(fallback=self.reason)
        pending = snapshot.pending(embedder.id)
        stored = snapshot.meta.get("model")
        if stored is not None and stored != embedder.id:
            why = f"vectors are of {stored}, not of {embedder.id}; {HOW_TO_REBUILD}"
            return QueryMeaning(pending=pending, rebuild=why)
        vectors = self._held_vectors(connection, snapshot)
        if vectors is None or not len(vectors.ids):
            return QueryMeaning(pending=pending, fallback=self.reason)
        try:
            unit = embedder.query(query)
        except ModelError as error:
            return QueryMeaning(pending=pending, fallback=str(error))
        if unit is not None and len(unit) != vectors.matrix.shape[1]:
            sizes = f"{vectors.matrix.shape[1]} dimensions, the embedder gives {len(unit)}"
            return QueryMeaning(pending=pending, rebuild=f"vectors have {sizes}; {HOW_TO_REBUILD_ALL}")
        return QueryMeaning((unit, vectors) if unit is not None else None, pending)

    def _held_vectors(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Vectors | None:
        from stores.memory import vector

        meta = snapshot.meta
        identity = (meta.get("epoch", ""), meta.get("model", ""), meta.get("generation", ""))
        if self._vectors_of != identity:
            same = self._vectors_of is not None and self._vectors_of[:2] == identity[:2]
            known = self._vectors if same else vector.load_sidecar(self._sidecar(meta))
            self._vectors = vector.load(connection, known)
            self._vectors_of = identity
        return self._vectors

    def _save_sidecar(self) -> None:
        from stores.memory import vector

        with self._view.database.read() as connection:
            snapshot = self._view.snapshot(connection)
            vectors = self._held_vectors(connection, snapshot)
        if vectors is None:
            return
        target = self._sidecar(snapshot.meta)
        vector.save_sidecar(target, vectors)
        for old in self._sidecars():
            if old != target:
                old.unlink(missing_ok=True)

    def renew(self) -> None:
        """Read the vectors again, and write the copy beside the index anew: what is gone must not live on in them."""
        self._vectors = self._vectors_of = None
        found = tuple(self._sidecars())
        for old in found:
            old.unlink(missing_ok=True)
        if found:
            self._save_sidecar()

    def _sidecars(self) -> Iterator[Path]:
        return self._places.index.parent.glob(f"{self._places.index.stem}.*.vectors.npy")

    def _sidecar(self, meta: Mapping[str, str]) -> Path:
        digest = sha256(meta.get("model", "").encode()).hexdigest()[:8]
        return self._places.index.with_name(f"{self._places.index.stem}.{meta.get('epoch')}.{digest}.vectors.npy")


def _close_at_exit(left: weakref.ref[Meaning]) -> None:
    """Stop the thread before the interpreter ends: one that is in DuckDB then would abort the process."""
    if (meaning := left()) is not None:
        meaning.close()
