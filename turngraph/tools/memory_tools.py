"""``memory_search`` and ``memory_get`` for one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stores.memory.session_files import scope_of
from turngraph.session_keys import chat_type
from turngraph.tools.memory_get import MemoryGetTool
from turngraph.tools.memory_search import Listener, MemorySearchTool
from turngraph.tools.tool import Tool

if TYPE_CHECKING:
    from stores.memory.index import MemoryIndex
    from turngraph.config import AgentSettings


def memory_tools(
    index: MemoryIndex, settings: AgentSettings, *, session_key: str, on_search: Listener | None = None
) -> Sequence[Tool]:
    """Make the memory tools of a session; outside the allowed chats they answer ``disabled`` with the reason.

    Where direct messages are separated, a session finds the transcripts of its own peer and no other's.
    """
    kind = chat_type(session_key)
    chat = "direct" if kind == "unknown" else kind
    scope = scope_of(session_key, separated=settings.session.dm_scope != "main")
    search = MemorySearchTool(index, settings, chat, scope, on_search, session_key=session_key)
    return search, MemoryGetTool(index, settings, chat)
