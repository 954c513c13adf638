"""What should be indexed for an agent, as it lies on disk now."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stores.memory.files import ExtraPath, MemoryFile, list_memory_files, relative_path
from stores.memory.prepare import origin_of
from stores.memory.reading import Wanted
from stores.memory.session_files import Growth, grow, growth_is_due, list_session_files, live_path
from stores.memory.sync import Facts
from stores.memory.tombstones import Forgotten


@dataclass(frozen=True, slots=True)
class SessionSource:
    """How transcripts are indexed.

    Attributes:
        folder: the agent's transcripts. store: ``sessions.json``.
        separated: whether direct messages of different people are kept apart.
        include_subagents, delta_bytes, delta_messages: see the settings.
    """

    folder: Path
    store: Path
    separated: bool
    include_subagents: bool
    delta_bytes: int
    delta_messages: int


@dataclass(frozen=True, slots=True)
class Disk:
    """Places of an agent's memory, and which of them are sources."""

    workspace: Path
    extra: tuple[ExtraPath, ...] = ()
    sessions: SessionSource | None = None
    sources: tuple[str, ...] = ("memory",)

    def look(self, sources: Collection[str], forgotten: Forgotten, problems: list[str]) -> list[Wanted]:
        """List everything that should be indexed; what cannot be listed is added to ``problems``."""
        wanted: list[Wanted] = []
        if "memory" in sources and "memory" in self.sources:
            listing = list_memory_files(self.workspace, self.extra)
            problems += listing.problems
            wanted += [_note(file, forgotten) for file in listing.files.values()]
        if "sessions" in sources and self.sessions:
            wanted += list(self._transcripts(self.sessions, forgotten))
        return wanted

    def note(self, path: str, forgotten: Forgotten) -> Wanted | None:
        """Return one memory file by its index path, ``None`` when it is not there."""
        absolute = self.workspace / path
        try:
            facts = absolute.lstat()
        except OSError:
            return None
        shown = relative_path(str(self.workspace), str(absolute))
        return _note(MemoryFile(shown, str(absolute), facts.st_size, facts.st_mtime_ns), forgotten)

    def due(self, wanted: list[Wanted], indexed: Facts) -> list[Wanted]:
        """Let transcripts that have not grown enough wait (spec/sessions.md 7.4)."""
        source = self.sessions
        if source is None:
            return wanted
        return [item if _is_due(item, indexed, source) else replace(item, waits=True) for item in wanted]

    def _transcripts(self, source: SessionSource, forgotten: Forgotten) -> Iterator[Wanted]:
        found = list_session_files(
            source.folder,
            keys_by_session(source.store),
            separated=source.separated,
            include_subagents=source.include_subagents,
        )
        for path, session in found.items():
            gone = frozenset().union(*(forgotten.get(("sessions", name), ()) for name in (path, live_path(path))))
            yield Wanted("sessions", session.file, session.scope, session.kind, session.origin, forgotten=gone)


def effective_sources(sources: Collection[str], *, session_memory: bool) -> tuple[str, ...]:
    """Return the sources that count: transcripts only with their switch, and memory where nothing is left.

    Source: spec/memory.md 1.6.
    """
    return tuple(s for s in ("memory", "sessions") if s in sources and (s == "memory" or session_memory)) or ("memory",)


def session_entries(store: Path) -> dict[str, dict[str, Any]]:
    """Return the sessions by key as ``sessions.json`` has them now; a damaged one is for the session store to mend."""
    import orjson

    try:
        entries = orjson.loads(store.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return (
        {key: entry for key, entry in entries.items() if isinstance(entry, dict)} if isinstance(entries, dict) else {}
    )


def keys_by_session(store: Path) -> dict[str, str]:
    """Return session id -> key."""
    entries = session_entries(store).items()
    return {entry["sessionId"]: key for key, entry in entries if isinstance(entry.get("sessionId"), str)}


def _note(file: MemoryFile, forgotten: Forgotten) -> Wanted:
    gone = forgotten.get(("memory", file.path), frozenset())
    return Wanted("memory", file, origin=origin_of(file.path), forgotten=gone)


def _is_due(item: Wanted, indexed: Facts, source: SessionSource) -> bool:
    known = indexed.get((item.source, item.file.path))
    if item.source != "sessions" or known is None:
        return True
    if item.file.size < known[1] or item.file.size == known[1]:
        return True
    growth = grow(Growth(known[1]), Path(item.file.absolute), source.delta_bytes, source.delta_messages)
    return growth_is_due(growth, source.delta_bytes, source.delta_messages)
