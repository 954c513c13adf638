"""tools: run the calls of the last answer and record their results in call order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nodes.events import emit, emit_message
from nodes.inbox import take_steering
from nodes.loop_detection import LoopWatch
from nodes.loop_state import LoopState
from nodes.record import record
from nodes.state import TurnContext
from turngraph.clock import monotonic_ms
from turngraph.decisions import Decision
from turngraph.history import as_history
from turngraph.messages import Message, ToolCall, block_text, text_block, tool_result_message
from turngraph.tools.arguments import TOOL_ALIASES, fit_arguments
from turngraph.tools.tool import Tool, ToolContext, ToolResult

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

SKIPPED_TEXT = "Skipped due to queued user message."  # spec/context.md 8.3, readers match it
UPDATES_PER_S = 10  # spec/tools.md 5.6


@dataclass(frozen=True, slots=True)
class Planned:
    """A call after all checks: either it may run, or it already has its result."""

    call: ToolCall
    tool: Tool | None = None
    arguments: Mapping[str, Any] | None = None
    refused: ToolResult | None = None
    decisions: tuple[Decision, ...] = ()
    warning: str = ""  # goes behind the result, for the model to read


async def tools(state: LoopState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node of the agent loop.

    All calls are checked first, then they run side by side, except that calls which name the same file keep their
    order. A user message that arrives meanwhile skips the calls that have not started.
    Source: spec/context.md sections 8.1 to 8.3, spec/tools.md 1.7.
    """
    context = runtime.context
    calls = state["calls"]
    for call in calls:
        emit(runtime, "tool_execution_start", toolCallId=call.id, toolName=call.name, args=dict(call.arguments))
    if context.sequential_tools:
        planned, results = [], []
        for call in calls:
            planned.append(await _plan(call, runtime))
            results.append(await _run(planned[-1], runtime))
    else:
        planned = [await _plan(call, runtime) for call in calls]
        results = await _side_by_side(planned, runtime)
    decisions = [decision for plan in planned for decision in plan.decisions]
    recorded: list[Message] = []
    for plan, result in zip(planned, results, strict=True):
        emit(runtime, "tool_execution_end", toolCallId=plan.call.id, result=result.content, isError=result.is_error)
        _watched(plan, result, context)
        content = [*result.content, text_block(plan.warning)] if plan.warning else result.content
        message = tool_result_message(
            plan.call, content, context.clock.now(), is_error=result.is_error, details=result.details
        )
        written = await record(message, runtime, durable=True)
        decisions.extend(written.decisions)
        for entry in written.messages:
            emit_message(runtime, entry)
        recorded.extend(written.messages)
    emit(runtime, "turn_end", toolResults=[message.raw for message in recorded])
    steering = await take_steering(runtime)
    for message in steering:
        emit_message(runtime, message)
    return {
        "messages": as_history(state["messages"]).plus(*recorded, *steering),
        "calls": (),
        "step": "results",
        "decisions": tuple(decisions),
    }


async def _plan(call: ToolCall, runtime: Runtime[TurnContext]) -> Planned:
    context = runtime.context
    if not context.steering.empty():
        return Planned(call, refused=_error(SKIPPED_TEXT, "ABORTED"))
    verdict = _watch(context).before(call.name, call.arguments) if context.live else None
    if verdict is None:
        return await _checked(call, context)
    why = f"{verdict.detector}: {call.name} called {verdict.count} times"
    decision = Decision("prompt:tools", "dropped" if verdict.level == "critical" else "warned", why)
    if verdict.level == "critical":
        return Planned(call, refused=_error(verdict.message, "NOT_ALLOWED"), decisions=(decision,))
    plan = await _checked(call, context)
    return replace(plan, warning=verdict.message, decisions=(decision, *plan.decisions))


def _watch(context: TurnContext) -> LoopWatch:
    if context.loop_watch is None:
        context.loop_watch = LoopWatch(context.settings.tools.loop_detection)
    return context.loop_watch


