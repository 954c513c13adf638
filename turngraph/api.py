"""The public API: open a home, take an agent of it, run turns, read sessions and traces.

Async first; for scripts there are plain twins: ``run`` for ``turn``, ``run_stream`` for ``stream``. Example::

    from turngraph import open_home

    agent = open_home("~/.turngraph").agent()
    result = agent.run("What did we decide about the deploy?")
    print(result.text)
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stores.home import Home
from stores.kept_transcripts import KeptTranscripts
from turngraph.clock import Clock, Ids, RandomIds, SystemClock
from turngraph.decisions import TurnTrace
from turngraph.errors import NotFound
from turngraph.inbound import Inbound
from turngraph.receiving import Receiver
from turngraph.session_keys import normalize_agent_id
from turngraph.text import well_formed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from graphs.turn import TurnGraph
    from nodes.state import SessionFacts, TurnContext
    from stores.memory.index import MemoryIndex
    from stores.sessions import SessionStore
    from stores.traces import TraceReader, TraceStore
    from stores.transcripts import Transcript
    from turngraph.config import AgentSettings, Settings
    from turngraph.hooks import Hooks
    from turngraph.messages import Message
    from turngraph.models.model import Model
    from turngraph.tools.tool import Tool

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came of a turn.

    Attributes:
        text: the reply as the user gets it; empty when the agent had nothing to say.
        kind: text, silent, command, error, cancelled or limit.
        session_key, session_id: the session the turn ran in.
        trace: everything the turn saw and decided.
        messages: the working set as the turn left it, oldest first.
    """

    text: str
    kind: str
    session_key: str
    session_id: str
    trace: TurnTrace
    messages: tuple[Message, ...] = field(default=(), repr=False)


