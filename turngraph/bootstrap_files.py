"""Bootstrap files: the small Markdown files of a workspace that stand in every system prompt (spec/context.md 2)."""

from __future__ import annotations

from dataclasses import dataclass

from turngraph.memory_paths import LEGACY_ROOT_MEMORY, ROOT_MEMORY

AGENTS = "AGENTS.md"
SOUL = "SOUL.md"
TOOLS = "TOOLS.md"
IDENTITY = "IDENTITY.md"
USER = "USER.md"
HEARTBEAT = "HEARTBEAT.md"
BOOTSTRAP = "BOOTSTRAP.md"

SEED_FILES = (AGENTS, SOUL, TOOLS, IDENTITY, USER, HEARTBEAT)
LOAD_ORDER = (*SEED_FILES, BOOTSTRAP)
MEMORY_NAMES = (ROOT_MEMORY, LEGACY_ROOT_MEMORY)
KNOWN_NAMES = frozenset((*LOAD_ORDER, *MEMORY_NAMES))


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """One file as the prompt may hold it.

    Attributes:
        name: base name, one of :data:`KNOWN_NAMES`.
        path: relative to the workspace, with ``/``.
        content: its text; ``None`` when it is missing.
        fault: why it could not be read although it is there; then ``content`` says so.
    """

    name: str
    path: str
    content: str | None = None
    fault: str | None = None

    @property
    def missing(self) -> bool:
        """Whether the file is not there."""
        return self.content is None
