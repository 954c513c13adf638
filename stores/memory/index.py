"""MemoryIndex: the memory of one agent, kept in step with its files and searched by words and meaning.

Opening is cheap: nothing is read, created or embedded before it is needed. All methods may be called from any thread
and from several processes; what is not possible at the moment is said in the result or raised as ``StoreError``.
Source: spec/memory.md 3 to 5, spec/stack.md 2 to 5, design decisions 9 and 14.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from stores.memory import sync as syncing
from stores.memory.database import Database, IndexBusy, IndexDamaged, shared_database
from stores.memory.disk import Disk, Forgotten, SessionSource, effective_sources
from stores.memory.files import extra_paths
from stores.memory.note_reading import NotePart, read_note
from stores.memory.reading import Sizes, Wanted
from stores.memory.schema import text_identity
from turngraph.clock import Clock, SystemClock, to_ms
from turngraph.errors import StoreError

if TYPE_CHECKING:
    import duckdb

    from stores.home import Home
    from stores.memory.embedding import GuardedEmbedder
    from stores.memory.embedding_cache import EmbeddingCache
    from stores.memory.results import ForgetReport, IndexStatus, Mode, SearchResult
    from stores.memory.searching import SearchRules
    from stores.memory.snapshot import Snapshot
    from stores.memory.sync import Progress, SyncReport
    from stores.memory.vector import Floats, Vectors
    from turngraph.config import AgentSettings
    from turngraph.models.embedders import Embedder

CHEAP_LOOK_S = 0.02  # a look at the disk that takes less goes before every search
PASSAGE_SHARE = 0.75  # of a chunk is ranked; the rest is the context that a hit shows around it
LOOK_SHARE = 10  # a dearer one may take a tenth of the time between two looks
_REBUILD_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class IndexPlaces:
    """Where an index and what belongs to it lie.

    Attributes:
        disk: what is indexed.
        index: the DuckDB file; embeddings and the vector sidecar lie beside it.
        cache: folder for unpacked models.
    """

    disk: Disk
    index: Path
    cache: Path


@dataclass(slots=True)
class _Held:
    """What a process keeps between searches."""

    snapshot: Snapshot | None = None
    snapshot_of: object = None  # the connection it was read from
    vectors: Vectors | None = None
    vectors_of: tuple[str, str, str] | None = None  # epoch, model, generation
    dirty: set[str] = field(default_factory=set)
    looked_at: float = 0.0
    look_cost: float = 0.0
    problems: tuple[str, ...] = ()


class MemoryIndex:
    """The memory index of one agent."""

    def __init__(
        self,
        places: IndexPlaces,
        settings: AgentSettings,
        *,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        background: bool = False,
    ) -> None:
        self.places = places
        self.settings = settings
        self.database: Database = shared_database(places.index)
        self._clock = clock or SystemClock()
        self._given = embedder
        self._background = background
        self._embedder: GuardedEmbedder | None = None
        self._no_embedder: str | None = None
        self._embedder_made = False
        self._held = _Held()
        self._lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    @classmethod
    def open(
        cls,
        home: Home,
        agent_id: str,
        settings: AgentSettings,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        cache_dir: Path | None = None,
        *,
        background: bool = False,
    ) -> MemoryIndex:
        """Open the index of an agent; nothing is touched yet.

        Args:
            home, agent_id, settings: whose memory.
            embedder: in place of the one that the settings name.
            clock: for age and time stamps.
            cache_dir: our folder for this home; a foreign home's index lies there and nothing is written to the home.
            background: embed in a thread of this process after a sync.
        """
        cache = cache_dir or home.cache_dir()
        own = home.root / settings.index_file
        index = cache / "memory" / f"{agent_id}.duckdb" if home.is_foreign else own
        places = IndexPlaces(_disk(home, agent_id, settings), index, cache if cache_dir else cache.parent)
        return cls(places, settings, embedder=embedder, clock=clock, background=background)

    # Keeping in step

    def sync(
        self,
        reason: str = "manual",
        *,
        force: bool = False,
        embed: bool | None = None,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring the index up to the disk; a second caller waits for the first.

        Args:
            reason: ``session-start`` and ``watch`` leave transcripts alone, ``search`` takes those that have grown
                enough, everything else takes all.
            force: build the whole index anew beside the old one, vectors included; it replaces the old one only
                when it is complete.
            embed: make vectors now; ``None`` makes them in the background where there is one.
            progress: told (what, done, total).

        Raises:
            IndexBusy: another process holds the index.
            StoreError: the disk is full, or a forced rebuild could not make its vectors.
        """
        started = time.perf_counter()
        with self._sync_lock:
            report = self._sync_words(reason, force=force, progress=progress)
            if embed:
                report = self._sync_vectors(report, progress)
        if embed is None and self._background:
            self._embed_in_background()
        return replace(report, reason=reason, took_ms=syncing.elapsed_ms(started))

    def file_changed(self, path: str) -> None:
        """Note that a file of the workspace was written: the next search has read it. Costs nothing now."""
        with self._lock:
            self._held.dirty.add(path.replace("\\", "/").removeprefix("./"))

    def _sync_words(self, reason: str, *, force: bool, progress: Progress | None) -> SyncReport:
        why = self._rebuild_reason() or ("forced" if force else None)
        problems: list[str] = []
        forgotten = self._forgotten()
        looking = time.thread_time()
        sources = ("memory",) if reason in ("session-start", "watch") and not why else self.places.disk.sources
        with self._lock:
            self._held.dirty.clear()
        wanted = self.places.disk.look(sources, forgotten, problems)
        facts = {} if why else self._facts()
        if reason == "search" and not why:
            wanted = self.places.disk.due(wanted, facts)
        plan = syncing.plan_sync(wanted, facts, sources)
        with self._lock:
            self._held.looked_at = time.monotonic()
            self._held.look_cost = time.thread_time() - looking
        if not why and plan.bytes >= syncing.REBUILD_FROM_BYTES and plan.bytes > self._indexed_bytes() // 2:
            why = f"{len(plan.added) + len(plan.changed)} files are new or changed"
        if why:
            everything = self.places.disk.look(self.places.disk.sources, forgotten, []) if facts else wanted
            report = self._rebuild(everything, why, problems, progress, with_vectors=force)
        else:
            report = syncing.apply_plan(self.database, plan, self._sizes, problems)
        with self._lock:
            self._held.problems = tuple(problems)
        return replace(report, problems=tuple(problems))

    def _rebuild_reason(self) -> str | None:
        """Return why the index must be written anew; one that cannot be used is moved aside here."""
        if not self.database.exists:
            return "there is no index yet"
        try:
            stored = self._snapshot().meta.get("text")
        except IndexDamaged:
            aside = self.database.move_aside(self._stamp())
            return f"the index could not be used; it was kept as {aside.name}"
        return None if stored == text_identity(self._sizes.tokens, self._sizes.overlap) else "chunking has changed"

    def _rebuild(
        self, wanted: list[Wanted], why: str, problems: list[str], progress: Progress | None, *, with_vectors: bool
    ) -> SyncReport:
        from filelock import FileLock, Timeout

        self.places.index.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.places.index}.rebuild", timeout=_REBUILD_WAIT_S):
                forgotten = self._forgotten()
                beside, chunks = syncing.build_beside(self.database, wanted, self._sizes, progress)
                try:
                    self._keep_forgotten(beside, forgotten)
                    if with_vectors:
                        self._vectors_beside(beside, progress)
                except BaseException:
                    syncing.discard(beside)
                    raise
                beside.close()
                self.database.replace_by(beside.path)
                syncing.remove_leftovers(self.database)
        except Timeout:
            raise IndexBusy(f"{self.places.index} is being rebuilt by another process; try again later") from None
        with self._lock:
            self._held.snapshot = None
        gone = len(wanted) - len(self._snapshot().files)
        if gone:
            problems.append(f"{gone} files vanished or could not be read while they were indexed")
        return syncing.SyncReport("", added=len(wanted) - gone, chunks=chunks, rebuilt=why)

    def _vectors_beside(self, beside: Database, progress: Progress | None) -> None:
        from stores.memory.embedding import embed_pending

        embedder = self._get_embedder()
        if embedder is None:
            return
        done = embed_pending(beside, self._cache(), embedder, self._now_ms, progress=progress)
        if done.failure is not None:
            raise StoreError(
                f"the rebuild stopped with {done.pending} of {done.pending + done.written} chunks without a vector"
                f" ({done.failure}); the old index still answers, and the next try asks only for the rest"
            )

    def _sync_vectors(self, report: SyncReport, progress: Progress | None) -> SyncReport:
        from stores.memory.embedding import embed_pending

        embedder = self._get_embedder()
        if embedder is None or not self._may_embed(embedder):
            return replace(report, fallback=self._no_embedder)
        done = embed_pending(
            self.database, self._cache(), embedder, self._now_ms, stop=self._closing.is_set, progress=progress
        )
        if done.written:
            self._save_vectors()
        return replace(report, embedded=done.written, pending=done.pending, fallback=done.failure)

    def _may_embed(self, embedder: GuardedEmbedder) -> bool:
        """Whether vectors may be made now; a paid rebuild waits for the flow unless ``reindex`` is ``auto``."""
        stored = self._snapshot().meta.get("model")
        changed = stored is not None and stored != embedder.id
        if changed and embedder.inner.is_remote and self.settings.memory_search.reindex != "auto":
            self._no_embedder = f"{stored} was replaced by {embedder.id}; {_HOW_TO_REBUILD}"
            return False
        return True

    def _embed_in_background(self) -> None:
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run_background, name="memory-embedding", daemon=True)
            self._thread.start()

    def _run_background(self) -> None:
        report = syncing.SyncReport("background")
        # A busy or full disk shows in status and results; the next sync starts this again.
        with suppress(StoreError):
            report = self._sync_vectors(report, None)
        if report.fallback:
            self._no_embedder = report.fallback

    # Searching

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        corpus: str | None = None,
        scope: str | None = None,
        mode: Mode | None = None,
        refresh: bool = True,
    ) -> SearchResult:
        """Search memory; files that changed since the last look are read first.

        Args:
            query: any text.
            max_results, min_score: in place of the settings.
            corpus: ``memory``, ``sessions`` or ``all``; the configured sources unless given.
            scope: peer whose sessions may be found besides the agent's; see :func:`session_files.scope_of`.
            mode: legs to use; both where there are vectors, unless given.
            refresh: look at the disk first.

        Raises:
            IndexBusy: another process holds the index for longer than a search may wait.
            StoreError: the index cannot be read or the corpus is not indexed.
        """
        from stores.memory.results import SearchResult
        from stores.memory.searching import answer

        started = time.perf_counter()
        sources = self._sources(corpus)
        stale = self._refresh() if refresh else None
        if not self.database.exists:
            return SearchResult((), "keyword", None, 0, 0, stale=stale or "nothing is indexed yet")
        rules = self._rules(max_results, min_score)
        wants_words = mode != "vector" and (mode is not None or self._uses_words())
        with self.database.read() as connection:
            snapshot = self._snapshot(connection)
            leg = _VectorState() if mode == "keyword" else self._vector_state(connection, snapshot, query)
            wants_words = wants_words or (leg.meaning is None and mode is None)
            hits = answer(
                connection,
                query,
                snapshot,
                rules,
                sources=sources,
                scope=scope,
                now=self._clock.now(),
                by_words=wants_words,
                meaning=leg.meaning,
            )
        answered: Mode = "keyword" if leg.meaning is None else "hybrid" if wants_words else "vector"
        model = snapshot.meta.get("model") if leg.meaning else None
        return SearchResult(
            tuple(hits),
            answered,
            model,
            len(snapshot.files),
            snapshot.chunks,
            leg.pending,
            leg.fallback,
            stale,
            leg.rebuild,
            self._held.problems,
            syncing.elapsed_ms(started),
        )

    def _refresh(self) -> str | None:
        """Bring changed files in before an answer; return why that could not be done."""
        with self._lock:
            held = self._held
            since = time.monotonic() - held.looked_at
            due = held.look_cost < CHEAP_LOOK_S or since >= LOOK_SHARE * held.look_cost
            dirty = set(held.dirty)
        if not due and not dirty and self.database.exists:
            return None
        if not (self.settings.memory_search.sync.on_search or dirty) and self.database.exists:
            return None
        try:
            if dirty and not due:
                self._sync_paths(dirty)
            else:
                self.sync("search")
        except IndexBusy as busy:
            return str(busy)
        return None

    def _sync_paths(self, paths: Collection[str]) -> None:
        """Read some files again, without a look at all the others."""
        forgotten = self._forgotten()
        found, gone = [], []
        for path in paths:
            wanted = self.places.disk.note(path, forgotten)
            if wanted is None:
                gone.append(("memory", path))
            else:
                found.append(wanted)
        with self._sync_lock:
            plan = syncing.SyncPlan((), tuple(found), tuple(gone), 0)
            syncing.apply_plan(self.database, plan, self._sizes, [])
        with self._lock:
            self._held.dirty -= set(paths)
        if self._background:
            self._embed_in_background()

    def _vector_state(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, query: str) -> _VectorState:
        from turngraph.errors import ModelError

        search = self.settings.memory_search
        if search.provider == "none" or not search.store.vector.enabled or not query.strip():
            return _VectorState()
        embedder = self._get_embedder()
        if embedder is None:
            return _VectorState(fallback=self._no_embedder)
        pending = snapshot.pending(embedder.id)
        stored = snapshot.meta.get("model")
        if stored is not None and stored != embedder.id:
            return _VectorState(
                pending=pending, rebuild=f"vectors are of {stored}, not of {embedder.id}; {_HOW_TO_REBUILD}"
            )
        vectors = self._vectors(connection, snapshot)
        if vectors is None or not len(vectors.ids):
            return _VectorState(pending=pending, fallback=self._no_embedder)
        try:
            unit = embedder.query(query)
        except ModelError as error:
            return _VectorState(pending=pending, fallback=str(error))
        if unit is not None and len(unit) != vectors.matrix.shape[1]:
            sizes = f"{vectors.matrix.shape[1]} dimensions, the embedder gives {len(unit)}"
            return _VectorState(pending=pending, rebuild=f"vectors have {sizes}; {_HOW_TO_REBUILD}")
        return _VectorState((unit, vectors) if unit is not None else None, pending)

    def _vectors(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> Vectors | None:
        from stores.memory import vector

        meta = snapshot.meta
        identity = (meta.get("epoch", ""), meta.get("model", ""), meta.get("generation", ""))
        held = self._held
        if held.vectors_of != identity:
            same = held.vectors_of is not None and held.vectors_of[:2] == identity[:2]
            known = held.vectors if same else vector.load_sidecar(self._sidecar(meta.get("epoch"), meta.get("model")))
            held.vectors = vector.load(connection, known)
            held.vectors_of = identity
        return held.vectors

    def _save_vectors(self) -> None:
        from stores.memory import vector

        with self.database.read() as connection:
            snapshot = self._snapshot(connection)
            vectors = self._vectors(connection, snapshot)
        if vectors is None:
            return
        target = self._sidecar(snapshot.meta.get("epoch"), snapshot.meta.get("model"))
        vector.save_sidecar(target, vectors)
        for old in target.parent.glob(f"{self.places.index.stem}.*.vectors.npy"):
            if old != target:
                old.unlink(missing_ok=True)

    def _sidecar(self, epoch: str | None, model: str | None) -> Path:
        digest = sha256((model or "").encode()).hexdigest()[:8]
        return self.places.index.with_name(f"{self.places.index.stem}.{epoch}.{digest}.vectors.npy")

    # Reading, status, forgetting

    def get(self, path: str, from_line: int | None = None, lines: int | None = None) -> NotePart:
        """Read lines of a memory file, bounded; a missing one is no error.

        Raises:
            NotAllowed: the path is no Markdown memory file.
        """
        limits = self.settings.context_limits
        disk = self.places.disk
        return read_note(
            disk.workspace,
            disk.extra,
            path,
            from_line,
            lines,
            default_lines=limits.memory_get_default_lines,
            max_chars=limits.memory_get_max_chars,
        )

    def status(self) -> IndexStatus:
        """Compare disk and index and say what is there; nothing is written and no embedder is loaded."""
        from stores.memory.status import index_status

        return index_status(self)

    def forget(
        self,
        *,
        path: str | None = None,
        session: str | None = None,
        query: str | None = None,
        delete: bool = False,
        confirmed: bool = False,
    ) -> ForgetReport:
        """Take a file, a session or a query's hits out of index and cache; a dry run until ``confirmed``.

        A session never comes back, a file or a hit only when its text changes. Markdown is touched only with
        ``delete``. Source: design decision 14.

        Raises:
            NotFound: nothing fits.
        """
        from stores.memory.forgetting import forget

        return forget(self, path=path, session=session, query=query, delete=delete, confirmed=confirmed)

    def close(self) -> None:
        """Stop background work and let go of the file."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        self.database.close()

    # What the parts above share

    @property
    def _sizes(self) -> Sizes:
        chunking = self.settings.memory_search.chunking
        return Sizes(max(1, int(chunking.tokens * PASSAGE_SHARE)), int(chunking.overlap * PASSAGE_SHARE))

    def _sources(self, corpus: str | None) -> tuple[str, ...]:
        configured = self.places.disk.sources
        if corpus in (None, "all"):
            return configured
        if corpus not in ("memory", "sessions"):
            raise StoreError(f"there is no corpus {corpus!r}; use memory, sessions or all")
        if corpus not in configured:
            raise StoreError(
                "sessions are not indexed; set memorySearch.experimental.sessionMemory and add sessions to sources"
            )
        return (corpus,)

    def _uses_words(self) -> bool:
        return self.settings.memory_search.query.hybrid.enabled

    def _rules(self, max_results: int | None, min_score: float | None) -> SearchRules:
        from stores.memory.dates import Fading
        from stores.memory.ranking import Weights
        from stores.memory.searching import SearchRules

        query = self.settings.memory_search.query
        hybrid = query.hybrid
        fading = hybrid.temporal_decay
        return SearchRules(
            max_results or query.max_results,
            query.min_score if min_score is None else min_score,
            hybrid.candidate_multiplier,
            Weights.of(hybrid.text_weight, hybrid.vector_weight),
            hybrid.mmr.lambda_ if hybrid.mmr.enabled else None,
            Fading(fading.half_life_days, fading.floor) if fading.enabled else None,
            self.settings.zone,
        )

    def _get_embedder(self) -> GuardedEmbedder | None:
        from stores.memory.embedding import GuardedEmbedder
        from turngraph.models.embedders import embedder_or_reason

        with self._lock:
            if not self._embedder_made:
                made, reason = self._given, None
                if made is None:
                    made, reason = embedder_or_reason(self.settings, self.places.cache)
                self._embedder = GuardedEmbedder(made) if made is not None else None
                self._no_embedder = reason
                self._embedder_made = True
            return self._embedder

    def _cache(self) -> EmbeddingCache | None:
        from stores.memory.embedding_cache import EmbeddingCache

        cache = self.settings.memory_search.cache
        if not cache.enabled:
            return None
        return EmbeddingCache(self.places.index.with_suffix(".embeddings.sqlite"), cache.max_entries)

    def _snapshot(self, connection: duckdb.DuckDBPyConnection | None = None) -> Snapshot:
        from stores.memory.snapshot import load_snapshot

        if connection is None:
            with self.database.read() as opened:
                return self._snapshot(opened)
        held = self._held
        # Nobody can write while a reader holds the file: the same connection has the same content.
        if held.snapshot is None or held.snapshot_of is not connection:
            held.snapshot = load_snapshot(connection, held.snapshot)
            held.snapshot_of = connection
        return held.snapshot

    def _facts(self) -> syncing.Facts:
        return self._snapshot().facts()

    def _indexed_bytes(self) -> int:
        return sum(row.size for row in self._snapshot().files.values())

    def _forgotten(self) -> Forgotten:
        return self._snapshot().forgotten if self.database.exists else {}

    @staticmethod
    def _keep_forgotten(beside: Database, forgotten: Forgotten) -> None:
        from stores.memory.writing import insert

        rows = [(*key, found) for key, hashes in forgotten.items() for found in sorted(hashes)]
        if rows:
            with beside.write() as connection:
                insert(connection, "forgotten", {"source": "VARCHAR", "path": "VARCHAR", "hash": "VARCHAR"}, rows)

    def _now_ms(self) -> int:
        return to_ms(self._clock.now())

    def _stamp(self) -> str:
        now: datetime = self._clock.now()
        return now.strftime("%Y%m%dT%H%M%S%f")


_HOW_TO_REBUILD = "run `turngraph memory index --force`; words are searched meanwhile"


@dataclass(frozen=True, slots=True)
class _VectorState:
    """The vector leg of one search, or why there is none."""

    meaning: tuple[Floats, Vectors] | None = None
    pending: int = 0
    fallback: str | None = None
    rebuild: str | None = None


def _disk(home: Home, agent_id: str, settings: AgentSettings) -> Disk:
    search = settings.memory_search
    workspace = Path(home.workspace(agent_id, settings))
    sources = effective_sources(search.sources, session_memory=search.experimental.session_memory)
    sessions = None
    if "sessions" in sources:
        grown = search.sync.sessions
        sessions = SessionSource(
            home.sessions_dir(agent_id),
            home.root / settings.sessions_file,
            settings.session.dm_scope != "main",
            grown.include_subagents,
            grown.delta_bytes,
            grown.delta_messages,
        )
    return Disk(workspace, extra_paths(workspace, search.extra_paths), sessions, sources)
