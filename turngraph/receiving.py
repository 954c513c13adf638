"""Messages of a channel while turns run: one turn a session at a time, the rest waits, steers or interrupts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nodes.chat_commands import asked_of
from turngraph.errors import SessionBusy
from turngraph.inbound import Inbound
from turngraph.queueing import Waiting, arrival, next_turns
from turngraph.session_routing import inbound_key

if TYPE_CHECKING:
    from nodes.state import TurnContext
    from turngraph.api import Agent, TurnResult

ENDING_COMMANDS = frozenset({"new", "reset", "compact"})
END_WAIT_S = 15.0  # for a running turn that such a command ends


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
        command = asked_of(inbound, settings).command
        if command in ENDING_COMMANDS:
            return await self._end_turn(busy, inbound)
        act = arrival("followup" if command else queue.by_channel.get(inbound.channel or "", queue.mode))
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

    async def _end_turn(self, busy: _Busy, inbound: Inbound) -> TurnResult:
        """End the running turn for a command that changes the session, which runs next (spec/compaction.md 5.6)."""
        busy.waiting = replace(busy.waiting, messages=(*busy.waiting.messages, inbound))
        busy.current.cancel()
        _, running = await asyncio.wait([busy.current], timeout=END_WAIT_S)
        if running:
            others = tuple(message for message in busy.waiting.messages if message is not inbound)
            busy.waiting = replace(busy.waiting, messages=others)
            raise SessionBusy(f"the running turn did not end within {END_WAIT_S:g} s; send the command again later")
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
            mode = queue.by_channel.get(channel, queue.mode)
            turns = next_turns(busy.waiting, mode, lambda message: asked_of(message, self._agent.settings).command)
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
