"""Messages of a channel while turns run: one turn a session at a time, the rest waits, steers or interrupts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from turngraph.inbound import Inbound
from turngraph.queueing import Waiting, arrival, next_turns
from turngraph.session_routing import inbound_key

if TYPE_CHECKING:
    from nodes.state import TurnContext
    from turngraph.api import Agent, TurnResult


@dataclass(slots=True)
class _Busy:
    """A session whose turn is running; ``following`` is answered by the turn that takes what waits."""

    context: TurnContext
    current: asyncio.Task[TurnResult]
    waiting: Waiting = field(default_factory=Waiting)
    following: asyncio.Future[TurnResult] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Receiver:
    """Applies ``messages.queue`` to the messages of one agent in this process."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._busy: dict[str, _Busy] = {}

    async def receive(self, inbound: Inbound) -> TurnResult | None:
        """Run a turn for ``inbound``, or let it join the one that runs; see :meth:`turngraph.api.Agent.receive`."""
        settings = self._agent.settings
        key = inbound_key(inbound, self._agent.id, settings.session)
        busy = self._busy.get(key)
        if busy is None:
            return await self._serve(key, inbound)
        queue = settings.messages.queue
        act = arrival(queue.by_channel.get(inbound.channel or "", queue.mode))
        if act.steers:
            busy.context.steering.put_nowait(inbound)
            if not act.waits:
                return await asyncio.shield(busy.current)
        refused = busy.waiting.refused
        busy.waiting = busy.waiting.add(inbound, queue.cap, queue.drop)
        if queue.drop == "new" and busy.waiting.refused > refused:
            return None
        if act.interrupts:
            busy.current.cancel()
        return await asyncio.shield(busy.following)

    async def _serve(self, key: str, inbound: Inbound) -> TurnResult:
        busy = self._start(key, inbound)
        try:
            done, _ = await asyncio.wait([busy.current])
        except asyncio.CancelledError:
            busy.current.cancel()
            del self._busy[key]
            raise
        unread = _drained(busy.context.steering)
        busy.waiting = replace(busy.waiting, messages=(*unread, *busy.waiting.messages))
        if not busy.waiting.messages:
            del self._busy[key]
            return done.pop().result()
        self._agent.keep(asyncio.ensure_future(self._follow(key, busy)))
        if busy.current.cancelled():
            return await asyncio.shield(busy.following)  # a newer message ended this turn and answers for both
        return busy.current.result()

    async def _follow(self, key: str, busy: _Busy) -> None:
        """Run what waited, after a quiet time, until nothing waits any more."""
        queue = self._agent.settings.messages.queue
        try:
            seen = -1
            while seen != len(busy.waiting.messages):
                seen = len(busy.waiting.messages)
                await asyncio.sleep(queue.debounce_ms / 1000)
            channel = busy.waiting.messages[-1].channel or ""
            turns = next_turns(busy.waiting, queue.by_channel.get(channel, queue.mode))
            del self._busy[key]
            results = [await self._serve(key, turn) for turn in turns]
        except BaseException as failure:
            self._busy.pop(key, None)
            busy.following.set_exception(failure)
            raise
        busy.following.set_result(results[-1])

    def _start(self, key: str, inbound: Inbound) -> _Busy:
        context = self._agent.context(inbound)
        busy = _Busy(context, asyncio.ensure_future(self._agent.turn_in(context, inbound)))
        self._busy[key] = busy
        return busy


def _drained(queue: asyncio.Queue[Inbound]) -> tuple[Inbound, ...]:
    found = []
    while not queue.empty():
        found.append(queue.get_nowait())
    return tuple(found)
