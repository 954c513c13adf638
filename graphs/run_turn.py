"""Run one turn: the graph under the session's lock, and its trace whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Protocol

from graphs.drawing import drawable
from graphs.turn import RECURSION_LIMIT, TurnGraph, turn_graph
from nodes.compaction.settings import timeout_ms
from nodes.persist import turn_number
from nodes.segments import prompt_segments
from nodes.state import Attempts, Reply, SessionFacts, TurnContext, TurnState
from turngraph.clock import monotonic_ms
from turngraph.decisions import TurnTrace
from turngraph.inbound import Inbound
from turngraph.tokens import total


class Spool(Protocol):
    """Where the rows of a running turn go, for other processes to follow."""

    def write(self, event: str, data: Mapping[str, Any]) -> None: ...

    def close(self) -> None:
        """The trace is safe: remove the spool."""
        ...


class TraceSink(Protocol):
    """Where traces go; it never raises because of a trace that cannot be written."""

    def spool(self, trace_id: str, header: Mapping[str, Any]) -> Spool: ...

    def append(self, trace: TurnTrace) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What came of a turn.

    Attributes:
        reply: the answer; ``None`` only when the turn raised or was cancelled before it had one.
        trace: the trace as it was written.
        session: the session it ran in, once resolved.
        messages: the final working set, oldest first.
    """

    reply: Reply | None
    trace: TurnTrace
    session: SessionFacts | None
    state: TurnState


async def run_turn(
    inbound: Inbound,
    context: TurnContext,
    *,
    sink: TraceSink,
    lock: AbstractAsyncContextManager[Any],
    graph: TurnGraph | None = None,
) -> TurnOutcome:
    """Run the turn graph for ``inbound``; the trace is written also when the turn fails or is cancelled.

    Args:
        inbound: what came in.
        context: fresh for this turn; its ``session_key`` is set.
        sink: where the trace goes.
        lock: the turn lock of the session, held from before the session is resolved until the trace is written.
        graph: a compiled turn graph, else that of this process.

    Raises:
        SessionBusy: another turn holds the session.
        Exception: whatever a node raised, unchanged.
    """
    async with lock:
        started, start_ms = context.clock.now(), monotonic_ms()
        context.run_id = context.run_id or context.ids.uuid()
        header = {"agent": context.agent_id, "session_key": context.session_key, "started": started.isoformat()}
        spool = sink.spool(context.run_id, header)
        context.collector.listeners.append(spool.write)
        state: TurnState = {"inbound": inbound, "attempts": Attempts()}
        error: str | None = None
        try:
            compiled = graph or turn_graph()
            async with asyncio.timeout_at(context.deadline and context.deadline + _grace_s(context)):
                state = await compiled.ainvoke(  # type: ignore[assignment]
                    state, context=context, config={"recursion_limit": RECURSION_LIMIT}
                )
        except asyncio.CancelledError:
            error = "cancelled"
            raise
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            await _tell_end(context, state, error, start_ms)
            trace = build_trace(inbound, context, state, started, error)
            sink.append(trace)
            spool.close()
            _leave(context, error)
    return TurnOutcome(state.get("reply"), trace, state.get("session"), state)


def _leave(context: TurnContext, error: str | None) -> None:
    """Keep the transcript for the next turn; after a failure something may still be at work on it."""
    if context.transcript is None:
        return
    if error is None:
        context.transcripts.keep(context.transcript)
    else:
        context.transcript.close()


async def _tell_end(context: TurnContext, state: TurnState, error: str | None, start_ms: float) -> None:
    if not context.hooks.handles("agent_end"):
        return
    failed = await context.hooks.observe(
        "agent_end",
        context.hook_context,
        messages=state.get("messages", ()),
        success=error is None,
        error=error,
        duration_ms=monotonic_ms() - start_ms,
    )
    context.collector.note(failed)


def _grace_s(context: TurnContext) -> float:
    """Return how long a turn may go on beyond its deadline.

    Model and tool calls end at the deadline by themselves and a compaction has a time of its own, by which it moves
    the deadline (spec/compaction.md 6.3); this bounds what does not listen.
    """
    return _GRACE_S + timeout_ms(context.settings.compaction.timeout_seconds) / 1000


_GRACE_S = 30.0


def build_trace(
    inbound: Inbound, context: TurnContext, state: TurnState, started: datetime, error: str | None
) -> TurnTrace:
    """Put the trace of a turn together from its collector and, when there is one, its final state."""
    collector = context.collector
    session = state.get("session")
    reply = state.get("reply")
    attempts = state.get("attempts") or Attempts()
    facts = context.model.facts
    segments = prompt_segments(collector.prompt, context.counter) if collector.prompt else ()
    return TurnTrace(
        trace_id=context.run_id,
        agent_id=context.agent_id,
        session_key=session.key if session else context.session_key,
        session_id=context.transcript.session_id if context.transcript else "",
        turn=turn_number(session) if session else 0,
        started=started,
        ended=context.clock.now(),
        facts={
            "trigger": inbound.kind,
            "flow_run_id": inbound.flow_run_id,
            "model": facts.name,
            "api": facts.api,
            "window_tokens": context.window_tokens,
            "settings_digest": context.settings.digest,
            "graph_digest": graph_digest(),
            "counter": context.counter.name,
            "prompt_tokens": sum(segment.tokens for segment in segments),
            "context_tokens": total(context.counter, state.get("messages", ())),
            "model_calls": collector.model_calls,
            "reported_usage": dict(collector.usage),
            "reply": reply.kind if reply else None,
            "overflows": attempts.overflows,
            "compactions": attempts.compactions,
            "flushes": attempts.flushes,
            "error": error or (reply.error if reply and reply.kind == "error" else None),
        },
        nodes=tuple(collector.runs),
        decisions=tuple(collector.decisions),
        segments=segments,
    )


@cache
def graph_digest() -> str:
    """Return the digest of the compiled graph: node names, edges and package version (spec/seeing.md 1.3)."""
    picture = drawable(turn_graph())
    text = "\n".join((*picture.nodes, *(f"{e.source}>{e.target}:{e.label}" for e in picture.edges)))
    return sha256(f"{version('turngraph')}\n{text}".encode()).hexdigest()[:16]
