"""compact: fold the older part of the history into a summary, and say where the turn goes from there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodes.compaction.outcome import NODE, Outcome, Trigger
from nodes.compaction.run import FORCED, run_compaction
from nodes.events import emit
from nodes.overflow import has_oversized_results, next_recovery
from nodes.record import record_failure
from nodes.state import Attempts, Reply, TurnContext, TurnState
from stores.events import AgentEvent, EventFile
from turngraph.clock import to_ms
from turngraph.decisions import Decision

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

START_NOTICE = "🧹 Compacting context..."
DONE_NOTICE = "🧹 Auto-compaction complete (count {count})."
_VERBOSE = frozenset({"on", "full"})  # verboseLevel of the session


async def compact(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`nodes.compaction.run.run_compaction`.

    Routes: ``compacted`` (load the history again), ``not compacted`` (go on with what there is), ``shrink due`` and
    ``answered`` (manual, or nothing is left to try).

    Source: spec/compaction.md sections 5.6 and 6.2.
    """
    context = runtime.context
    attempts = state.get("attempts", Attempts())
    manual = state.get("command") == "compact"
    trigger: Trigger = "manual" if manual else attempts.compaction_trigger
    emit(runtime, "auto_compaction_start", reason=trigger)
    if context.settings.compaction.notify_user:
        emit(runtime, "notice", text=START_NOTICE)
    outcome = await _outside_the_turns_time(
        context,
        run_compaction(
            context,
            state["session"],
            trigger=trigger,
            focus=state.get("command_text") if manual else None,
            halvings=attempts.compactions if trigger in FORCED else 0,
        ),
    )
    will_retry = outcome.compacted and not manual
    emit(runtime, "auto_compaction_end", reason=trigger, willRetry=will_retry, errorMessage=outcome.reason)
    if will_retry and state["session"].entry.get("verboseLevel") in _VERBOSE:
        emit(runtime, "notice", text=DONE_NOTICE.format(count=outcome.count))
    update = _update(state, outcome, attempts, trigger, context)
    reply = update.get("reply")
    if reply is not None and reply.kind == "error" and state.get("user_entry_id"):
        update["decisions"] = (*update["decisions"], *(await record_failure(reply.text, runtime)).decisions)
    return update


def _update(
    state: TurnState, outcome: Outcome, attempts: Attempts, trigger: Trigger, context: TurnContext
) -> dict[str, Any]:
    # A threshold compaction that found nothing to fold leaves the way open for one that an overflow forces.
    final = outcome.failed or trigger in FORCED
    tried = attempts.bump(
        compactions=attempts.compactions + outcome.compacted,
        failed=outcome.reason if final else attempts.failed,
    )
    update: dict[str, Any] = {"attempts": tried, "decisions": outcome.decisions}
    if outcome.compacted:
        entry = context.sessions.find(state["session"].key).entry
        update["session"] = replace(state["session"], entry=entry or state["session"].entry)
    if trigger == "manual":
        reply = _manual_reply(outcome, context.window_tokens)
        if outcome.compacted and context.live:
            _tell_next_turn(reply.text, context)
        return update | {"route": "answered", "why": "/compact", "reply": reply}
    if outcome.compacted:
        why = f"{outcome.tokens_before} tokens became {outcome.tokens_after}"
        return update | {"route": "compacted", "why": why}
    if trigger != "overflow":
        return update | {"route": "not compacted", "why": outcome.reason or ""}
    shrinkable = has_oversized_results(state.get("messages", ()), context.window_tokens)
    recovery = next_recovery(tried, shrinkable=shrinkable, off=context.settings.compaction.mode == "off")
    decisions: tuple[Decision, ...] = (*outcome.decisions, *(replace(d, node=NODE) for d in recovery.decisions))
    update |= {"route": recovery.route, "why": recovery.why, "decisions": decisions}
    if recovery.route == "answered":
        update["reply"] = Reply("error", recovery.reply_text, "ModelError")
    return update


def _manual_reply(outcome: Outcome, window_tokens: int) -> Reply:
    if outcome.tokens_before and outcome.tokens_after and outcome.compacted:
        sizes = f"{outcome.tokens_before:,} → {outcome.tokens_after:,} tokens"
        usage = f"context {outcome.tokens_after / window_tokens:.0%} of {window_tokens:,}"
        return Reply("command", f"⚙️ Compacted ({sizes}) • {usage}")
    head = "Compaction failed" if outcome.failed else "Compaction skipped"
    return Reply("command", f"⚙️ {head}: {outcome.reason}", "CompactionFailed" if outcome.failed else None)


def _tell_next_turn(text: str, context: TurnContext) -> None:
    event = AgentEvent(
        context.ids.uuid(), "event", text, int(to_ms(context.clock.now())), "compact", context.session_key or None
    )
    EventFile(context.home.events_file(context.agent_id)).add(event)


async def _outside_the_turns_time(context: TurnContext, work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Run a compaction; it has a time limit of its own and takes nothing from that of the turn (section 6.3)."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    try:
        return await _cancellable(work, context.cancel)
    finally:
        if context.deadline is not None:
            context.deadline += loop.time() - started


async def _cancellable(work: Coroutine[Any, Any, Outcome], cancel: asyncio.Event) -> Outcome:
    """Run ``work`` until it is done or the turn is cancelled."""
    task: asyncio.Task[Outcome] = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(cancel.wait())
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise asyncio.CancelledError
        return task.result()
    finally:
        stop.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
