"""Whole turns in a temporary home: a frozen clock, counted ids, a scripted model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphs.run_turn import TurnOutcome, run_turn
from nodes.state import TurnContext
from stores.home import Home
from stores.media import MediaStore
from stores.sessions import SessionStore
from stores.transcripts import Transcript
from turngraph.clock import DerivedIds, FixedClock
from turngraph.config import AgentSettings, load_settings
from turngraph.decisions import TurnTrace
from turngraph.hooks import Hooks
from turngraph.inbound import Inbound
from turngraph.models.model import Model, ModelFacts
from turngraph.models.scripted import Answer, ScriptedModel
from turngraph.tokens import Counter, EstimateCounter
from turngraph.tools.tool import Tool

NOON = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
MAIN = "agent:main:main"


@dataclass
class Spooled:
    """Keeps the events of a turn."""

    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    closed: bool = False

    def write(self, event: str, data: Mapping[str, Any]) -> None:
        self.events.append((event, data))

    def close(self) -> None:
        self.closed = True


@dataclass
class Sink:
    """Keeps traces and spools."""

    traces: list[TurnTrace] = field(default_factory=list)
    spools: list[Spooled] = field(default_factory=list)

    def spool(self, trace_id: str, header: Mapping[str, Any]) -> Spooled:
        self.spools.append(Spooled())
        return self.spools[-1]

    def append(self, trace: TurnTrace) -> None:
        self.traces.append(trace)


class TurnBench:
    """A home in which turns are run one after another.

    Args:
        root: folder of the home.
        sets: settings as ``PATH=VALUE``.
        window: context window of the scripted model, in tokens.
        counter: counts tokens; the weighted estimate unless given (quicker to start than tiktoken).
    """

    def __init__(
        self,
        root: Path,
        sets: Sequence[str] = (),
        *,
        window: int = 200_000,
        counter: Counter | None = None,
        tools: Sequence[Tool] = (),
        hooks: Hooks | None = None,
        provider: str = "scripted",
        api: str | None = None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "turngraph.json5").write_text("{}")
        self.home = Home(root)
        self.settings: AgentSettings = load_settings(root, sets=tuple(sets), env={}).agent("main")
        self.clock = FixedClock(NOON)
        self.ids = DerivedIds("bench")
        self.counter = counter or EstimateCounter()
        self.tools = tuple(tools)
        self.hooks = hooks or Hooks.empty()
        self.sink = Sink()
        self.facts = ModelFacts(provider, "scripted", api, context_window=window)
        self.model = ScriptedModel(facts=self.facts)
        self.sessions = SessionStore.of_agent(self.home, self.settings, self.clock, self.ids)

    def context(self, model: Model | None = None, *, key: str = MAIN, **changes: Any) -> TurnContext:
        """Return a fresh context for one turn."""
        return TurnContext(
            home=self.home,
            agent_id="main",
            settings=self.settings,
            clock=self.clock,
            ids=self.ids,
            counter=self.counter,
            model=model or self.model,
            sessions=self.sessions,
            media=MediaStore(self.home.media_dir("main")),
            hooks=self.hooks,
            tools=changes.pop("tools", self.tools),
            session_key=key,
            **changes,
        )

    async def turn(
        self, text: str | Inbound, answers: Iterable[Answer] = (), *, key: str = MAIN, **changes: Any
    ) -> TurnOutcome:
        """Run one turn; ``answers`` are queued first."""
        self.model.enqueue(*answers)
        inbound = text if isinstance(text, Inbound) else Inbound(text=text, session_key=key)
        return await run_turn(inbound, self.context(key=key, **changes), sink=self.sink, lock=nullcontext())

    def entry(self, key: str = MAIN) -> Mapping[str, Any]:
        """Return the stored entry of a session."""
        return self.sessions.get(key)

    def transcript(self, key: str = MAIN) -> Transcript:
        """Open the transcript of a session, whole."""
        entry = self.entry(key)
        return Transcript.open(
            self.sessions.transcript_of(entry),
            session_id=str(entry["sessionId"]),
            clock=self.clock,
            ids=self.ids,
            full=True,
            read_only=True,
        )

    def spoken(self, key: str = MAIN) -> list[tuple[str, str]]:
        """Return role and text of every message entry on disk, dead branches too."""
        transcript = self.transcript(key)
        return [
            (transcript.message(entry).role, transcript.message(entry).text)
            for entry in transcript.entries()
            if entry.type == "message"
        ]


def whats(trace: TurnTrace, node: str | None = None) -> list[tuple[str, str]]:
    """Return (node, what) of the decisions of a trace, in order."""
    return [(d.node, d.what) for _, d in trace.decisions if node is None or d.node == node]


def path(trace: TurnTrace) -> list[str]:
    """Return the nodes of a trace in the order in which they ran."""
    return [run.node for run in trace.nodes]
