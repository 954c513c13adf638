"""model: send the request, stream the answer, record it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nodes.events import emit, emit_message
from nodes.history.provider_policy import resolve_policy
from nodes.history.replay_boundary import normalize_model_output
from nodes.inbox import take_queued
from nodes.loop_state import LoopState
from nodes.overflow import is_overflow_answer
from nodes.record import record
from nodes.sanitize import prepare_request
from nodes.silent import SilentGate, is_silent, strip_silent
from nodes.state import Reply, TurnContext
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.errors import ModelError
from turngraph.history import as_history
from turngraph.messages import Message
from turngraph.models.model import Delta, Exhausted, Model, ModelFacts, ModelRequest
from turngraph.models.recorded import RecordedModel

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

RETRY_DELAYS_S = (2.0, 4.0, 8.0)  # spec/context.md 8.5
LONGEST_RETRY_AFTER_S = 60.0
FALLBACK_KINDS = frozenset({"auth", "quota", "rate", "server", "network", "timeout", "missing"})


async def model(state: LoopState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node of the agent loop: one model call, with retries and fallbacks.

    Source: spec/context.md sections 8.1, 8.3 and 8.5.
    """
    context = runtime.context
    request = state["request"]
    assert request is not None
    calls = state.get("model_calls", 0)
    limit = context.settings.max_model_calls
    if calls >= limit:
        text = f"I stopped after {limit} model calls in this turn; the work is not finished. Write again to go on."
        decision = Decision(node="prompt:model", what="ended", why=f"{calls} model calls, limit maxModelCalls {limit}")
        return {"step": "done", "route": "answered", "reply": Reply("limit", text), "decisions": (decision,)}
    try:
        answer, decisions = await _answer(request, runtime)
    except ModelError as failure:
        decision = Decision(node="prompt:model", what="failed", why=f"model call failed ({failure.kind}): {failure}")
        return {"step": "done", "failure": failure, "model_calls": calls + 1, "decisions": (decision,)}
    if answer is None:
        return {"step": "done", "route": "answered", "reply": _reply(state["messages"]), "decisions": decisions}
    _count(context, answer)
    if context.live and is_overflow_answer(answer, context.model.facts.context_window):
        overflow = ModelError(_overflow_text(answer), kind="overflow")
        decision = Decision(node="prompt:model", what="failed", why=f"not recorded: {overflow}")
        return {"step": "done", "failure": overflow, "model_calls": calls + 1, "decisions": (*decisions, decision)}
    answer = normalize_model_output(answer, tuple(tool.name for tool in request.tools))
    written = await record(answer, runtime)
    decisions = (*decisions, *written.decisions)
    messages = as_history(state["messages"]).plus(*written.messages)
    update: dict[str, Any] = {"messages": messages, "model_calls": calls + 1}
    stopped = answer.stop_reason in ("error", "aborted")
    pending = () if stopped else tuple(call for message in written.messages for call in message.tool_calls)
    if pending:
        return update | {"calls": pending, "step": "calls tools", "decisions": decisions}
    emit(runtime, "turn_end", message=answer.raw, toolResults=[])
    queued = () if answer.stop_reason == "aborted" else await take_queued(runtime)
    # A record may hold several answers in a row: after an error that was retried, or because its user went on.
    unplayed = isinstance(context.model, RecordedModel) and context.model.remaining > 0
    more = queued or unplayed
    if more:
        for message in queued:
            emit_message(runtime, message)
        return update | {"messages": messages.plus(*queued), "step": "queued messages", "decisions": decisions}
    return update | {
        "step": "done",
        "route": "answered",
        "reply": _reply((answer,)),
        "decisions": decisions,
    }


async def _answer(request: ModelRequest, runtime: Runtime[TurnContext]) -> tuple[Message | None, tuple[Decision, ...]]:
    context = runtime.context
    decisions: list[Decision] = []
    models = (context.model, *context.fallbacks)
    for index, candidate in enumerate(models):
        try:
            fitted = _fitted(request, candidate.facts, context)
            return await _with_retries(candidate, fitted, runtime, decisions), tuple(decisions)
        except ModelError as failure:
            if index + 1 == len(models) or failure.kind not in FALLBACK_KINDS:
                raise
            following = models[index + 1].facts.name
            why = f"{candidate.facts.name} failed ({failure.kind}); trying {following}"
            decisions.append(Decision(node="prompt:model", what="routed", why=why))
    raise AssertionError("there is at least one model")


