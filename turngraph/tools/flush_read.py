"""``read`` in a memory flush: the day's note that is not there yet is no error.

Source: spec/compaction.md 1.5 (there the file is made beforehand; here none is left behind when nothing is noted).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngraph.tools.paths import place_in_workspace
from turngraph.tools.read import ReadTool
from turngraph.tools.result import ToolFailure, text_result
from turngraph.tools.tool import ToolContext, ToolResult


class FlushReadTool(ReadTool):
    """Read files of the workspace.

    Args:
        path: the day's note, relative to the workspace.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def _read(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        try:
            return super()._read(arguments, context)
        except ToolFailure as failure:
            note = place_in_workspace(self._path, context.workspace)
            if (
                failure.code != "NOT_FOUND"
                or place_in_workspace(arguments["path"], context.workspace).parts != note.parts
            ):
                raise
            return text_result(f"{self._path} is empty: nothing has been noted on this day.", {"path": self._path})
