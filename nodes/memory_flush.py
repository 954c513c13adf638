"""memory_flush: give the model one quiet chance to note lasting facts before the history is folded.

It runs on a detached copy of the conversation: nothing of it reaches the transcript, only the day's note may change.
Source: spec/compaction.md section 1, known-faults 6.1 to 6.5, design decisions 4 and 12.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from nodes.compaction.cycle import compaction_count
from nodes.compaction.preparation import NotPrepared, prepare_compaction
from nodes.compaction.settings import Limits, effective_settings
from nodes.compaction.staging import tool_groups
from nodes.compaction.usage import add_usage
from nodes.events import emit
from nodes.flush_prompts import FlushPrompts, flush_prompts
from nodes.history.provider_policy import resolve_policy
from nodes.sanitize import prepare_request
from nodes.state import Attempts, TurnContext, TurnState
from nodes.system_prompt import system_text
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.errors import ModelError
from turngraph.extractive import extractive_facts
from turngraph.history import as_history
from turngraph.messages import Message, text_block, tool_result_message, user_message
from turngraph.models.model import Finished, Model, ModelRequest
from turngraph.tokens import Counter, total
from turngraph.tools.arguments import fit_arguments
from turngraph.tools.flush_read import FlushReadTool
from turngraph.tools.tool import Tool, ToolContext, ToolResult
from turngraph.tools.write import flush_write_tool

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "memory_flush"
MAX_FAILURES = 3  # in a row; then this cycle is done
MAX_MODEL_CALLS = 8
PROMPT_ROOM_TOKENS = 1_500  # flush prompt, system addition and a short answer
TIMEOUT_S = 300.0
OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Flushed:
    """What came of a flush; ``by`` is the model, or how the facts were found without one."""

    kind: Literal["succeeded", "failed"]
    by: str
    why: str
    written_bytes: int = 0
    usage: dict[str, float] = field(default_factory=dict)


async def memory_flush(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: run the flush, note in the session entry that this cycle had it, and go on.

    A failure never stops the turn. The compaction count is taken before the run, so that a compaction meanwhile
    begins a cycle of its own.
    """
    context = runtime.context
    session = state["session"]
    entry = context.sessions.find(session.key).entry or {}
    count = compaction_count(entry, context.opened.branch())
    attempts = state.get("attempts", Attempts())
    emit(runtime, "memory_flush_start")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            flushed = await run_flush(state, context)
    except TimeoutError:
        flushed = Flushed("failed", "", f"timed out after {TIMEOUT_S:g} s")
    except (ModelError, OSError) as error:
        flushed = Flushed("failed", "", f"{type(error).__name__}: {error}")
    emit(runtime, "memory_flush_end", kind=flushed.kind)
    patch, decisions = _bookkeeping(flushed, entry, count, context)
    stored = context.sessions.update(session.key, patch, touch=False)
    if any(decision.what == "warned" for decision in decisions) and context.settings.compaction.notify_user:
        emit(runtime, "notice", text=f"Notes could not be saved before the compaction: {flushed.why}")
    return {
        "session": replace(session, entry=stored),
        "attempts": attempts.bump(flush_tried=True, flushes=attempts.flushes + (flushed.kind == "succeeded")),
        "decisions": decisions,
    }


async def run_flush(state: TurnState, context: TurnContext) -> Flushed:
    """Run one flush on a copy of the conversation.

    Raises:
        ModelError: the model failed.
    """
    settings = context.settings
    flush = settings.compaction.memory_flush
    prompts = flush_prompts(flush.prompt, flush.system_prompt, context.clock.now(), settings.zone)
    limits = effective_settings(settings.compaction, context.window_tokens)
    models = flush_models(context)
    if not models:
        return await _without_model(prompts, limits, context)
    copied = newest_that_fit(state["messages"], limits.threshold_tokens - PROMPT_ROOM_TOKENS, context.counter)
    asked = user_message([text_block(prompts.prompt)], context.clock.now())
    base, stable_chars = system_text(state.get("system", ()))
    system = "\n\n".join(part for part in (base, prompts.system) if part)
    for index, model in enumerate(models):
        try:
            return await _ask(model, (*copied, asked), system, stable_chars, prompts.path, context)
        except ModelError:
            if index + 1 == len(models):
                raise
    raise AssertionError("there is at least one model")


def flush_models(context: TurnContext) -> tuple[Model, ...]:
    """Return the models to try; none offline and in a replay, where the facts are picked out without one.

    ``memoryFlush.model`` is exact: it has no fallbacks.
    """
    if context.flush_model is not None:
        chosen: tuple[Model, ...] = (context.flush_model,)
    else:
        chosen = (context.model, *context.fallbacks) if context.live else ()
    return tuple(model for model in chosen if model.facts.provider != OFFLINE)


def newest_that_fit(messages: Sequence[Message], room_tokens: int, counter: Counter) -> tuple[Message, ...]:
    """Return the newest messages within ``room_tokens``, tool calls together with their results."""
    kept: tuple[Message, ...] = ()
    tokens = 0
    for group in reversed(tool_groups(messages)):
        tokens += total(counter, group)
        if tokens > room_tokens:
            break
        kept = (*group, *kept)
    return kept


