"""``memory_get``: read a part of a memory file.

Source: spec/memory.md 5.2, spec/tools.md 7, known-faults 8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stores.memory.index import MemoryIndex
from stores.memory.note_reading import NotAllowed, NotePart
from stores.memory.session_files import SESSIONS_FOLDER
from turngraph.messages import compact_json
from turngraph.models.model import ToolSpec
from turngraph.tools.memory_answers import disabled, neutralised
from turngraph.tools.result import error_result, text_result
from turngraph.tools.tool import ToolContext, ToolResult

if TYPE_CHECKING:
    from turngraph.config import AgentSettings


class MemoryGetTool:
    """Read lines of a memory file; see :class:`turngraph.tools.memory_search.MemorySearchTool` for the arguments."""

    spec = ToolSpec(
        "memory_get",
        "Read lines of a memory file (MEMORY.md, USER.md, memory/*.md, extra paths) that memory_search named. Without "
        "lines it shows 120, at most 12,000 characters; when more is left the last line says which from goes on. "
        "A file that does not exist yet is no error. Refused: other files, links, transcripts.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "from": {"type": "integer", "minimum": 1},
                "lines": {"type": "integer", "minimum": 1},
            },
            "required": ["path"],
        },
    )

    def __init__(self, index: MemoryIndex, settings: AgentSettings, chat_type: str = "direct") -> None:
        self._index = index
        self._settings = settings
        self._chat_type = chat_type

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        path = arguments.get("path")
        return path if isinstance(path, str) else None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        allowed = self._settings.memory_search.allowed_chat_types
        if self._chat_type not in allowed:
            refusal = disabled(self._chat_type, allowed)
            text = {"path": arguments.get("path"), "text": "", **{k: v for k, v in refusal.items() if k != "results"}}
            return text_result(compact_json(text), {"disabled": True, "error": refusal["error"]})
        return await asyncio.to_thread(self._get, arguments)

    def _get(self, arguments: Mapping[str, Any]) -> ToolResult:
        path = str(arguments.get("path", ""))
        if path.strip().startswith(SESSIONS_FOLDER):
            return _refused(path, "transcripts cannot be read here; use the snippet that memory_search showed")
        try:
            part = self._index.get(path, arguments.get("from"), arguments.get("lines"))
        except NotAllowed as error:
            return _refused(path, str(error))
        answer = note_answer(part)
        return text_result(compact_json(answer), {key: value for key, value in answer.items() if key != "text"})


def note_answer(part: NotePart) -> dict[str, Any]:
    """Return what the model sees of a part of a note."""
    if part.status == "not_found":
        return {"status": "not_found", "path": part.path, "text": "", "missing": True}
    more = {"truncated": True, "nextFrom": part.next_line} if part.next_line is not None else {}
    return {
        "status": "ok",
        "path": part.path,
        "from": part.first_line,
        "lines": part.lines,
        "text": neutralised(part.text),
        **more,
    }


def _refused(path: str, reason: str) -> ToolResult:
    answer = {"status": "error", "code": "NOT_ALLOWED", "error": f"Not allowed: {reason}", "path": path, "text": ""}
    result = error_result("NOT_ALLOWED", compact_json(answer))
    return ToolResult(result.content, {key: value for key, value in answer.items() if key != "text"}, is_error=True)
