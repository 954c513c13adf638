"""MemoryIndex: the memory of one agent, kept in step with its files and searched by words and meaning.

Opening is cheap: nothing is read, created or embedded before it is needed. All methods may be called from any thread
and from several processes; what is not possible at the moment is said in the result or raised as ``StoreError``.
The work is done by :class:`Keeper` (words and files), :class:`Meaning` (vectors) and :mod:`stores.memory.searching`.
Source: spec/memory.md 3 to 5, spec/stack.md 2 to 5, design decisions 9 and 14.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from stores.memory.database import IndexBusy
from stores.memory.keeping import Keeper
from stores.memory.meaning import Meaning, QueryMeaning
from stores.memory.note_reading import NotePart, read_note
from stores.memory.places import IndexPlaces, index_places
from stores.memory.reading import Sizes
from stores.memory.sync import elapsed_ms
from stores.memory.view import IndexView
from turngraph.clock import Clock, SystemClock, to_ms
from turngraph.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stores.home import Home
    from stores.memory.database import Database
    from stores.memory.results import ForgetReport, IndexStatus, Mode, SearchResult
    from stores.memory.searching import SearchRules
    from stores.memory.sync import Progress, SyncReport
    from turngraph.config import AgentSettings
    from turngraph.models.embedders import Embedder

# Of a chunk is ranked; the rest is the context that a hit shows around it. On LoCoMo hits of three quarters with two
# lines around hold .883 and .915 of the evidence (6 hits, 10) in 57 lines, whole chunks .878 and .913 in 70.
PASSAGE_SHARE = 0.75
SEARCH_WAITS_S = 1.0  # for a sync of this process; then what is indexed answers


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
        self.view = IndexView(places.index)
        self._clock = clock or SystemClock()
        self._background = background
        self._sync_lock = threading.Lock()
        self._sessions_seen: set[str] = set()
        self.meaning = Meaning(self.view, places, settings, embedder, lambda: to_ms(self._clock.now()))
        self._keeper = Keeper(self.view, places, self._sizes, self.meaning.embed_beside, self._stamp)

    @property
    def database(self) -> Database:
        """The index file."""
        return self.view.database

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
        places = index_places(home, agent_id, settings, cache_dir)
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
            embed: make vectors now, those of another model anew; ``None`` makes them in the background where there
                is one.
            progress: told (what, done, total).

        Raises:
            IndexBusy: another process holds the index.
            StoreError: the disk is full, or a forced rebuild could not make its vectors.
        """
        started = time.perf_counter()
        with self._sync_lock:
            report = self._keeper.sync(reason, force=force, progress=progress)
        if embed:
            report = self.meaning.embed_missing(report, progress)
        elif embed is None and self._background:
            self.meaning.embed_in_background()
        return replace(report, reason=reason, took_ms=elapsed_ms(started))

    def file_changed(self, path: str) -> None:
        """Note that a file of the workspace was written: the next search has read it. Costs nothing now."""
        self._keeper.mark(path)

    # Searching

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        corpus: str | None = None,
        scope: str | None = None,
        visible: Callable[[str], bool] | None = None,
        mode: Mode | None = None,
        refresh: bool = True,
        session_key: str | None = None,
    ) -> SearchResult:
        """Search memory; files that changed since the last look are read first.

        Args:
            query: any text.
            max_results, min_score: in place of the settings.
            corpus: ``memory``, ``sessions`` or ``all``; the configured sources unless given.
            scope: peer whose sessions may be found besides the agent's; see :func:`session_files.scope_of`.
            visible: tells which transcripts may be found, by the path that hits show.
            mode: legs to use; both where there are vectors, unless given.
            refresh: look at the disk first.
            session_key: who asks; the first search of a session looks as ``sync.onSessionStart`` says.

        Raises:
            IndexBusy: another process holds the index for longer than a search may wait.
            StoreError: the index cannot be read or the corpus is not indexed.
        """
        from stores.memory.results import SearchResult
        from stores.memory.searching import answer

        started = time.perf_counter()
        sources = self._sources(corpus)
        stale = self._refresh(session_key) if refresh else None
        if not self.database.exists:
            return SearchResult((), "keyword", None, 0, 0, stale=stale or "nothing is indexed yet")
        rules = self._rules(max_results, min_score)
        wants_words = mode != "vector" and (mode is not None or self._uses_words())
        with self.database.read() as connection:
            snapshot = self.view.snapshot(connection)
            found = QueryMeaning() if mode == "keyword" else self.meaning.of_query(connection, snapshot, query)
            wants_words = wants_words or (found.leg is None and mode is None)
            hits = answer(
                connection,
                query,
                snapshot,
                rules,
                sources=sources,
                scope=scope,
                visible=visible,
                now=self._clock.now(),
                by_words=wants_words,
                meaning=found.leg,
            )
        answered: Mode = "keyword" if found.leg is None else "hybrid" if wants_words else "vector"
        model = snapshot.meta.get("model") if found.leg else None
        return SearchResult(
            tuple(hits),
            answered,
            model,
            len(snapshot.files),
            snapshot.chunks,
            found.pending,
            found.fallback,
            stale,
            found.rebuild,
            self._keeper.problems,
            elapsed_ms(started),
        )

    def _refresh(self, session_key: str | None) -> str | None:
        """Bring changed files in before an answer; return why that could not be done."""
        dirty, exists, rules = self._keeper.dirty, self.database.exists, self.settings.memory_search.sync
        due = self._keeper.look_is_due
        begins = rules.on_session_start and session_key is not None and session_key not in self._sessions_seen
        self._sessions_seen |= {session_key} if session_key is not None else set()
        if exists and not dirty and not begins and not (due and rules.on_search):
            return None
        if exists and not self._sync_lock.acquire(timeout=SEARCH_WAITS_S):
            return "files are being read into the index"
        if exists:
            self._sync_lock.release()
        try:
            if begins and not rules.on_search:
                self.sync("session-start")
            elif dirty and not due:
                with self._sync_lock:
                    self._keeper.sync_paths(dirty)
                if self._background:
                    self.meaning.embed_in_background()
            else:
                self.sync("search")
        except IndexBusy as busy:
            return str(busy)
        return None

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
        ``delete``: a file goes whole, a hit by its lines. Source: design decision 14.

        Raises:
            NotFound: nothing fits.
        """
        from stores.memory.forgetting import forget

        return forget(self, path=path, session=session, query=query, delete=delete, confirmed=confirmed)

    def close(self) -> None:
        """Stop background work and let go of the file."""
        self.meaning.close()
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

    def _stamp(self) -> str:
        return self._clock.now().strftime("%Y%m%dT%H%M%S%f")