def open_home(
    path: str | Path | None = None, *, sets: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Turngraph:
    """Open a home: a folder of turngraph or of OpenClaw.

    Args:
        path: the folder; else ``TURNGRAPH_HOME``, else ``~/.turngraph``.
        sets: settings for this process, as ``PATH=VALUE``.
        env: environment to read in place of the process's own.

    Raises:
        ConfigError: the settings have problems; all are listed.
    """
    from turngraph.config import load_settings

    values = os.environ if env is None else env
    home = Home.find(Path(path) if path is not None else None, values)
    return Turngraph(home, load_settings(home.root, sets=tuple(sets), env=values))


class Turngraph:
    """An opened home with its settings."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self.home = home
        self.settings = settings

    @property
    def agents(self) -> tuple[str, ...]:
        """Ids of the configured agents."""
        return self.settings.agent_ids

    def agent(
        self,
        agent_id: str | None = None,
        *,
        model: Model | BaseChatModel | str | None = None,
        tools: Sequence[Tool] | None = None,
        hooks: Hooks | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> Agent:
        """Return an agent of this home.

        Args:
            agent_id: else the default agent.
            model: a name (``offline``, ``scripted:FILE``, ``replay:TRANSCRIPT``, ``provider:model``), a langchain-core
                chat model or a model of our own; else as the settings say.
            tools: in place of the built-in tools.
            hooks: in place of the plugins that the settings name.
            clock, ids: for tests and replays.

        Raises:
            NotFound: the settings have no such agent.
        """
        chosen = normalize_agent_id(agent_id) if agent_id else self.settings.default_agent_id
        if chosen not in self.settings.agent_ids:
            raise NotFound(f"no agent {agent_id!r} in the settings; there are: {', '.join(self.settings.agent_ids)}")
        return Agent(
            self.home, self.settings.agent(chosen), model=model, tools=tools, hooks=hooks, clock=clock, ids=ids
        )


class Agent:
    """One agent of a home: runs turns and reads its sessions and traces."""

    def __init__(
        self,
        home: Home,
        settings: AgentSettings,
        *,
        model: Model | BaseChatModel | str | None = None,
        tools: Sequence[Tool] | None = None,
        hooks: Hooks | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.home = home
        self.settings = settings
        self.model = model
        self.custom_tools = tools
        self.hooks = hooks
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        self.playing: dict[str, Model] = {}  # models that play a file, by name
        self.transcripts = KeptTranscripts()
        self._index: MemoryIndex | None = None
        self._background: set[asyncio.Future[Any]] = set()
        self._receiver = Receiver(self)

    @property
    def id(self) -> str:
        return self.settings.agent_id

    async def turn(self, message: str | Inbound, *, graph: TurnGraph | None = None, **facts: Any) -> TurnResult:
        """Run one turn to its end.

        Args:
            message: a text, or an :class:`Inbound` with everything a channel knows.
            graph: a compiled turn graph of your own.
            facts: fields of :class:`Inbound` (``channel``, ``peer``, ``attachments`` ...).

        Raises:
            SessionBusy: another turn holds the session longer than ``session.busyTimeoutMs``.
            ModelError: the configured model cannot be made.
        """
        return await self._run(_inbound(message, facts), graph, None)

    def run(self, message: str | Inbound, **facts: Any) -> TurnResult:
        """Run one turn from code that is not async."""
        return run_async(self.turn(message, **facts))

    async def stream(self, message: str | Inbound, **facts: Any) -> AsyncGenerator[Mapping[str, Any], None]:
        """Run one turn and yield its events as they happen; the last one has type ``result``.

        Events are those of Pi's agent core (``message_update`` with ``text``, ``tool_execution_start`` ...) and
        ``node_start``/``node_end`` of the graph. Leaving the loop early cancels the turn.
        """
        events: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()

        def listen(_event: str, data: Mapping[str, Any]) -> None:
            events.put_nowait(data)

        running = asyncio.ensure_future(self._run(_inbound(message, facts), None, listen))
        running.add_done_callback(lambda _: events.put_nowait({"type": "done"}))
        try:
            while (event := await events.get()).get("type") != "done":
                yield event
            yield {"type": "result", "result": await running}
        finally:
            if not running.done():
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def run_stream(self, message: str | Inbound, **facts: Any) -> Generator[Mapping[str, Any], None, None]:
        """Run one turn from code that is not async and yield its events; it goes on while one is asked for."""

        async def following() -> Mapping[str, Any] | None:
            return await anext(events, None)

        with asyncio.Runner() as runner:
            events = self.stream(message, **facts)
            try:
                while (event := runner.run(following())) is not None:
                    yield event
            finally:
                runner.run(events.aclose())

    async def receive(self, message: str | Inbound, **facts: Any) -> TurnResult | None:
        """Take a message of a channel while turns may be running: ``messages.queue`` says what becomes of it.

        A session without a running turn runs one. Otherwise the message steers the running turn, waits for its end
        (alone or together with others), or ends it. Returns the result of the turn that answered the message; ``None``
        when the queue was full and its settings drop new messages.
        """
        return await self._receiver.receive(_inbound(message, facts))

    def sessions(self) -> SessionStore:
        """Return the store of this agent's sessions."""
        from stores.sessions import SessionStore

        return SessionStore.of_agent(self.home, self.settings, self.clock, self.ids)

    def transcript(self, session_key: str, *, full: bool = False) -> Transcript:
        """Open the transcript of a session for reading.

        Raises:
            NotFound: there is no such session.
        """
        from stores.transcripts import Transcript

        store = self.sessions()
        entry = store.find(session_key).entry
        if not entry:
            raise NotFound(f"no session {session_key!r} of agent {self.id}; `turngraph sessions list` shows them")
        return Transcript.open(
            store.transcript_of(entry),
            session_id=str(entry.get("sessionId", "")),
            clock=self.clock,
            ids=self.ids,
            full=full,
            read_only=True,
        )

    def traces(self) -> TraceReader:
        """Return a reader of the traces of this home."""
        from stores.traces import TraceReader

        return TraceReader(self.home.traces_dir)

    @property
    def memory(self) -> MemoryIndex:
        """The memory index of this agent; opened when it is first used."""
        if self._index is None:
            from stores.memory.index import MemoryIndex

            self._index = MemoryIndex.open(self.home, self.id, self.settings, clock=self.clock, background=True)
        return self._index

    def keep(self, work: asyncio.Future[Any]) -> None:
        """Hold on to work in the background until it is done."""
        self._background.add(work)
        work.add_done_callback(self._background.discard)

    async def note_change(self, path: str) -> None:
        """Bring the keyword rows of a memory file up to date after a tool wrote it."""
        from turngraph.memory_paths import may_hold_memory

        if may_hold_memory(path):
            await asyncio.to_thread(self.memory.file_changed, path)

    async def note_session(self, _path: Path, wait: bool) -> None:
        """Bring the index up to date with a transcript after a compaction; ``wait`` says whether to wait for it."""
        searched = self.settings.memory_search
        if not searched.enabled or "sessions" not in searched.sources:
            return
        work = asyncio.ensure_future(asyncio.to_thread(self.memory.sync, "post-compaction"))
        self.keep(work)
        if wait:
            await work

    async def _run(
        self,
        inbound: Inbound,
        graph: TurnGraph | None,
        listener: Callable[[str, Mapping[str, Any]], None] | None,
        context: TurnContext | None = None,
    ) -> TurnResult:
        from graphs.run_turn import build_trace, run_turn

        context = context or self.context(inbound)
        if listener is not None:
            context.collector.listeners.append(listener)
        hooks = context.hooks
        claim = await hooks.claim("inbound_claim", inbound, context.hook_context)
        context.collector.note(claim.decisions)
        if claim.plugin is not None:
            trace = build_trace(inbound, context, {"inbound": inbound}, context.clock.now(), None)
            return TurnResult("", "claimed", context.session_key, "", trace)
        told = {"content": inbound.text, "sender": inbound.sender}
        context.collector.note(await hooks.observe("message_received", context.hook_context, **told))
        await self._choose_model(inbound, context)
        sink = self.trace_store()
        if self.settings.traces.enabled:
            sink.adopt_dead_spools()  # so that a killed turn shows as interrupted without waiting for maintenance
        outcome = await run_turn(inbound, context, sink=sink, lock=self._lock(context), graph=graph)
        reply = outcome.reply
        session: SessionFacts | None = outcome.session
        text = await _send(reply.text if reply else "", inbound, context)
        return TurnResult(
            text=text or "",
            kind=reply.kind if reply and text is not None else "error" if reply is None else "silent",
            session_key=session.key if session else context.session_key,
            session_id=session.session_id if session else "",
            trace=outcome.trace,
            messages=tuple(outcome.state.get("messages", ())),
        )

    async def _choose_model(self, inbound: Inbound, context: TurnContext) -> None:
        if not (context.hooks.handles("before_model_resolve") or context.hooks.handles("before_agent_start")):
            return
        from turngraph.turn_context import as_model

        choice = await context.hooks.before_model_resolve(inbound.text, context.hook_context)
        context.agent_start = choice.started
        context.collector.note(choice.decisions)
        override = choice.override
        if override.model or override.provider:
            facts = context.model.facts
            name = f"{override.provider or facts.provider}:{override.model or facts.model_id}"
            context.model, context.fallbacks = as_model(name, self), ()

    async def turn_in(self, context: TurnContext, inbound: Inbound) -> TurnResult:
        """Run one turn in a context that the caller made with :meth:`context`, to steer or cancel it."""
        return await self._run(inbound, None, None, context)

    def context(self, inbound: Inbound) -> TurnContext:
        """Return the context of one turn; for those who drive the compiled graph themselves."""
        from turngraph.turn_context import build_context

        return build_context(self, inbound)

    def trace_store(self) -> TraceStore:
        """Return the store that the traces of this agent's turns go to."""
        from stores.traces import TraceStore

        return TraceStore(
            self.home.traces_dir, self.settings.traces.store_text if self.settings.traces.enabled else None
        )

    def _lock(self, context: TurnContext) -> AbstractAsyncContextManager[Any]:
        return context.sessions.turn(context.session_key, timeout_ms=self.settings.session.busy_timeout_ms)


async def _send(text: str, inbound: Inbound, context: TurnContext) -> str | None:
    """Let plugins change or stop a reply on its way out; ``None`` when one stopped it."""
    if not text:
        return text
    to = inbound.peer or inbound.channel or "cli"
    sending = await context.hooks.message_sending(text, to, context.hook_context)
    sent = {"content": sending.content or "", "to": to, "success": sending.content is not None}
    await context.hooks.observe("message_sent", context.hook_context, **sent)
    return sending.content


def _inbound(message: str | Inbound, facts: Mapping[str, Any]) -> Inbound:
    inbound = replace(message, **facts) if isinstance(message, Inbound) else Inbound(text=message, **facts)
    texts = {field.name: getattr(inbound, field.name) for field in fields(inbound)}
    odd: dict[str, Any] = {name: well_formed(value) for name, value in texts.items() if isinstance(value, str)}
    return replace(inbound, **{name: value for name, value in odd.items() if value != texts[name]})


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, from a script or from inside a running event loop (then on a thread of its own)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            outcome.append(asyncio.run(work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="turngraph")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
