"""The home folder: where everything of a turngraph or OpenClaw installation lies (design.md, Disk)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from turngraph.errors import NotFound

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

OWN_SETTINGS = "turngraph.json5"
FOREIGN_SETTINGS = "openclaw.json"


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below one home folder; nothing is created here."""

    root: Path

    @classmethod
    def find(cls, flag: Path | None, env: Mapping[str, str]) -> Home:
        """Return the home that ``--home`` names, else ``TURNGRAPH_HOME``, else ``~/.turngraph``; it need not exist.

        Raises:
            NotFound: a file stands where the folder should be.
        """
        chosen = (flag or Path(env.get("TURNGRAPH_HOME") or "~/.turngraph")).expanduser().absolute()
        if chosen.exists() and not chosen.is_dir():
            raise NotFound(f"{chosen} is a file; a home is a folder. --home or TURNGRAPH_HOME names it.")
        return cls(chosen)

    @property
    def is_foreign(self) -> bool:
        """Whether this is an OpenClaw home: it has its settings file and not ours."""
        return (self.root / FOREIGN_SETTINGS).is_file() and not (self.root / OWN_SETTINGS).is_file()

    @property
    def holds_indexes(self) -> bool:
        """Whether what we derive may lie in it: it is ours and can be written, as a mounted snapshot cannot."""
        return not self.is_foreign and (os.access(self.root, os.W_OK) or not self.root.exists())

    def workspace(self, agent_id: str, settings: AgentSettings) -> Path:
        """Return the workspace of an agent as its settings name it, else ``workspace`` or ``workspace-<agent>``."""
        if settings.workspace:
            named = Path(settings.workspace).expanduser()
            return named if named.is_absolute() else self.root / named
        default = agent_id == settings.root.default_agent_id
        return self.root / ("workspace" if default else f"workspace-{agent_id}")

    def agent_dir(self, agent_id: str) -> Path:
        return self.root / "agents" / agent_id

    def sessions_dir(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "sessions"

    def media_dir(self, agent_id: str) -> Path:
        return self.sessions_dir(agent_id) / "media"

    def events_file(self, agent_id: str) -> Path:
        return self.agent_dir(agent_id) / "events.jsonl"

    @property
    def memory_dir(self) -> Path:
        return self.root / "memory"

    @property
    def cron_dir(self) -> Path:
        return self.root / "cron"

    @property
    def traces_dir(self) -> Path:
        return self.root / "traces"

    def cache_dir(self, env: Mapping[str, str] | None = None) -> Path:
        """Return our own folder for what is derived from a home that is not to be written (``XDG_CACHE_HOME``)."""
        values = os.environ if env is None else env
        base = Path(values.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return base / "turngraph" / sha256(str(self.root).encode()).hexdigest()[:16]
