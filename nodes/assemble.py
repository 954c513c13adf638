"""assemble: turn the working set into the request that is sent, before every model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

from nodes.attachments import show_images
from nodes.compaction.settings import effective_settings
from nodes.guard_tools import Governed, Window, govern
from nodes.history.provider_policy import resolve_policy
from nodes.loop_state import LoopState
from nodes.prune import keep_shortened, prune_again
from nodes.sanitize import prepare_request
from nodes.segments import PromptParts
from nodes.state import Attempts, ContextNote, TurnContext
from nodes.system_prompt import system_text
from turngraph.clock import to_ms
from turngraph.config.schema_agent import ThinkingLevel
from turngraph.decisions import Decision
from turngraph.errors import ModelError
from turngraph.messages import Message, compact_json, text_block
from turngraph.models.model import ModelFacts, ModelRequest, ToolSpec

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "prompt:assemble"


async def assemble(state: LoopState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node of the agent loop: prune, guard and budget on the working set, repairs on the outgoing copy.

    A request that does not fit, and that shorter tool results cannot make fit, is not sent: the loop ends with an
    overflow of our own finding, which is recovered like the provider's (spec/context.md section 1).
    """
    context = runtime.context
    specs = tuple(tool.spec for tool in context.tools)
    sections = state.get("system", ())
    system, stable_chars = system_text(sections)
    notes = state.get("notes", ())
    attempts = state.get("attempts", Attempts())
    pruned = prune_again(state["messages"], context) if state.get("model_calls") else None
    messages = pruned.messages if pruned else state["messages"]
    governed = govern(
        messages,
        _window(context, system, specs, notes),
        context.counter,
        last_resort=attempts.compactions > 0
        or attempts.failed is not None
        or context.settings.compaction.mode == "off",
    )
    keep_shortened(governed.shortened, context)
    decisions = (*(pruned.decisions if pruned else ()), *governed.decisions)
    update: dict[str, Any] = {"messages": governed.messages}
    failure = _overflow(governed, context, attempts, is_first=not state.get("model_calls"))
    if failure is not None:
        refused = Decision(NODE, "routed", f"not sent: {governed.check.why}")
        return update | {"step": "does not fit", "failure": failure, "decisions": (*decisions, refused)}
    outgoing, image_decisions = show_images(governed.messages, context)
    facts = context.model.facts
    policy = resolve_policy(facts.provider, facts.api, facts.model_id)
    prepared = prepare_request(
        outgoing, policy, to_ms(context.clock.now()), frozenset(spec.name for spec in specs) if context.live else None
    )
    context.collector.prompt = PromptParts(sections, specs, prepared.messages, notes, state.get("user_entry_id"))
    request = ModelRequest(
        system=system,
        messages=with_notes(prepared.messages, notes),
        tools=specs,
        stable_system_chars=stable_chars,
        max_output_tokens=answer_room(facts, governed.check.counted_tokens, attempts.overflows),
        thinking=known_level(context.opened.context().thinking_level),
        purpose=_purpose(state),
    )
    return update | {
        "request": request,
        "step": "request",
        "decisions": _unsaid((*decisions, *image_decisions, *prepared.decisions), state.get("decisions", ())),
    }


def known_level(level: str) -> str:
    """Return a thinking level that requests know; a level that only other programs have (``xhigh``) is the highest."""
    return level if level in get_args(ThinkingLevel) else "high"


def _unsaid(decisions: Sequence[Decision], said: Sequence[Decision]) -> tuple[Decision, ...]:
    """Leave out what an earlier request of this turn decided in the same words about the same entries."""
    known = {(decision.node, decision.what, decision.why, decision.entry_ids) for decision in said}
    return tuple(d for d in decisions if (d.node, d.what, d.why, d.entry_ids) not in known)


def answer_room(facts: ModelFacts, prompt_tokens: int, refusals: int = 0) -> int | None:
    """Return how long the answer may be: what the model can, but at most half of what the prompt leaves.

    Providers refuse a prompt and a longest answer that do not fit together, and each counts tokens in its own way;
    the other half is for that difference. Every refusal in this turn halves it again, for a window that is smaller
    than we were told.
    """
    left = max(0, facts.context_window - prompt_tokens) // 2 ** (refusals + 1)
    return max(1, min(facts.max_output_tokens, left)) if facts.max_output_tokens else None


def with_notes(messages: tuple[Message, ...], notes: Sequence[ContextNote]) -> tuple[Message, ...]:
    """Put the notes behind the text of the newest user message, so that everything before it stays the same."""
    if not notes:
        return messages
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            blocks = [*messages[index].blocks, *(text_block(note.text) for note in notes)]
            return (*messages[:index], messages[index].evolve(content=blocks), *messages[index + 1 :])
    return messages


def _window(context: TurnContext, system: str, specs: Sequence[ToolSpec], notes: Sequence[ContextNote]) -> Window:
    schemas = (f"{spec.name}{spec.description}{compact_json(dict(spec.parameters))}" for spec in specs)
    texts = (system, *schemas, *(note.text for note in notes))
    return Window(
        tokens=context.window_tokens,
        reserve_tokens=effective_settings(context.settings.compaction, context.window_tokens).reserve_tokens,
        overhead_tokens=sum(context.counter.text(text) for text in texts),
        per_result_chars=context.settings.context_limits.tool_result_max_chars,
    )


def _overflow(governed: Governed, context: TurnContext, attempts: Attempts, *, is_first: bool) -> ModelError | None:
    if governed.route == "fits":
        return None
    compaction = context.settings.compaction
    ahead = compaction.enabled and compaction.mode != "off"  # else only what the provider would refuse is held back
    may_compact = ahead and attempts.failed is None and attempts.compactions == 0
    if may_compact and (is_first or compaction.mid_turn_precheck.enabled):
        return ModelError(f"the request does not fit: {governed.check.why}", kind="overflow")
    if governed.check.counted_tokens > context.window_tokens:
        return ModelError(
            f"the request needs {governed.check.counted_tokens} tokens, the window has {context.window_tokens}",
            kind="overflow",
        )
    return None


def _purpose(state: LoopState) -> Any:
    kind = state["inbound"].kind
    if state["session"].bare_reset:
        return "greeting"
    return kind if kind in ("heartbeat", "cron") else "turn"
