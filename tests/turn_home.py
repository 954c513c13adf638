"""A temporary home with one session, and the context in which nodes run on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nodes.state import Attempts, SessionFacts, TurnContext, TurnState
from stores.home import Home
from stores.media import MediaStore
from stores.sessions import SessionStore
from stores.transcripts import Transcript
from turngraph.clock import DerivedIds, FixedClock
from turngraph.config import default_settings
from turngraph.hooks import Hooks
from turngraph.inbound import Inbound
from turngraph.messages import Message
from turngraph.models.model import Model, ModelFacts
from turngraph.models.scripted import ScriptedModel
from turngraph.tokens import Counter, EstimateCounter

KEY = "agent:main:main"
NOON = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)


@dataclass(slots=True)
class Runtime:
    """What a node gets beside its state."""

    context: TurnContext
    events: list[Any] = field(default_factory=list)

    def stream_writer(self, event: Any) -> None:
        self.events.append(event)


@dataclass(slots=True)
class TurnHome:
    """A home, its one session and a runtime on it."""

    runtime: Runtime
    session: SessionFacts

    @property
    def context(self) -> TurnContext:
        return self.runtime.context

    @property
    def transcript(self) -> Transcript:
        return self.context.opened

    @property
    def entry(self) -> Any:
        return self.context.sessions.get(KEY)

    def say(self, *messages: Message) -> list[str]:
        """Append messages to the transcript; return their entry ids."""
        return [self.transcript.append_message(message).id for message in messages]

    def state(self, **changes: Any) -> TurnState:
        """The state of a turn whose history has just been loaded."""
        state: TurnState = {
            "inbound": Inbound(text="next", session_key=KEY),
            "session": self.session,
            "text": "next",
            "system": (),
            "messages": self.transcript.context().messages,
            "attempts": Attempts(),
            "user_entry_id": None,
        }
        return state | changes  # type: ignore[return-value]

    def forward(self, **delta: float) -> None:
        """Move the clock."""
        self.context.clock.advance(timedelta(**delta))  # type: ignore[attr-defined]


def scripted(answers: Iterable[Any] = (), *, window: int = 200_000, name: str = "scripted", then: Any = None) -> Any:
    """A scripted model with a context window."""
    return ScriptedModel(answers, then=then, facts=ModelFacts("scripted", name, context_window=window))


def make_home(
    root: Path,
    *,
    model: Model | None = None,
    counter: Counter | None = None,
    settings: dict[str, Any] | None = None,
    **context: Any,
) -> TurnHome:
    """Make a home below ``root``; ``settings`` are changes to groups: ``{"compaction": {"mode": "off"}}``."""
    home = Home(root)
    clock, ids = FixedClock(NOON), DerivedIds("test")
    agent = default_settings()
    for group, changes in (settings or {}).items():
        value = getattr(agent, group)
        changed = value.model_copy(update=changes) if isinstance(changes, dict) else changes
        agent = agent.model_copy(update={group: changed})
    folder = home.sessions_dir("main")
    folder.mkdir(parents=True, exist_ok=True)
    home.workspace("main", agent).mkdir(parents=True, exist_ok=True)
    path = folder / "s1.jsonl"
    store = SessionStore(folder / "sessions.json", "main", clock, ids)
    entry = store.update(KEY, {"sessionId": "s1", "sessionFile": str(path)})
    transcript = Transcript.open(path, session_id="s1", clock=clock, ids=ids)
    made = TurnContext(
        home=home,
        agent_id="main",
        settings=agent,
        clock=clock,
        ids=ids,
        counter=counter or EstimateCounter(),
        model=model or scripted(),
        sessions=store,
        media=MediaStore(home.media_dir("main")),
        hooks=Hooks.empty(),
        transcript=transcript,
        session_key=KEY,
        **context,
    )
    return TurnHome(Runtime(made), SessionFacts(KEY, "s1", path, entry))
