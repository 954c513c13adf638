"""Agent events in the order of Pi's agent core, to the stream and to the collector (spec/context.md section 8.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodes.state import TurnContext
from turngraph.messages import Message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


def emit(runtime: Runtime[TurnContext], event: str, **data: Any) -> None:
    """Send an event to whoever streams the turn and to the collector's listeners."""
    payload: Mapping[str, Any] = {"type": event, **data}
    runtime.stream_writer(payload)
    runtime.context.collector.tell(event, payload)


def emit_message(runtime: Runtime[TurnContext], message: Message) -> None:
    """Send the start and the end of a message that comes whole."""
    emit(runtime, "message_start", message=message.raw)
    emit(runtime, "message_end", message=message.raw)
