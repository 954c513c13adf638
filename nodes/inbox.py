"""Messages that come in while a turn runs: steering first, follow-ups when the agent would stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nodes.attachments import MIB, take_in
from nodes.record import record
from nodes.state import TurnContext
from turngraph.inbound import Inbound
from turngraph.messages import Message, text_block, user_message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


async def take_steering(runtime: Runtime[TurnContext]) -> tuple[Message, ...]:
    """Record and return the oldest steering message, if there is one (mode one-at-a-time)."""
    return await _take(runtime.context.steering, runtime)


async def take_queued(runtime: Runtime[TurnContext]) -> tuple[Message, ...]:
    """Record and return what should be answered before the agent stops: steering, else a follow-up.

    Source: spec/context.md section 8.3.
    """
    return await _take(runtime.context.steering, runtime) or await _take(runtime.context.follow_ups, runtime)


async def _take(queue: asyncio.Queue[Inbound], runtime: Runtime[TurnContext]) -> tuple[Message, ...]:
    if queue.empty():
        return ()
    inbound = queue.get_nowait()
    context = runtime.context
    taken = take_in(inbound.text, inbound.attachments, context.media.put, int(context.settings.media_max_mb * MIB))
    context.collector.note(taken.decisions)
    message = user_message([text_block(taken.text)], inbound.at or context.clock.now())
    extra = {"turngraph": {"media": [fact.raw for fact in taken.media]}} if taken.media else None
    return (await record(message, runtime, durable=True, extra=extra)).messages
