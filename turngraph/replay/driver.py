"""Replay: each user turn of a transcript runs through the turn graph again, without a model call.

The working copy is a home of its own; the source is never written. Clock and ids follow the record, so two replays
give the same bytes except for durations. Source: spec/seeing.md section 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphs.run_turn import TurnOutcome, run_turn
from nodes.state import TurnContext
from stores.home import Home
from stores.kept_transcripts import KeptTranscripts
from stores.media import MediaStore
from stores.sessions import SessionStore
from turngraph.clock import DerivedIds, FixedClock
from turngraph.config import AgentSettings
from turngraph.decisions import TurnTrace
from turngraph.hooks import Hooks
from turngraph.inbound import Inbound
from turngraph.messages import Message
from turngraph.models.model import Model, ModelFacts, ModelRequest
from turngraph.models.recorded import RecordedModel, plain_facts
from turngraph.replay.bill import Bill
from turngraph.replay.calls import ModelCall, Notes
from turngraph.replay.cost import CallCost
from turngraph.replay.earlier import EarlierSearch
from turngraph.replay.live_memory import SEARCH_TOOL, LiveMemorySearch
from turngraph.replay.recorded_summaries import Place
from turngraph.replay.recorded_tools import RecordedTool, recorded_spec, recorded_tools
from turngraph.replay.source import RecordedSession, RecordedTurn
from turngraph.replay.working_copy import contained
from turngraph.tokens import Counter, default_counter
from turngraph.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class ReplayedTurn:
    """One turn of a replay.

    Attributes:
        recorded: what was read.
        trace: what the graph did.
        counterfactual: whether a call of the turn had no recorded result, or an answer was left unplayed.
        calls: its model calls with everything the model saw.
    """

    recorded: RecordedTurn = field(repr=False)
    trace: TurnTrace
    counterfactual: bool
    calls: tuple[ModelCall, ...] = field(default=(), repr=False)


@dataclass(slots=True)
class _Silent:
    """A spool nobody follows."""

    def write(self, event: str, data: Mapping[str, Any]) -> None:
        return None

    def close(self) -> None:
        return None


@dataclass(slots=True)
class CollectedTraces:
    """A sink that keeps traces in memory; a replay writes them at the end, one file a table."""

    traces: list[TurnTrace] = field(default_factory=list)

    def spool(self, trace_id: str, header: Mapping[str, Any]) -> _Silent:
        return _Silent()

    def append(self, trace: TurnTrace) -> None:
        self.traces.append(trace)


class Replay:
    """A replay of one recorded session on a working copy.

    Args:
        session: what is replayed.
        work: folder of the working copy, empty; becomes a home with the session in it.
        settings: settings of the agent.
        session_key: key under which the working copy runs (channel settings follow from it).
        window_tokens: context window of the replayed model; else 200,000 or what the settings cap.
        as_model: replay as if this model had answered, so that its provider's rules hold; else the recorded one.
        summariser: writes the summaries that are not on record; else they are extractive.
        live_memory: memory searches find what the session knew by then; else they are answered from the record.
    """

    def __init__(
        self,
        session: RecordedSession,
        work: Path,
        settings: AgentSettings,
        *,
        session_key: str = "agent:main:main",
        window_tokens: int = 200_000,
        counter: Counter | None = None,
        as_model: ModelFacts | None = None,
        summariser: Model | None = None,
        live_memory: bool = False,
    ) -> None:
        self._session = session
        self._settings = settings = contained(settings)
        self._key = session_key
        self._window_tokens = window_tokens
        self._counter = counter or default_counter()
        self._home = Home(work)
        self._clock = FixedClock(session.turns[0].at)
        self._ids = DerivedIds(session.session_id)
        self._store = SessionStore.of_agent(self._home, settings, self._clock, self._ids)
        self._transcripts = KeptTranscripts()
        self._store.durable = False  # a working copy: nothing is lost that cannot be replayed
        self._facts = as_model and replace(as_model, context_window=window_tokens)
        self._keeps_facts = as_model is not None
        self._tools = tuple({c.name for t in session.turns for a in t.answers for c in a.tool_calls if c.name})
        self._notes = Notes(self._home.workspace(settings.agent_id, settings))
        self._summariser = summariser
        self._earlier = EarlierSearch() if live_memory else None
        self._bill: Bill | None = None
        self._home.workspace(settings.agent_id, settings).mkdir(parents=True, exist_ok=True)
        self.sink = CollectedTraces()

    async def run(self, progress: Callable[[ReplayedTurn], None] | None = None) -> list[ReplayedTurn]:
        """Replay every turn in order; a failing turn is traced with its error and the replay goes on."""
        turns = []
        for recorded in self._session.turns:
            turn = await self._turn(recorded)
            turns.append(turn)
            if self._earlier is not None:
                for message in (recorded.user, *recorded.answers):
                    self._earlier.add(message)
            if progress:
                progress(turn)
        return turns

    async def _turn(self, recorded: RecordedTurn) -> ReplayedTurn:
        self._clock.at = max(self._clock.at, recorded.at)
        calls: list[ModelCall] = []
        costs: list[CallCost] = []
        context = self._context(recorded, calls, costs)
        inbound = Inbound(
            text=recorded.user.text,
            recorded=recorded.user.raw,
            session_key=self._key,
            at=recorded.at,
            kind="replay",
        )
        try:
            alone = self._store.turn_alone(self._key)
            outcome: TurnOutcome | None = await run_turn(inbound, context, sink=self.sink, lock=alone)
        except Exception:  # the trace has it; what a replay shows includes turns that fail
            outcome = None
        trace = outcome.trace if outcome else self.sink.traces[-1]
        trace = replace(trace, facts={**trace.facts, "calls": [cost.as_json() for cost in costs]})
        self.sink.traces[-1] = trace
        model = context.model
        unplayed = isinstance(model, RecordedModel) and model.remaining > 0
        unmatched = any(tool.unmatched for tool in context.tools if isinstance(tool, RecordedTool))
        kept = tuple(call.without_facts() for call in calls)
        return ReplayedTurn(recorded, trace, unplayed or unmatched or outcome is None, kept)

    def _context(self, recorded: RecordedTurn, calls: list[ModelCall], costs: list[CallCost]) -> TurnContext:
        facts = self._model_facts(recorded)

        def watch(request: ModelRequest, answer: Message) -> None:
            call = ModelCall(recorded.number, self._clock.now(), request, answer, self._notes.now())
            if self._bill is None:
                self._bill = Bill.for_model(facts.name, self._settings, self._counter)
            calls.append(call)
            costs.append(self._bill.add(call))

        return TurnContext(
            home=self._home,
            agent_id=self._settings.agent_id,
            settings=self._settings,
            clock=self._clock,
            ids=self._ids,
            counter=self._counter,
            model=RecordedModel(recorded.answers, facts, clock=self._clock, watch=watch),
            sessions=self._store,
            transcripts=self._transcripts,
            media=MediaStore(self._home.media_dir(self._settings.agent_id)),
            hooks=Hooks.empty(),
            summariser=self._summariser,
            recorded_summary=self._recorded_summary,
            tools=self._offered(recorded),
            live=False,
            session_key=self._key,
        )

    def _offered(self, recorded: RecordedTurn) -> tuple[Tool, ...]:
        tools = recorded_tools(self._tools, recorded.results)
        if self._earlier is None:
            return tools
        live = LiveMemorySearch(recorded_spec(SEARCH_TOOL), self._earlier, self._notes)
        return tuple(live if tool.spec.name == SEARCH_TOOL else tool for tool in tools)

    def _recorded_summary(self, first_kept: Message) -> str | None:
        return self._session.summaries.get(Place.of(first_kept))

    def _model_facts(self, recorded: RecordedTurn) -> ModelFacts:
        if recorded.answers and not self._keeps_facts:
            self._facts = plain_facts(recorded.answers[0].raw, self._window_tokens)
        return self._facts or ModelFacts("recorded", "unknown", context_window=self._window_tokens)


def replay_session(
    session: RecordedSession,
    work: Path,
    settings: AgentSettings,
    *,
    progress: Callable[[ReplayedTurn], None] | None = None,
    **options: Any,
) -> list[ReplayedTurn]:
    """Replay ``session`` from plain code, also inside a running event loop (a notebook); see :class:`Replay`."""
    turns: list[ReplayedTurn] = []

    # Not as the result of the task: asyncio.run writes out its result, whole, when it gives the interrupt handler back.
    async def play() -> None:
        turns.extend(await Replay(session, work, settings, **options).run(progress))

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(play())
    else:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(play())).result()
    return turns
