"""An agent's memory in a temporary home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stores.home import Home
from stores.memory.index import MemoryIndex
from turngraph.config import AgentSettings, default_settings


class Notes:
    """A workspace and the indexes opened on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "workspace"
        (self.workspace / "memory").mkdir(parents=True)
        self.opened: list[MemoryIndex] = []

    def write(self, path: str, text: str) -> Path:
        file = self.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def settings(self, **search: Any) -> AgentSettings:
        """Return settings with keys of ``memorySearch`` as they stand on disk."""
        base = default_settings()
        merged = type(base.memory_search).model_validate({"provider": "none", **search})
        return base.model_copy(update={"memory_search": merged})

    def index(self, embedder: Any = None, **search: Any) -> MemoryIndex:
        provider = {} if "provider" in search else {"provider": "auto" if embedder is not None else "none"}
        settings = self.settings(**provider, **search)
        index = MemoryIndex.open(Home(self.root), "main", settings, embedder=embedder, cache_dir=self.root / "cache")
        self.opened.append(index)
        return index

    def close(self) -> None:
        for index in self.opened:
            index.close()


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Notes]:
    made = Notes(tmp_path)
    yield made
    made.close()


@pytest.fixture
def paths_of() -> Callable[..., list[str]]:
    """Return the paths that a search finds, best first."""

    def search(index: MemoryIndex, query: str, **options: Any) -> list[str]:
        return [hit.path for hit in index.search(query, **options).hits]

    return search
