"""What a provider wants on top of plain messages: cache marks for Anthropic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turngraph.models.model import ModelFacts, ModelRequest

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

CACHE_MARK = {"type": "ephemeral"}


def shaper(facts: ModelFacts) -> Callable[[list[BaseMessage], ModelRequest], list[BaseMessage]] | None:
    """Return the last change to a request of this model, if its provider needs one."""
    return mark_cache if facts.api == "anthropic-messages" else None


def mark_cache(messages: list[BaseMessage], request: ModelRequest) -> list[BaseMessage]:
    """Set cache marks on the stable part of the system prompt and on the last user turn.

    The provider caches everything up to a mark, so the next request of the session reads it again.
    """
    from langchain_core.messages import HumanMessage, SystemMessage

    marked = list(messages)
    if marked and isinstance(marked[0], SystemMessage) and request.stable_system_chars:
        stable, rest = request.system[: request.stable_system_chars], request.system[request.stable_system_chars :]
        parts: list[str | dict[str, Any]] = [{"type": "text", "text": stable, "cache_control": CACHE_MARK}]
        if rest.strip():
            parts.append({"type": "text", "text": rest})
        marked[0] = SystemMessage(content=parts)
    for index in range(len(marked) - 1, -1, -1):
        if isinstance(marked[index], HumanMessage):
            marked[index] = HumanMessage(content=_with_mark(marked[index].content))
            break
    return marked


def _with_mark(content: str | list[Any]) -> list[Any]:
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if blocks and isinstance(blocks[-1], dict):
        blocks[-1] = {**blocks[-1], "cache_control": CACHE_MARK}
    return blocks
