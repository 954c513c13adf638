"""prompt: append the user's message and run the agent loop on the working set."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Protocol

from nodes.attachments import MIB, entry_media, take_in
from nodes.events import emit, emit_message
from nodes.loop_state import LoopInput, LoopOutput
from nodes.overflow import plan_recovery
from nodes.prompt_hooks import ask_prompt_hooks
from nodes.record import record, record_failure
from nodes.state import Attempts, Reply, SessionFacts, TurnContext, TurnState
from stores.media import MediaFact
from stores.transcript_context import DEFAULT_THINKING_LEVEL
from stores.transcript_entries import Entry
from turngraph.decisions import Decision
from turngraph.errors import error_name
from turngraph.history import as_history
from turngraph.messages import Message, text_block, user_message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


class AgentLoop(Protocol):
    """The compiled agent loop."""

    async def ainvoke(self, input: LoopInput, *, context: TurnContext) -> Mapping[str, Any]: ...


def prompt_with(loop: AgentLoop) -> Callable[[TurnState, Runtime[TurnContext]], Coroutine[Any, Any, dict[str, Any]]]:
    """Return the prompt node around a compiled agent loop.

    The loop is called from a function node, so that the node is timed, streams under its own namespace and selects
    what goes in and out (spec/spike.md section 1).
    """

    async def prompt(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
        """LangGraph node: at most one user entry a turn, however often an overflow brings the turn back here."""
        emit(runtime, "agent_start")
        emit(runtime, "turn_start")
        messages, system, notes = state["messages"], state["system"], state.get("notes", ())
        entry_id = state.get("user_entry_id")
        decisions: tuple[Decision, ...] = ()
        if entry_id is None:
            hooked = await ask_prompt_hooks(
                state["text"], system, notes, messages, runtime.context, runtime.context.agent_start
            )
            system, notes = hooked.system, hooked.notes
            messages, entry_id, decisions = await _append_user(state, runtime)
            decisions = (*hooked.decisions, *decisions)
        inner: LoopInput = {
            "inbound": state["inbound"],
            "session": state["session"],
            "system": system,
            "messages": messages,
            "notes": notes,
            "user_entry_id": entry_id,
            "attempts": state.get("attempts", Attempts()),
        }
        out: LoopOutput = await loop.ainvoke(inner, context=runtime.context)  # type: ignore[assignment]
        emit(runtime, "agent_end")
        update: dict[str, Any] = {
            "messages": out["messages"],
            "system": system,
            "notes": notes,
            "user_entry_id": entry_id,
            "decisions": (*decisions, *out.get("decisions", ())),
        }
        failure = out.get("failure")
        if failure is None:
            return update | {
                "route": out.get("route", "answered"),
                "why": out.get("why", ""),
                "reply": out.get("reply"),
            }
        recovery = plan_recovery(
            failure,
            state.get("attempts", Attempts()),
            messages=out["messages"],
            window_tokens=runtime.context.window_tokens,
            settings=runtime.context.settings,
        )
        update["decisions"] = (*update["decisions"], *recovery.decisions)
        if recovery.route != "answered":
            return update | {"route": recovery.route, "why": recovery.why, "attempts": recovery.attempts}
        await record_failure(recovery.reply_text, runtime)
        reply = Reply("error", recovery.reply_text, error_name(failure))
        return update | {"route": "answered", "why": recovery.why, "reply": reply, "attempts": recovery.attempts}

    return prompt


async def _append_user(
    state: TurnState, runtime: Runtime[TurnContext]
) -> tuple[tuple[Message, ...], str | None, tuple[Decision, ...]]:
    """Append the user's message; an unanswered one of a crashed turn is taken along (spec/context.md 1, step 9)."""
    context = runtime.context
    inbound = state["inbound"]
    branch = context.opened.branch()
    said = state.get("text", "")
    opening = take_orphan_along(state["messages"], said, branch[-1] if branch else None)
    decisions = (*opening.decisions, *_set_thinking(state["session"], context))
    extra: dict[str, Any] | None = None
    if inbound.recorded is not None:
        message = Message(inbound.recorded)
        message = message if opening.text == said else message.evolve(content=opening.text)
    else:
        limit_bytes = int(context.settings.media_max_mb * MIB)
        taken = take_in(opening.text, inbound.attachments, context.media.put, limit_bytes)
        decisions = (*decisions, *taken.decisions)
        media = (*opening.media, *taken.media)
        extra = {"turngraph": {"media": [fact.raw for fact in media]}} if media else None
        fields: dict[str, Any] = {"provenance": inbound.provenance} if inbound.provenance else {}
        message = user_message([text_block(taken.text)], inbound.at or context.clock.now(), **fields)
    written = await record(message, runtime, durable=True, extra=extra, parent=opening.parent)
    for appended in written.messages:
        emit_message(runtime, appended)
    entry_id = written.messages[-1].entry_id if written.messages else None
    return as_history(opening.messages).plus(*written.messages), entry_id, (*decisions, *written.decisions)


def _set_thinking(session: SessionFacts, context: TurnContext) -> tuple[Decision, ...]:
    """Give a new session its thinking level: what a reset kept, else the agent's; a fork goes on with its parent's."""
    level = session.entry.get("thinkingLevel") or context.settings.thinking_default
    known = context.opened.context().thinking_level
    if not session.is_new or known != DEFAULT_THINKING_LEVEL or level == known:
        return ()
    entry = context.opened.append_thinking_level(level)
    return (Decision("prompt", "written", f"thinking level {level} for the new session", entry_ids=(entry.id,)),)


@dataclass(frozen=True, slots=True)
class Opening:
    """How the user's message enters the history.

    Attributes:
        messages: the working set in front of it. text: what it says.
        media: files of an orphan that it takes along. parent: the entry it follows, when that is not the leaf.
    """

    messages: tuple[Message, ...]
    text: str
    media: tuple[MediaFact, ...] = ()
    parent: str | EllipsisType | None = ...
    decisions: tuple[Decision, ...] = ()


def take_orphan_along(messages: tuple[Message, ...], text: str, newest: Entry | None) -> Opening:
    """Put the unanswered message of a crashed turn in front of the new one, which takes its place on the path.

    Args:
        messages: the working set.
        text: what the user says now.
        newest: the leaf of the transcript.

    Source: spec/context.md section 1 step 9, design decision 4.
    """
    orphan = messages[-1] if messages else None
    if newest is None or orphan is None or orphan.role != "user" or orphan.entry_id != newest.id:
        return Opening(messages, text)
    merged = text if orphan.text.strip() == text.strip() else f"{orphan.text}\n\n{text}"
    why = "the newest entry was a user message without an answer; its text stands in front of the new message"
    decision = Decision(node="prompt", what="repaired", why=why, entry_ids=(newest.id,))
    return Opening(messages[:-1], merged, entry_media(newest.raw), newest.parent_id, (decision,))
