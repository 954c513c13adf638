"""persist: bring the session entry up to date with what the turn did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodes.record import record_missing_results
from nodes.sanitize import model_snapshot
from nodes.state import Attempts, SessionFacts, TurnContext, TurnState
from nodes.system_events import consume_events
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.messages import Message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

CACHE_TOUCH = "openclaw.cache-ttl"
MODEL_SNAPSHOT = "model-snapshot"


async def persist(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: results for calls that have none, the cache touch, and the counters of the session entry.

    Source: spec/sessions.md 3.3 (token accounting), spec/context.md section 1 steps 11 and 12.
    """
    context = runtime.context
    written = await record_missing_results(runtime)
    decisions = list(written.decisions)
    compacted = state.get("attempts", Attempts()).compactions > 0
    answered = last_answer(state.get("messages", ()))
    if answered is not None and context.settings.context_pruning.mode == "cache-ttl" and not compacted:
        facts = context.model.facts
        touch = {"timestamp": to_ms(context.clock.now()), "provider": facts.provider, "modelId": facts.model_id}
        context.opened.append_custom(CACHE_TOUCH, touch)
        decisions.append(Decision(node="persist", what="written", why="cache touch time recorded for pruning"))
    reply = state.get("reply")
    if reply is not None and reply.kind not in ("error", "cancelled"):
        decisions += consume_events(state.get("notes", ()), context)
    session = state["session"]
    if answered is not None and (snapshot := _new_snapshot(session, context)) is not None:
        context.opened.append_custom(MODEL_SNAPSHOT, snapshot)
        model = f"{context.model.facts.name}, api {context.model.facts.api or 'by default'}"
        decisions.append(
            Decision(node="persist", what="written", why=f"the session is answered by {model} from here on")
        )
    changes = {"turngraph": counted(session)} | entry_changes(
        answered, context, is_user=state["inbound"].kind == "user", has_reply=bool(state["reply"])
    )
    context.sessions.update(session.key, {"sessionId": session.session_id, **changes})
    if context.live and context.settings.session.durability == "turn":
        context.opened.sync()
    tokens = changes.get("totalTokens")
    decisions.append(
        Decision(
            node="persist",
            what="written",
            why=f"session entry updated: context {tokens if tokens is not None else 'unknown'} tokens",
            tokens_after=tokens,
        )
    )
    return {"decisions": tuple(decisions)}


def _new_snapshot(session: SessionFacts, context: TurnContext) -> dict[str, Any] | None:
    """Return the data of a model snapshot when another model answered than the session entry or the transcript says.

    The entry is asked first: the last snapshot may lie far back in the file.
    """
    facts = context.model.facts
    if not session.is_new and _answered_by(session.entry) == (facts.provider, facts.model_id):
        return None
    last = context.opened.newest_custom(MODEL_SNAPSHOT)
    data = last.raw.get("data") if last else None
    known = data if isinstance(data, dict) else None
    return model_snapshot(known, facts.provider, facts.api, facts.model_id, to_ms(context.clock.now()))


def _answered_by(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry.get("modelProvider"), entry.get("model")


def turn_number(session: SessionFacts) -> int:
    """Return the number of a turn in its session, from 1."""
    ours = session.entry.get("turngraph")
    count = ours.get("turns") if isinstance(ours, dict) and not session.is_new else None
    return (count if isinstance(count, int) else 0) + 1


def counted(session: SessionFacts) -> dict[str, Any]:
    """Return our own fields of the session entry with this turn counted."""
    ours = session.entry.get("turngraph")
    return {**(ours if isinstance(ours, dict) else {}), "turns": turn_number(session)}


def last_answer(messages: tuple[Message, ...]) -> Message | None:
    """Return the assistant message that ended the turn, if the turn has one."""
    for message in reversed(messages):
        if message.role == "assistant":
            return message
        if message.role == "user":
            return None
    return None


def entry_changes(answered: Message | None, context: TurnContext, *, is_user: bool, has_reply: bool) -> dict[str, Any]:
    """Return the fields of the session entry that a turn changes.

    ``totalTokens`` is the size of the context at the last model call; without usage it is unknown and marked so.
    """
    changes: dict[str, Any] = {
        "contextTokens": context.window_tokens,
        "modelProvider": context.model.facts.provider,
        "model": context.model.facts.model_id,
        "systemSent": True,
        "abortedLastRun": answered is not None and answered.stop_reason == "aborted",
    }
    if is_user:
        changes["lastInteractionAt"] = to_ms(context.clock.now())
    usage: Mapping[str, Any] | None = answered.usage if answered else None
    if usage is None:
        return changes | ({"totalTokensFresh": False} if has_reply else {})
    fields = {key: int(usage.get(key) or 0) for key in ("input", "output", "cacheRead", "cacheWrite")}
    prompt_tokens = fields["input"] + fields["cacheRead"] + fields["cacheWrite"]
    changes |= {
        "inputTokens": fields["input"],
        "outputTokens": fields["output"],
        "cacheRead": fields["cacheRead"],
        "cacheWrite": fields["cacheWrite"],
    }
    if prompt_tokens > 0:
        return changes | {"totalTokens": prompt_tokens, "totalTokensFresh": True}
    return changes | {"totalTokensFresh": False}