async def _without_model(prompts: FlushPrompts, limits: Limits, context: TurnContext) -> Flushed:
    """Write the facts that can be picked out of what is about to be folded (design decision 12)."""
    branch = context.opened.branch()
    plan = prepare_compaction(branch, limits, context.counter)
    messages = context.opened.context().messages if isinstance(plan, NotPrepared) else plan.all_folded
    facts = extractive_facts(messages)
    if not facts:
        return Flushed("succeeded", "extractive", "no lasting facts found")
    arguments = {"path": prompts.path, "content": f"{facts}\n"}
    result = await flush_write_tool(prompts.path).execute(arguments, _tool_context(context))
    if result.is_error:
        return Flushed("failed", "extractive", str(result.details.get("code")))
    return Flushed("succeeded", "extractive", "facts picked out without a model", _bytes(result))


async def _ask(
    model: Model, messages: tuple[Message, ...], system: str, stable_chars: int, path: str, context: TurnContext
) -> Flushed:
    tools: tuple[Tool, ...] = (FlushReadTool(path), flush_write_tool(path))
    written = 0
    usage: dict[str, float] = {}
    for _ in range(MAX_MODEL_CALLS):
        answer = await _answer(model, messages, system, stable_chars, tools, context)
        add_usage(usage, answer.usage if answer else None)
        if answer is None or answer.stop_reason in ("error", "aborted"):
            return Flushed("failed", model.facts.name, "the model reported an error", written, usage)
        if not answer.tool_calls:
            return Flushed("succeeded", model.facts.name, "the model has finished", written, usage)
        results = []
        for call in answer.tool_calls:
            tool = next((tool for tool in tools if tool.spec.name == call.name), None)
            result = await _run_tool(tool, call.name, call.arguments, context)
            written += _bytes(result)
            results.append(tool_result_message(call, result.content, context.clock.now(), is_error=result.is_error))
        messages = as_history(messages).plus(answer, *results)
    return Flushed("succeeded", model.facts.name, f"stopped after {MAX_MODEL_CALLS} model calls", written, usage)


async def _answer(
    model: Model,
    messages: tuple[Message, ...],
    system: str,
    stable_chars: int,
    tools: tuple[Tool, ...],
    context: TurnContext,
) -> Message | None:
    facts = model.facts
    policy = resolve_policy(facts.provider, facts.api, facts.model_id)
    names = tuple(tool.spec.name for tool in tools)
    request = ModelRequest(
        system=system,
        messages=prepare_request(messages, policy, to_ms(context.clock.now()), names).messages,
        tools=tuple(tool.spec for tool in tools),
        stable_system_chars=stable_chars,
        purpose="flush",
    )
    async for event in model.stream(request):
        if context.cancel.is_set():
            raise asyncio.CancelledError
        if isinstance(event, Finished):
            return event.message
    return None


async def _run_tool(tool: Tool | None, name: str, given: Any, context: TurnContext) -> ToolResult:
    if tool is None:
        return ToolResult(
            [text_block(f"Tool {name} not found: a memory flush has read and write only.")], is_error=True
        )
    arguments, problem = fit_arguments(tool.spec, given)
    if problem:
        return ToolResult([text_block(problem)], is_error=True)
    return await tool.execute(arguments, _tool_context(context))


def _tool_context(context: TurnContext) -> ToolContext:
    return ToolContext(
        workspace=context.workspace,
        media=context.home.media_dir(context.agent_id),
        clock=context.clock,
        cancel=context.cancel,
        file_changed=context.file_changed,
    )


def _bytes(result: ToolResult) -> int:
    value = result.details.get("bytes")
    return value if isinstance(value, int) and result.details.get("operation") == "append" else 0


def _bookkeeping(
    flushed: Flushed, entry: Any, count: int, context: TurnContext
) -> tuple[dict[str, Any], tuple[Decision, ...]]:
    now_ms = to_ms(context.clock.now())
    if flushed.kind == "succeeded":
        why = f"{flushed.by}: {flushed.why}; {flushed.written_bytes} bytes written before compaction {count + 1}"
        data: dict[str, Any] = {"bytes": flushed.written_bytes, "by": flushed.by}
        decision = Decision(NODE, "flushed", why, data=data | ({"usage": flushed.usage} if flushed.usage else {}))
        return _marked({"kind": "succeeded", "compactionCount": count}, count, now_ms), (decision,)
    earlier = entry.get("memoryFlush")
    in_a_row = isinstance(earlier, dict) and earlier.get("kind") == "failed"
    failures = 1 + (earlier.get("failureCount", 0) if in_a_row else 0)
    state = {"kind": "failed", "compactionCount": count, "failureCount": failures}
    why = f"failure {failures} of at most {MAX_FAILURES} in a row: {flushed.why}"
    failed = Decision(NODE, "failed", why)
    if failures < MAX_FAILURES:
        return {"memoryFlush": state}, (failed,)
    warned = Decision(NODE, "warned", f"no flush before compaction {count + 1}: it failed {failures} times")
    return _marked(state | {"failureCount": 0}, count, now_ms), (failed, warned)


def _marked(state: dict[str, Any], count: int, now_ms: int) -> dict[str, Any]:
    return {"memoryFlush": state, "memoryFlushCompactionCount": count, "memoryFlushAt": now_ms}
