"""A workspace on a real disk, and calls as the agent loop makes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.turngraph.tools.calls import Call
from turngraph.clock import FixedClock
from turngraph.tools.arguments import fit_arguments
from turngraph.tools.tool import Tool, ToolContext, ToolResult


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def changed() -> list[str]:
    """Paths that the turn was told of."""
    return []


@pytest.fixture
def new_context(workspace: Path, tmp_path: Path, changed: list[str]) -> Callable[..., ToolContext]:
    """Make a context; a call needs one of its own, because the cancel event belongs to its event loop."""

    async def file_changed(path: str) -> None:
        changed.append(path)

    def make(**fields: Any) -> ToolContext:
        clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
        return ToolContext(workspace, tmp_path / "media", clock, asyncio.Event(), file_changed=file_changed, **fields)

    return make


@pytest.fixture
def call(new_context: Callable[..., ToolContext]) -> Call:
    """Check the arguments and run one call."""

    def run(tool: Tool, **arguments: Any) -> ToolResult:
        fitted, problem = fit_arguments(tool.spec, arguments)
        assert problem is None, problem

        async def execute() -> ToolResult:
            return await tool.execute(fitted, new_context())

        return asyncio.run(execute())

    return run
