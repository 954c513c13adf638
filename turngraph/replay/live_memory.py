"""A memory search of a replay that sees what the session knew by then, in place of the recorded answer.

The notes of the working copy and the session's own earlier entries are searched; what came later in the record is not
there yet. Source: spec/seeing.md 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.messages import compact_json
from turngraph.models.model import ToolSpec
from turngraph.replay.calls import Notes
from turngraph.replay.earlier import EarlierSearch, Passage
from turngraph.text import head
from turngraph.tools.result import text_result
from turngraph.tools.tool import ToolContext, ToolResult

SEARCH_TOOL = "memory_search"
MAX_RESULTS = 6  # default of memorySearch.query
LARGEST_MAX_RESULTS = 50
SNIPPET_CHARS = 700


@dataclass(frozen=True, slots=True)
class LiveMemorySearch:
    """Answers ``memory_search`` by the keyword search of :mod:`turngraph.replay.earlier`."""

    spec: ToolSpec
    earlier: EarlierSearch
    notes: Notes

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        wanted = arguments.get("maxResults")
        most = wanted if isinstance(wanted, int) and 0 < wanted <= LARGEST_MAX_RESULTS else MAX_RESULTS
        self.earlier.take(self.notes.now())
        hits = self.earlier.find(str(arguments.get("query") or ""), most)
        answer = {"results": [_shown(hit) for hit in hits], "mode": "keyword", "provider": "replay"}
        return text_result(compact_json(answer), {"count": len(hits), "mode": "keyword"})


def _shown(hit: Passage) -> dict[str, Any]:
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": head(hit.text, SNIPPET_CHARS),
        "source": "sessions" if hit.path.startswith("session/") else "memory",
    }
