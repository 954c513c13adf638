"""What flows through the turn graph: the state with its reducers, and the context that gives nodes their I/O.

Langgraph is not imported here at run time: importing a node must stay cheap (spec/spike.md section 1).
"""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typing_extensions import TypedDict

from stores.kept_transcripts import KeptTranscripts
from turngraph.clock import Clock, Ids
from turngraph.decisions import Decision, NodeRun, Origin
from turngraph.hook_results import AgentStart, HookContext
from turngraph.inbound import Inbound
from turngraph.messages import Message
from turngraph.models.model import Model
from turngraph.tokens import Counter
from turngraph.tools.tool import Tool

if TYPE_CHECKING:
    from nodes.loop_detection import LoopWatch
    from nodes.prune import PruneState
    from nodes.segments import PromptParts
    from stores.home import Home
    from stores.media import MediaStore
    from stores.sessions import SessionStore
    from stores.transcripts import Transcript
    from turngraph.config import AgentSettings
    from turngraph.hooks import Hooks

CommandName = Literal["new", "reset", "compact", "status", "context"]
Route = Literal[
    "turn",  # resolve_session: an ordinary turn
    "command",  # resolve_session: /status or /context, answered without a model
    "compact now",  # resolve_session: /compact
    "flush due",  # budget
    "compact due",  # budget, or prompt after an overflow
    "compacted",  # compact
    "not compacted",  # compact: nothing changed, the turn goes on with what there is
    "fits",  # budget
    "shrink due",  # prompt: shorten oversized tool results after an overflow
    "answered",  # prompt, compact: the turn has its reply
]


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The session a turn runs in, as ``resolve_session`` found it.

    Attributes:
        key, session_id, path: session key, id and transcript file.
        entry: its entry in ``sessions.json`` as stored.
        is_new: whether this turn starts a new session id.
        reset_reason: ``new``, ``reset``, ``daily`` or ``idle`` when the previous session ended here.
        previous: the entry of the ended session; ``archived`` the archive its transcript became.
        bare_reset: whether the message was only a reset trigger.
        chat_type: direct, group or channel.
    """

    key: str
    session_id: str
    path: Path
    entry: Mapping[str, Any]
    is_new: bool = False
    reset_reason: str | None = None
    previous: Mapping[str, Any] | None = None
    archived: Path | None = None
    bare_reset: bool = False
    chat_type: Literal["direct", "group", "channel"] = "direct"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the system prompt.

    Attributes:
        name: heading or file name.
        text: the lines as sent.
        kind: system section, bootstrap file or skill.
        origin: where the text comes from.
        stable: whether it stands before the cache boundary (changes only when a file or a setting changes).
    """

    name: str
    text: str
    kind: Literal["system section", "bootstrap file", "skill", "hook context"] = "system section"
    origin: Origin = field(default_factory=lambda: Origin("system"))
    stable: bool = True


@dataclass(frozen=True, slots=True)
class ContextNote:
    """Context that travels with the newest message and is dropped when history is rebuilt (clock, events, recall)."""

    name: str
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Attempts:
    """Counters that bound the recovery of one turn (spec/compaction.md section 6.2).

    Attributes:
        overflows: overflows met; compactions: compactions done in this turn; flushes: flushes done in this turn.
        shrunk: whether tool results were shortened once; timeouts: compactions caused by time-outs.
        compaction_trigger: why the next compaction runs.
        observed_tokens: prompt size that the provider named when it refused.
        failed: why the last compaction did not happen.
    """

    overflows: int = 0
    compactions: int = 0
    flushes: int = 0
    flush_tried: bool = False
    shrunk: bool = False
    timeouts: int = 0
    compaction_trigger: Literal["threshold", "overflow", "manual", "timeout_recovery", "budget"] = "threshold"
    observed_tokens: int | None = None
    failed: str | None = None

    def bump(self, **changes: Any) -> Attempts:
        """Return a copy with ``changes``."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a turn answers.

    Attributes:
        kind: text, silent (NO_REPLY), command, error, cancelled or limit (model calls used up).
        text: what the user gets; empty when silent.
        error: class of the error, when there was one.
    """

    kind: Literal["text", "silent", "command", "error", "cancelled", "limit"]
    text: str = ""
    error: str | None = None


class TurnState(TypedDict, total=False):
    """The state of one turn; a node returns only the keys that it changes.

    Keys:
        inbound: the message as it came in.
        session: set by ``resolve_session``.
        command, command_text: a command and what stood behind it.
        text: the user text that goes to the model: trigger cut off, media markers in front.
        system: sections of the system prompt, in order; set by ``load_bootstrap``.
        messages: the working set, oldest first; includes the user's message once ``prompt`` has appended it.
        notes: context for the newest message.
        user_entry_id: transcript entry of the user's message, once appended.
        route, why: choice of the last node that chooses, with the numbers.
        attempts: bounds of recovery.
        reply: the answer.
        decisions: everything decided so far; each node returns only its own.
    """

    inbound: Inbound
    session: SessionFacts
    command: CommandName | None
    command_text: str
    text: str
    system: tuple[Section, ...]
    messages: tuple[Message, ...]
    notes: tuple[ContextNote, ...]
    user_entry_id: str | None
    route: Route
    why: str
    attempts: Attempts
    reply: Reply | None
    decisions: Annotated[tuple[Decision, ...], operator.add]