def _fitted(request: ModelRequest, facts: ModelFacts, context: TurnContext) -> ModelRequest:
    """Return the request as a fallback takes it: another provider has other rules for a history."""
    first = context.model.facts
    if (facts.provider, facts.api, facts.model_id) == (first.provider, first.api, first.model_id):
        return request
    policy = resolve_policy(facts.provider, facts.api, facts.model_id)
    prepared = prepare_request(request.messages, policy, to_ms(context.clock.now()))
    asked, longest = request.max_output_tokens, facts.max_output_tokens
    limit = min(asked, longest) if asked and longest else asked or longest
    return replace(request, messages=prepared.messages, max_output_tokens=limit)


async def _with_retries(
    candidate: Model, request: ModelRequest, runtime: Runtime[TurnContext], decisions: list[Decision]
) -> Message | None:
    context = runtime.context
    for attempt in range(len(RETRY_DELAYS_S) + 1):
        try:
            return await _stream(candidate, request, runtime)
        except ModelError as failure:
            delay_s = failure.retry_after_s if failure.retry_after_s is not None else RETRY_DELAYS_S[min(attempt, 2)]
            if not failure.retryable or attempt == len(RETRY_DELAYS_S) or delay_s > LONGEST_RETRY_AFTER_S:
                raise
            emit(runtime, "auto_retry_start", attempt=attempt + 1, maxAttempts=3, delayMs=int(delay_s * 1000))
            why = f"retry {attempt + 1} of {len(RETRY_DELAYS_S)} in {delay_s:g} s after: {failure.kind}"
            decisions.append(Decision(node="prompt:model", what="routed", why=why))
            await _pause(context, delay_s)
    raise AssertionError("the last attempt returns or raises")


async def _pause(context: TurnContext, delay_s: float) -> None:
    try:
        await asyncio.wait_for(context.cancel.wait(), delay_s)
    except TimeoutError:
        return
    raise asyncio.CancelledError


async def _stream(candidate: Model, request: ModelRequest, runtime: Runtime[TurnContext]) -> Message | None:
    context = runtime.context
    await _tell_input(candidate, request, context)
    emit(runtime, "message_start", message={"role": "assistant"})
    gate = SilentGate()
    try:
        async with asyncio.timeout_at(context.deadline):
            async for event in candidate.stream(request):
                if isinstance(event, Delta):
                    shown = gate.pass_on(event.text)
                    if shown or event.thinking:
                        emit(runtime, "message_update", text=shown, thinking=event.thinking)
                elif isinstance(event, Exhausted):
                    return None
                else:
                    held = gate.finish()
                    if held:
                        emit(runtime, "message_update", text=held, thinking="")
                    emit(runtime, "message_end", message=event.message.raw)
                    await _tell_output(candidate, event.message, context)
                    return event.message
    except TimeoutError as error:
        raise ModelError(
            f"{candidate.facts.name} gave no answer within the time of the turn (timeoutSeconds)", kind="timeout"
        ) from error
    raise ModelError(f"{candidate.facts.name} ended its answer without a message", kind="network", retryable=True)


async def _tell_input(candidate: Model, request: ModelRequest, context: TurnContext) -> None:
    if not context.hooks.handles("llm_input"):
        return
    images = sum(block.get("type") == "image" for message in request.messages for block in message.blocks)
    newest = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
    failed = await context.hooks.observe(
        "llm_input",
        context.hook_context,
        provider=candidate.facts.provider,
        model=candidate.facts.model_id,
        system_prompt=request.system,
        prompt=newest,
        history=request.messages,
        images=images,
    )
    context.collector.note(failed)


async def _tell_output(candidate: Model, answer: Message, context: TurnContext) -> None:
    failed = await context.hooks.observe(
        "llm_output",
        context.hook_context,
        provider=candidate.facts.provider,
        model=candidate.facts.model_id,
        texts=(answer.text,),
        last=answer,
        usage=answer.usage or {},
    )
    context.collector.note(failed)


def _overflow_text(answer: Message) -> str:
    told = answer.raw.get("errorMessage")
    return told if isinstance(told, str) else "the provider cut the prompt: its usage is above the context window"


def _reply(messages: Any) -> Reply:
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if last is None:
        return Reply("silent")
    if last.stop_reason == "error":
        return Reply("error", str(last.raw.get("errorMessage") or "the model reported an error"), "ModelError")
    text = last.text
    if is_silent(text):
        return Reply("silent")
    return Reply("text", strip_silent(text))


def _count(context: TurnContext, answer: Message) -> None:
    usage: Mapping[str, Any] = answer.usage or {}
    context.collector.model_calls += 1
    for key in ("input", "output", "cacheRead", "cacheWrite"):
        value = usage.get(key)
        if isinstance(value, (int, float)):
            context.collector.usage[key] = context.collector.usage.get(key, 0) + value
