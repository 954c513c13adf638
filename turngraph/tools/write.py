"""``write``: replace a whole file; in a memory flush, add to the day's note and to nothing else.

Source: spec/tools.md sections 1.4 and 3, spec/compaction.md section 1.4, known-faults 6.1 and 6.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from turngraph.models.model import ToolSpec
from turngraph.tools.file_writes import append_to_file, encoded, replace_file
from turngraph.tools.paths import Place, announce_change, open_regular, order_key, place_in_workspace
from turngraph.tools.result import ABORTED_TEXT, ToolFailure, answered, text_result
from turngraph.tools.tool import ToolContext, ToolResult

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "file, relative to the workspace"},
        "content": {"type": "string", "description": "the whole new content"},
    },
    "required": ["path", "content"],
}


class WriteTool:
    """Write whole files of the workspace.

    Args:
        memory_refusal: why this run may not touch memory files, ``None`` when it may.
    """

    spec = ToolSpec(
        "write",
        "Write a text file of the workspace: makes missing folders, replaces the whole file, adds no newline. "
        "At most 5 MiB. To change part of a file use edit; to add to a file read it first. "
        "Refused: paths outside the workspace, anything that is not a regular file.",
        _PARAMETERS,
    )

    def __init__(self, memory_refusal: str | None = None) -> None:
        self._memory_refusal = memory_refusal

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return order_key(arguments)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await answered(self._write(arguments, context), arguments["path"])

    async def _write(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        place = place_in_workspace(arguments["path"], context.workspace, self._memory_refusal)
        data = encoded(arguments["content"], "content")
        if context.cancel.is_set():
            raise ToolFailure("ABORTED", ABORTED_TEXT)
        previous = await asyncio.to_thread(replace_file, place, data)
        await announce_change(context, place)
        details = {"path": place.name, "operation": "create", "bytes": len(data)}
        if previous is None:
            return text_result(f"Wrote {len(data)} bytes to {place.name} (new)", details)
        details |= {"operation": "overwrite", "previousBytes": previous}
        return text_result(f"Wrote {len(data)} bytes to {place.name} (replaced {previous} bytes)", details)


class FlushWriteTool:
    """The ``write`` of a memory flush: appends to one file and refuses every other.

    Args:
        path: the day's note, relative to the workspace.
    """

    spec = ToolSpec(
        "write",
        "Append text to the day's note that the prompt names, the only file that may be written now. What it holds "
        "stays as it is, so give only what is new. At most 5 MiB. Every other path is refused.",
        _PARAMETERS,
    )

    def __init__(self, path: str) -> None:
        self._path = path

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return order_key({"path": self._path})

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await answered(self._append(arguments, context), arguments["path"])

    async def _append(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        target = place_in_workspace(self._path, context.workspace)
        if not self._is_target(arguments["path"], target, context):
            raise ToolFailure(
                "NOT_ALLOWED", f"Not allowed: {arguments['path']}. In a memory flush write only to {self._path}."
            )
        encoded(arguments["content"], "content")
        if context.cancel.is_set():
            raise ToolFailure("ABORTED", ABORTED_TEXT)
        added = await asyncio.to_thread(_append_new, target, arguments["content"])
        if added:
            await announce_change(context, target)
        details = {"path": target.name, "operation": "append", "appendOnly": True, "bytes": added}
        return text_result(f"Appended content to {target.name}.", details)

    def _is_target(self, given: str, target: Place, context: ToolContext) -> bool:
        try:
            return place_in_workspace(given, context.workspace).parts == target.parts
        except ToolFailure:
            return False


def flush_write_tool(path: str) -> FlushWriteTool:
    """Make the ``write`` tool of a flush into the day's note ``path``."""
    return FlushWriteTool(path)


def addition(existing: str, payload: str) -> str:
    """Return what to append so that ``payload`` stands in the file and nothing stands there twice.

    A payload that begins with what the file holds adds only the rest, one that the file already ends with adds
    nothing. Blank lines and blanks at line ends do not count. The addition starts on a line of its own.

    >>> addition("# Day\\n- a\\n", "# Day\\n- a\\n- b\\n")
    '- b\\n'
    >>> addition("- a", "- b")
    '\\n- b'
    """
    held, added = _written_lines(existing), _written_lines(payload)
    if not added or held[-len(added) :] == added:
        return ""
    ends_open = bool(existing) and not existing.endswith("\n")
    if held and added[: len(held)] == held:
        return "\n" * ends_open + _after_written_lines(payload, len(held))
    return "\n" + payload if ends_open and not payload.startswith("\n") else payload


def _written_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _after_written_lines(text: str, count: int) -> str:
    lines = text.splitlines(keepends=True)
    written = [index for index, line in enumerate(lines) if line.strip()]
    return "".join(lines[written[count - 1] + 1 :])


def _append_new(target: Place, payload: str) -> int:
    try:
        with open_regular(target) as file:
            existing = file.read().decode("utf-8", "replace")
    except ToolFailure as failure:
        if failure.code != "NOT_FOUND":
            raise
        existing = ""
    data = addition(existing, payload).encode("utf-8")
    if data:
        append_to_file(target, data)
    return len(data)
