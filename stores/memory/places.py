"""Where the memory of an agent lies, its index, and what belongs to the index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stores.memory.disk import Disk, SessionSource, effective_sources, session_entries
from stores.memory.files import extra_paths

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings


@dataclass(frozen=True, slots=True)
class IndexPlaces:
    """Where an index and what belongs to it lie.

    Attributes:
        disk: what is indexed.
        index: the DuckDB file; embeddings, tombstones and the vector sidecar lie beside it.
        transcripts: the agent's transcripts, whether they are a source or not.
        cache: folder for unpacked models.
    """

    disk: Disk
    index: Path
    cache: Path
    transcripts: Path

    def session_entries(self) -> dict[str, dict[str, Any]]:
        """Return the table of sessions, empty where transcripts are no source."""
        return session_entries(self.disk.sessions.store) if self.disk.sessions else {}


def index_places(home: Home, agent_id: str, settings: AgentSettings, cache_dir: Path | None = None) -> IndexPlaces:
    """Return the places of an agent.

    The index of a home that is foreign, or that cannot be written, lies in ``cache_dir``, ours for that home.
    """
    cache = cache_dir or home.cache_dir()
    own = home.root / settings.index_file
    index = own if home.holds_indexes else cache / "memory" / f"{agent_id}.duckdb"
    models = cache if cache_dir else cache.parent
    return IndexPlaces(_disk(home, agent_id, settings), index, models, home.sessions_dir(agent_id))


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