@dataclass(slots=True)
class Collector:
    """The trace of the running turn, filled by the node wrapper as things happen.

    It lives in the context and not in the state, so that a turn that fails or is cancelled still has its trace.
    ``prompt`` holds the parts of the last request; segments are made from it when the trace is written.
    ``listeners`` are told of every node run, decision and agent event (spool, live view).
    """

    runs: list[NodeRun] = field(default_factory=list)
    decisions: list[tuple[int, Decision]] = field(default_factory=list)
    prompt: PromptParts | None = None
    model_calls: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    listeners: list[Callable[[str, Mapping[str, Any]], None]] = field(default_factory=list)

    def note(self, decisions: Sequence[Decision]) -> None:
        """Keep decisions that no node returns (a failing observer), with the node that is running."""
        self.decisions.extend((max(0, len(self.runs) - 1), decision) for decision in decisions)

    def tell(self, event: str, data: Mapping[str, Any]) -> None:
        """Pass an event on to every listener."""
        for listener in self.listeners:
            listener(event, data)


@dataclass(slots=True)
class TurnContext:
    """What nodes reach their I/O through; one per turn.

    Attributes:
        home, agent_id, settings: where and for whom the turn runs, with its settings frozen for the turn.
        clock, ids, counter: time, ids and token counting.
        model: the chat model, with its ``fallbacks``; ``summariser`` and ``flush_model`` where the settings name
            others.
        tools: tools that this run may use, in their fixed order.
        unavailable_tools: name -> reason, for tools that this run does not get.
        sessions, media: stores. ``transcript`` is set by ``resolve_session``, which takes it from ``transcripts``.
        hooks: plugin hooks.
        collector: trace of the turn.
        cancel: set to stop the turn.
        deadline: event-loop time at which the turn must end, if any.
        steering, follow_ups: messages that came in during the turn.
        live: whether this is a real turn (fsync, real tools); replay sets it to false.
        sequential_tools: run tool calls one after another in place of side by side.
        pending_calls: calls of the last recorded answer that have no result yet, id to name.
        prune_state: projections and cache touch as this turn knows them; set by ``prune``.
        loop_watch: calls of this turn so far, to notice a model that goes round in circles; set by the tool node.
        file_changed: called with a workspace-relative path after a tool wrote it.
        session_changed: called with a transcript after a compaction, so that its index is brought up to date; the
            second argument says whether to wait for it.
        session_key, run_id: of this turn; ``run_id`` is its trace id.
        agent_start: answers of the older ``before_agent_start`` hook, when it was asked for the model already.
        recorded_summary: gives the summary on record for a kept tail that begins with a message; a replay has one.
    """

    home: Home
    agent_id: str
    settings: AgentSettings
    clock: Clock
    ids: Ids
    counter: Counter
    model: Model
    sessions: SessionStore
    media: MediaStore
    hooks: Hooks
    tools: tuple[Tool, ...] = ()
    unavailable_tools: Mapping[str, str] = field(default_factory=dict)
    fallbacks: tuple[Model, ...] = ()
    summariser: Model | None = None
    summariser_fallbacks: tuple[Model, ...] = ()
    flush_model: Model | None = None
    transcripts: KeptTranscripts = field(default_factory=KeptTranscripts)
    transcript: Transcript | None = None
    collector: Collector = field(default_factory=Collector)
    cancel: asyncio.Event = field(default_factory=asyncio.Event)
    deadline: float | None = None
    steering: asyncio.Queue[Inbound] = field(default_factory=asyncio.Queue)
    follow_ups: asyncio.Queue[Inbound] = field(default_factory=asyncio.Queue)
    live: bool = True
    sequential_tools: bool = False
    pending_calls: dict[str, str] = field(default_factory=dict)
    prune_state: PruneState | None = None
    loop_watch: LoopWatch | None = None
    file_changed: Callable[[str], Awaitable[None]] | None = None
    session_changed: Callable[[Path, bool], Awaitable[None]] | None = None
    session_key: str = ""
    run_id: str = ""
    agent_start: AgentStart | None = None
    recorded_summary: Callable[[Message], str | None] | None = None

    @property
    def hook_context(self) -> HookContext:
        """What hooks are told about where they run."""
        session_id = self.transcript.session_id if self.transcript else ""
        return HookContext(self.agent_id, self.session_key, session_id, self.run_id, self.workspace)

    @property
    def opened(self) -> Transcript:
        """The transcript of this turn; ``resolve_session`` has opened it."""
        if self.transcript is None:
            raise RuntimeError("no transcript is open: resolve_session has not run")
        return self.transcript

    @property
    def workspace(self) -> Path:
        """The agent's workspace folder."""
        return self.home.workspace(self.agent_id, self.settings)

    @property
    def window_tokens(self) -> int:
        """The context window: the model's, capped by ``contextTokens`` (spec/context.md section 1)."""
        cap = self.settings.context_tokens
        window = self.model.facts.context_window
        return min(window, cap) if cap else window
