"""command: answer /status and /context from what is known, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodes.prune import prune_status
from nodes.reset_policy import describe_reset_policy
from nodes.state import Reply, SessionFacts, TurnContext, TurnState
from turngraph.decisions import Decision
from turngraph.tokens import total

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


async def command(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: the reply to a command that changes nothing."""
    context = runtime.context
    name = state.get("command")
    lines = status_lines(state["session"], context) if name == "status" else context_lines(context)
    decision = Decision(node="command", what="called", why=f"/{name} answered without a model")
    return {"reply": Reply("command", "\n".join(lines)), "route": "answered", "decisions": (decision,)}


def status_lines(session: SessionFacts, context: TurnContext) -> list[str]:
    """Say which session this is, what it holds, whether it is pruned, and when it resets by itself."""
    entry = session.entry
    messages = context.opened.context().messages
    tokens = entry.get("totalTokens")
    fresh = "" if entry.get("totalTokensFresh") else " (not fresh)"
    window = context.window_tokens
    lines = [
        f"Session {session.key} ({session.session_id})",
        f"Model {context.model.facts.name}, window {window:,} tokens",
        f"Context {tokens if tokens is not None else 'unknown'} tokens{fresh}, {len(messages)} visible messages",
        f"Compactions {entry.get('compactionCount') or 0}",
        f"Pruning {prune_status(messages, context)}",
        describe_reset_policy(session, context.settings, context.clock.now()),
    ]
    reason = entry.get("resetReason")
    if reason:
        lines.append(f"This session began because of: {reason}")
    return lines


def context_lines(context: TurnContext) -> list[str]:
    """Say what the visible history weighs, by role."""
    messages = context.opened.context().messages
    by_role: dict[str, list[int]] = {}
    for message in messages:
        by_role.setdefault(message.role or "unknown", []).append(context.counter.message(message))
    everything = total(context.counter, messages)
    lines = [f"History {everything:,} of {context.window_tokens:,} tokens ({context.counter.name})"]
    lines += [f"  {role}: {len(counts)} messages, {sum(counts):,} tokens" for role, counts in sorted(by_role.items())]
    return lines
