"""The contract of a tool: arguments in, content blocks and details out (spec/tools.md section 1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from turngraph.clock import Clock
from turngraph.models.model import ToolSpec


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back; ``content`` is never empty, ``details`` is at most 8,192 bytes of JSON."""

    content: list[dict[str, Any]]
    details: Mapping[str, Any] = field(default_factory=dict)
    is_error: bool = False


@dataclass(slots=True)
class ToolContext:
    """What a tool call may use.

    Attributes:
        workspace: root that paths may not leave.
        media: folder of stored images and long outputs (``sessions/media``).
        clock: time.
        cancel: set when the turn is cancelled.
        deadline_s: seconds the turn has left, ``None`` for no limit.
        session_key, call_id: the session that calls, and the id of the call.
        update: sink for live output.
        file_changed: told the workspace-relative path after a write or edit, before the result goes out.
    """

    workspace: Path
    media: Path
    clock: Clock
    cancel: asyncio.Event
    deadline_s: float | None = None
    session_key: str = ""
    call_id: str = ""
    update: Callable[[str], None] | None = None
    file_changed: Callable[[str], Awaitable[None]] | None = None


class Tool(Protocol):
    """A tool: its specification, and ``execute``; it never raises to the loop."""

    @property
    def spec(self) -> ToolSpec: ...

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the file a call works on, so that calls on one file run in order; ``None`` for none."""
        ...

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run the call with arguments that fit the schema."""
        ...