def _watched(plan: Planned, result: ToolResult, context: TurnContext) -> None:
    if context.live:
        outcome = {"content": result.content, "details": result.details}
        unknown = plan.tool is None and result.details.get("code") == "NOT_FOUND"
        _watch(context).after(plan.call.name, plan.call.arguments, outcome, unknown_tool=unknown)


async def _checked(call: ToolCall, context: TurnContext) -> Planned:
    named = {tool.spec.name: tool for tool in context.tools}
    tool = named.get(call.name) or named.get(TOOL_ALIASES.get(call.name, ""))
    if tool is None:
        reason = context.unavailable_tools.get(call.name)
        text = f"Tool {call.name} not found" + (f": {reason}" if reason else "")
        return Planned(call, refused=_error(text, "NOT_FOUND"))
    arguments, problem = fit_arguments(tool.spec, call.arguments)
    if problem:
        return Planned(call, refused=_error(problem, "BAD_ARGUMENT"))
    gate = await context.hooks.before_tool_call(call.name, arguments, call.id, context.hook_context)
    if gate.blocked:
        return Planned(call, refused=_error(gate.reason, "NOT_ALLOWED"), decisions=gate.decisions)
    return Planned(call, tool, gate.params, decisions=gate.decisions)


async def _side_by_side(planned: Sequence[Planned], runtime: Runtime[TurnContext]) -> list[ToolResult]:
    chains: dict[str, list[int]] = {}
    for index, plan in enumerate(planned):
        file = plan.tool.file_argument(plan.arguments or {}) if plan.tool else None
        chains.setdefault(f"file:{file}" if file else f"call:{index}", []).append(index)
    results: dict[int, ToolResult] = {}

    async def run_chain(indices: list[int]) -> None:
        for index in indices:
            results[index] = await _run(planned[index], runtime)

    async with asyncio.TaskGroup() as group:
        for indices in chains.values():
            group.create_task(run_chain(indices))
    return [results[index] for index in range(len(planned))]


async def _run(plan: Planned, runtime: Runtime[TurnContext]) -> ToolResult:
    if plan.refused is not None or plan.tool is None:
        return plan.refused or _error("Operation aborted", "ABORTED")
    context = runtime.context
    started = monotonic_ms()
    tool_context = ToolContext(
        workspace=context.workspace,
        media=context.home.media_dir(context.agent_id),
        clock=context.clock,
        cancel=context.cancel,
        deadline_s=None if context.deadline is None else max(0.0, context.deadline - asyncio.get_running_loop().time()),
        call_id=plan.call.id,
        update=_throttled(plan.call, runtime),
        file_changed=context.file_changed,
    )
    try:
        result = await plan.tool.execute(plan.arguments or {}, tool_context)
    except Exception as failure:  # a tool never ends the turn: its failure is an answer to the model
        result = _error(f"{type(failure).__name__}: {failure}", "IO")
    failed = await context.hooks.observe(
        "after_tool_call",
        context.hook_context,
        name=plan.call.name,
        params=plan.arguments or {},
        call_id=plan.call.id,
        result=result,
        error=_text_of(result) if result.is_error else None,
        duration_ms=monotonic_ms() - started,
    )
    context.collector.note(failed)
    return result if result.content else ToolResult([text_block("(no output)")], result.details, result.is_error)


def _text_of(result: ToolResult) -> str:
    return "\n".join(block_text(block) for block in result.content)


def _throttled(call: ToolCall, runtime: Runtime[TurnContext]) -> Any:
    last_ms = -1e9

    def update(partial: str) -> None:
        nonlocal last_ms
        now_ms = monotonic_ms()
        if now_ms - last_ms >= 1000 / UPDATES_PER_S:
            last_ms = now_ms
            emit(runtime, "tool_execution_update", toolCallId=call.id, partialResult=partial)

    return update


def _error(text: str, code: str) -> ToolResult:
    return ToolResult([text_block(text)], {"status": "error", "code": code}, is_error=True)
