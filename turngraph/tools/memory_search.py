"""``memory_search``: find what was noted or said before.

Source: spec/memory.md 5.1, spec/tools.md 6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from stores.memory.database import IndexBusy
from stores.memory.index import MemoryIndex
from stores.memory.snippets import citation, citations_wanted, with_citation
from turngraph.decisions import Decision
from turngraph.errors import ModelError, StoreError
from turngraph.messages import compact_json
from turngraph.models.model import ToolSpec
from turngraph.tools.memory_answers import QUOTED_NOTE, disabled, neutralised, store_unavailable, unavailable
from turngraph.tools.result import text_result
from turngraph.tools.session_visibility import sight
from turngraph.tools.tool import ToolContext, ToolResult

if TYPE_CHECKING:
    from stores.memory.results import Hit, SearchResult
    from turngraph.config import AgentSettings

ChatType = Literal["direct", "group", "channel"]
Listener = Callable[[str, "SearchResult"], None]
_CORPORA = ("memory", "sessions", "all")


def recalled(query: str, result: SearchResult) -> Decision:
    """Return the decision that keeps a search with the score parts of each hit."""
    best = result.hits[0] if result.hits else None
    found = f"best {best.path}#L{best.start_line} at {best.score:.2f}" if best else "nothing found"
    hits = [
        {
            "path": hit.path,
            "startLine": hit.start_line,
            "endLine": hit.end_line,
            "source": hit.source,
            "snippet": hit.snippet,
            **asdict(hit.explanation),
        }
        for hit in result.hits
    ]
    return Decision(
        node="prompt:tools",
        what="recalled",
        why=f"memory_search ({result.mode}): {len(hits)} hits of {result.chunks} chunks, {result.files} files; {found}",
        count_after=len(hits),
        data={"query": query, "mode": result.mode, "model": result.model, "hits": hits},
    )


class MemorySearchTool:
    """Search the memory index of an agent.

    Args:
        index: its index.
        settings: its settings.
        chat_type: kind of chat the run answers.
        scope: peer whose sessions may be found besides the agent's.
        session_key: the session that asks.
        on_search: told (query, result) after each search; scores in parts go to the trace, not to the model.
    """

    spec = ToolSpec(
        "memory_search",
        "Search long-term memory (MEMORY.md, memory/*.md, and transcripts where enabled) by words and meaning. Search "
        "before you answer about earlier work, decisions, dates, people, preferences or open points. At most 50 hits, "
        "each a part of a file with its lines; memory_get shows more of it. When the answer says disabled, tell the "
        "user that memory was not searched.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1},
                "maxResults": {"type": "integer", "minimum": 1, "maximum": 50},
                "minScore": {"type": "number", "minimum": 0, "maximum": 1},
                "corpus": {"enum": list(_CORPORA)},
            },
            "required": ["query"],
        },
    )

    def __init__(
        self,
        index: MemoryIndex,
        settings: AgentSettings,
        chat_type: ChatType = "direct",
        scope: str | None = None,
        on_search: Listener | None = None,
        *,
        session_key: str | None = None,
    ) -> None:
        self._session_key = session_key
        self._index = index
        self._settings = settings
        self._chat_type: ChatType = chat_type
        self._scope = scope
        self._on_search = on_search

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        allowed = self._settings.memory_search.allowed_chat_types
        if self._chat_type not in allowed:
            return _answer(disabled(self._chat_type, allowed))
        return await asyncio.to_thread(self._search, arguments)

    def _search(self, arguments: Mapping[str, Any]) -> ToolResult:
        query = str(arguments.get("query", ""))
        try:
            result = self._index.search(
                query,
                max_results=arguments.get("maxResults"),
                min_score=arguments.get("minScore"),
                corpus=self._corpus(arguments.get("corpus")),
                scope=self._scope,
                visible=self._sight(),
                session_key=self._session_key,
            )
        except IndexBusy as busy:
            return _answer(store_unavailable(str(busy)))
        except ModelError as error:
            return _answer(unavailable(str(error)))
        except StoreError as error:
            return _answer(store_unavailable(str(error)))
        if self._on_search is not None:
            self._on_search(query, result)
        return self._found(result)

    def _sight(self) -> Callable[[str], bool] | None:
        visibility, key = self._settings.tools.sessions.visibility, self._session_key
        return sight(visibility, key, self._index.places.session_entries()) if key is not None else None

    def _corpus(self, wanted: Any) -> str | None:
        # What one person said in a direct chat is not for a room: spec/memory.md 4.9.
        if self._chat_type != "direct" and wanted in (None, "all"):
            return "memory"
        if self._chat_type != "direct" and wanted == "sessions":
            raise StoreError(f"transcripts are not searched in {self._chat_type} chats")
        return wanted if wanted is None else str(wanted)

    def _found(self, result: SearchResult) -> ToolResult:
        citing = self._settings.memory.citations
        cite = citations_wanted(citing, self._chat_type)
        answer: dict[str, Any] = {
            "results": [_shown(hit, cite=cite) for hit in result.hits],
            "provider": self._settings.memory_search.provider,
            "model": result.model,
            "mode": result.mode,
            "citations": citing,
            "searched": {"files": result.files, "chunks": result.chunks},
            "note": QUOTED_NOTE,
        }
        answer |= _reservations(result)
        details = {
            "count": len(result.hits),
            "hits": [
                {"path": hit.path, "startLine": hit.start_line, "endLine": hit.end_line, "score": round(hit.score, 4)}
                for hit in result.hits
            ],
            "tookMs": result.took_ms,
            "mode": result.mode,
        }
        return text_result(compact_json(answer), details)


def _answer(value: Mapping[str, Any]) -> ToolResult:
    return text_result(compact_json(value), {"count": 0, "disabled": True, "error": value["error"]})


def _shown(hit: Hit, *, cite: bool) -> dict[str, Any]:
    snippet = neutralised(hit.snippet)
    cited = citation(hit.path, hit.start_line, hit.end_line)
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 4),
        "snippet": with_citation(snippet, cited) if cite else snippet,
        "source": hit.source,
        **({"citation": cited} if cite else {}),
    }


def _reservations(result: SearchResult) -> dict[str, Any]:
    """Return what limits the answer, where it applies."""
    said: dict[str, Any] = {}
    if result.pending:
        said["partial"] = {"pending": result.pending}
    if result.stale:
        said["stale"] = result.stale
    if result.fallback:
        said["fallback"] = {"reason": result.fallback}
    if result.rebuild:
        said["warning"] = result.rebuild
    if result.problems:
        said["warning"] = "; ".join(filter(None, (said.get("warning"), *result.problems)))
    if not result.files:
        said["action"] = "Nothing is indexed: write to MEMORY.md or memory/*.md, or run `turngraph memory index`."
    return said
