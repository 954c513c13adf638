"""What tests of tools say often."""

from __future__ import annotations

from collections.abc import Callable

from turngraph.tools.tool import ToolResult

Call = Callable[..., ToolResult]


def text_of(result: ToolResult) -> str:
    """The first text block of a result."""
    return str(result.content[0]["text"])
