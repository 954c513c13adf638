"""What a provider wants on top of plain messages: cache marks, places for images, thinking and length arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turngraph.messages import compact_json
from turngraph.models.content_parts import ANTHROPIC, GEMINI
from turngraph.models.model import ModelFacts, ModelRequest
from turngraph.text import well_formed

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolMessage

Shape = Callable[[list["BaseMessage"], ModelRequest], list["BaseMessage"]]

CACHE_MARK = {"type": "ephemeral"}
IMAGES_ABOVE = "The images that the tools above returned:"
_THINKING_TOKENS: Mapping[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}  # Pi's budgets
_LEAST_THINKING_TOKENS = 1024  # Anthropic's minimum
# Later models of Anthropic take an effort and choose the budget themselves (since 4.6; required since 4.7).
_TAKES_BUDGET = re.compile(r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[015])?(?:-\d{8})?$)")


def shaper(facts: ModelFacts) -> Shape:
    """Return the last change to the messages of a request to this model."""
    if facts.api == ANTHROPIC:
        return mark_cache
    if facts.api == GEMINI:
        return lambda messages, _: name_results(lift_images(messages))
    return lambda messages, _: lift_images(messages)


def mark_cache(messages: list[BaseMessage], request: ModelRequest) -> list[BaseMessage]:
    """Set cache marks on the stable part of the system prompt, on the newest user message and on what ends the request.

    The provider caches everything up to a mark, so the next request reads it again: the next turn up to the user's
    message, the next call of a tool loop up to the results.
    """
    from langchain_core.messages import HumanMessage, SystemMessage

    marked = list(messages)
    stable, rest = request.system[: request.stable_system_chars], request.system[request.stable_system_chars :]
    if marked and isinstance(marked[0], SystemMessage) and stable.strip():
        parts: list[str | dict[str, Any]] = [{"type": "text", "text": well_formed(stable), "cache_control": CACHE_MARK}]
        if rest.strip():
            parts.append({"type": "text", "text": well_formed(rest)})
        marked[0] = SystemMessage(content=parts)
    newest = next((i for i in range(len(marked) - 1, -1, -1) if isinstance(marked[i], HumanMessage)), None)
    for index in {newest, len(marked) - 1} - {None}:
        assert index is not None
        if marked[index].type in ("human", "tool"):
            marked[index] = marked[index].model_copy(update={"content": _with_mark(marked[index].content)})
    return marked


def _with_mark(content: str | list[Any]) -> list[Any]:
    blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if blocks and isinstance(blocks[-1], dict):
        blocks[-1] = {**blocks[-1], "cache_control": CACHE_MARK}
    return blocks


def lift_images(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Move the images of tool results into a user message behind them: only Anthropic takes them in a result."""
    from langchain_core.messages import HumanMessage, ToolMessage

    lifted: list[BaseMessage] = []
    waiting: list[Any] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            images = [part for part in message.content if isinstance(part, dict) and part.get("type") == "image"]
            waiting += images
            lifted.append(_text_only(message) if images else message)
            continue
        if waiting and isinstance(message, HumanMessage):
            own: list[Any] = (
                [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
            )
            message = message.model_copy(update={"content": [_text(IMAGES_ABOVE), *waiting, *own]})
        elif waiting:
            lifted.append(HumanMessage(content=[_text(IMAGES_ABOVE), *waiting]))
        waiting = []
        lifted.append(message)
    return [*lifted, HumanMessage(content=[_text(IMAGES_ABOVE), *waiting])] if waiting else lifted


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _text_only(message: ToolMessage) -> ToolMessage:
    texts = [part for part in message.content if not (isinstance(part, dict) and part.get("type") == "image")]
    return message.model_copy(update={"content": texts or "(an image, see below)"})


def name_results(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Write tool results as the object that Gemini takes, so that none is read as JSON by accident (``NaN`` is not)."""
    from langchain_core.messages import ToolMessage

    named: list[BaseMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            key = "error" if message.status == "error" else "output"
            message = message.model_copy(update={"content": compact_json({key: _plain(message.content)})})
        named.append(message)
    return named


def _plain(content: str | list[Any]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part if isinstance(part, str) else str(part.get("text", "")) for part in content)


def call_arguments(facts: ModelFacts, request: ModelRequest) -> dict[str, Any]:
    """Return the arguments of the call that limit the answer and set the thinking level, by the provider's names."""
    limit = request.max_output_tokens
    level = request.thinking if facts.reasoning else "off"
    if facts.api == "ollama":
        return _for_ollama(facts, limit, level)
    if facts.api == GEMINI:
        return ({"max_output_tokens": limit} if limit else {}) | _gemini_thinking(facts, level)
    if facts.api == ANTHROPIC and not limit:
        limit = _unasked_limit(facts)
    arguments: dict[str, Any] = {"max_tokens": limit} if limit else {}
    if level == "off":
        return arguments
    if facts.api == ANTHROPIC:
        return arguments | _anthropic_thinking(facts, request, level)
    if facts.provider == "openai":
        effort = "low" if level == "minimal" and not facts.model_id.startswith("gpt-5") else level
        return arguments | {"reasoning_effort": effort}
    return arguments


def _unasked_limit(facts: ModelFacts) -> int:
    """Return a longest answer for a request that names none: Anthropic wants one, and prompt and answer must fit."""
    share = facts.context_window // 8
    return min(facts.max_output_tokens or share, share)


def _for_ollama(facts: ModelFacts, limit: int | None, level: str) -> dict[str, Any]:
    # The server cuts what is beyond its own small default window without a word, so the window is always named.
    options = {"num_ctx": facts.context_window} | ({"num_predict": limit} if limit else {})
    return {"options": options} | ({"reasoning": level != "off"} if facts.reasoning else {})


def _gemini_thinking(facts: ModelFacts, level: str) -> dict[str, Any]:
    if level == "off":
        return {}
    if facts.model_id.startswith("gemini-2"):
        return {"thinking_budget": _THINKING_TOKENS[level], "include_thoughts": True}
    return {"thinking_level": "low" if level in ("minimal", "low") else "high", "include_thoughts": True}


def _anthropic_thinking(facts: ModelFacts, request: ModelRequest, level: str) -> dict[str, Any]:
    """A budget needs room in the answer, and a tool loop that began without thinking must end without it."""
    if not _TAKES_BUDGET.match(facts.model_id):
        return {"reasoning_effort": "low" if level == "minimal" else level}
    if request.messages and request.messages[-1].role == "toolResult":
        asked = next((message for message in reversed(request.messages) if message.role == "assistant"), None)
        first = asked.blocks[0].get("type") if asked and asked.blocks else None
        if first not in ("thinking", "redacted_thinking"):
            return {}
    room = (request.max_output_tokens or facts.max_output_tokens or 0) // 2
    budget = min(_THINKING_TOKENS[level], room)
    if budget < _LEAST_THINKING_TOKENS:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}
