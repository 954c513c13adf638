"""Messages to langchain-core and back.

What a langchain message cannot carry travels in ``additional_kwargs["turngraph"]``, so that the way there and back
loses nothing. What the provider gets is made by :mod:`turngraph.models.content_parts` from the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turngraph.messages import Message
from turngraph.models.answers import assistant_message
from turngraph.models.content_parts import GEMINI, GEMINI_CALL_SIGNATURES, parts_in, parts_out, sendable_value
from turngraph.models.model import ModelFacts

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

OURS = "turngraph"


def to_langchain(messages: Iterable[Message], facts: ModelFacts | None = None) -> list[BaseMessage]:
    """Convert messages that a provider accepts: user, assistant and toolResult roles.

    Args:
        messages: oldest first.
        facts: of the model that gets them; decides how thinking, signatures and images are written. Without it only
            what every provider takes is written.

    Raises:
        ValueError: another role; those are turned into user messages before a request.
    """
    return [_to_langchain(message, facts) for message in messages]


def _to_langchain(message: Message, facts: ModelFacts | None) -> BaseMessage:
    from langchain_core.messages import HumanMessage, ToolMessage

    carried = {OURS: {"raw": message.raw}}
    role = message.role
    if role == "user":
        return HumanMessage(content=parts_out(message, facts), additional_kwargs=carried)
    if role == "assistant":
        return _answer_out(message, facts, carried)
    if role == "toolResult":
        return ToolMessage(
            content=parts_out(message, facts),
            tool_call_id=message.tool_call_id,
            name=message.tool_name or None,
            status="error" if message.is_error else "success",
            additional_kwargs=carried,
        )
    raise ValueError(f"a message of role {role!r} cannot be sent to a model; convert it to a user message first")


def _answer_out(message: Message, facts: ModelFacts | None, carried: dict[str, Any]) -> AIMessage:
    from langchain_core.messages import AIMessage

    calls: list[Any] = [
        {"id": call.id, "name": call.name, "args": sendable_value(dict(call.arguments)), "type": "tool_call"}
        for call in message.tool_calls
    ]
    if facts is not None and facts.api == GEMINI and message.raw.get("provider") == facts.provider:
        blocks = ((call.id, message.content[call.block].get("thoughtSignature")) for call in message.tool_calls)
        signatures = {call_id: signature for call_id, signature in blocks if isinstance(signature, str) and signature}
        if signatures:
            carried = {**carried, GEMINI_CALL_SIGNATURES: signatures}
    return AIMessage(content=parts_out(message, facts), tool_calls=calls, additional_kwargs=carried)


def from_langchain(messages: Sequence[BaseMessage], timestamp_ms: float) -> list[Message]:
    """Convert langchain messages to ours; those that came from :func:`to_langchain` come back as they were."""
    return [_from_langchain(message, timestamp_ms) for message in messages]


def _from_langchain(message: BaseMessage, timestamp_ms: float) -> Message:
    from langchain_core.messages import AIMessage, ToolMessage

    carried = message.additional_kwargs.get(OURS)
    if isinstance(carried, Mapping) and isinstance(carried.get("raw"), Mapping):
        return Message(carried["raw"])
    if isinstance(message, AIMessage):
        return assistant_message(message, timestamp_ms=timestamp_ms, provider="langchain", model="unknown", api=None)
    if isinstance(message, ToolMessage):
        raw = {
            "role": "toolResult",
            "toolCallId": message.tool_call_id,
            "toolName": message.name or "unknown",
            "content": parts_in(message.content),
            "isError": message.status == "error",
            "timestamp": timestamp_ms,
        }
        return Message(raw)
    return Message({"role": "user", "content": parts_in(message.content), "timestamp": timestamp_ms})
