"""sanitize: repair the working set so that its provider accepts it; the transcript stays as it is.

Order (known-faults 3): repair, limit, repair again, turn rules. :func:`repair_history` is the first step,
``limit_history`` does the rest; :func:`prepare_request` runs both on what is about to be sent, since a turn adds
messages of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from nodes.history.content import (
    ANNOTATE_INTER_SESSION,
    BLANK_TEXT,
    BLANK_USERS,
    CANONICAL_CONTENT,
    KNOWN_BLOCKS,
    SILENT_ANSWERS,
    STRIP_DETAILS,
    assistant_blanks,
    is_plain,
    lift_result_blocks,
)
from nodes.history.images import MAX_DIMENSION_PX, prune_processed, sound_images
from nodes.history.pairing import pair_results
from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.step import Pass, Rule, Rules, Step, chain
from nodes.history.thinking import (
    LONE_REASONING,
    drop_reasoning,
    drop_thinking,
    foreign_signatures,
    has_thinking,
    strip_unsigned,
    unpair_calls,
)
from nodes.history.to_model import to_model
from nodes.history.tool_ids import RESULT_IDS, rename_ids
from nodes.history.tool_inputs import clean_tool_calls, resolve_call_names
from nodes.history.turn_rules import apply_turn_rules
from nodes.history.usage import ENSURE_USAGE, strip_stale_usage
from nodes.state import TurnContext, TurnState
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.messages import Message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


_CONTENT_RULES = (
    *(CANONICAL_CONTENT, RESULT_IDS, KNOWN_BLOCKS, BLANK_USERS, BLANK_TEXT),
    ANNOTATE_INTER_SESSION,
)


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A history that the provider accepts (the same tuple when nothing changed) and what was repaired."""

    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()


def repair_history(
    messages: Sequence[Message],
    policy: TranscriptPolicy,
    now_ms: float,
    allowed_tools: Collection[str] | None = None,
    max_image_px: int = MAX_DIMENSION_PX,
) -> Step:
    """Repair a history message by message and pair calls with results; turns are not joined yet.

    Args:
        messages: the working set, oldest first.
        policy: what the provider requires.
        now_ms: timestamp of messages that are made up.
        allowed_tools: names of the tools of this run; ``None`` allows all.
        max_image_px: longest side of an image.

    Source: spec/context.md 4.2; ids are rewritten after pairing, which needs the ids as the model wrote them.
    """
    content, outcome = _rules(policy, max_image_px)
    return chain(
        messages,
        lift_result_blocks,
        content,
        lambda m: resolve_call_names(m, allowed_tools or ()).step,
        lambda m: clean_tool_calls(m, allowed_tools, canonical=True).step,
        lambda m: _drop_thoughts(m, policy),
        lambda m: pair_results(m, now_ms).step(len(m)),
        lambda m: rename_ids(
            m, policy.id_mode, keep_kimi=policy.keep_kimi_ids, keep_anthropic=policy.keep_anthropic_ids
        ),
        strip_stale_usage,
        outcome,
        lambda m: unpair_calls(m) if policy.responses else Step(m),
    )


@cache
def _rules(policy: TranscriptPolicy, max_image_px: int) -> tuple[Rules, Rules]:
    """Return the rules about the content of messages, and those about answers and results once they are paired."""
    content = Rules(*_CONTENT_RULES, sound_images(max_image_px), *_answer_rules(policy), is_plain=is_plain)
    outcome = Rules(STRIP_DETAILS, SILENT_ANSWERS, ENSURE_USAGE, *(LONE_REASONING,) * policy.responses)
    return content, outcome


def _answer_rules(policy: TranscriptPolicy) -> tuple[Rule, ...]:
    if not policy.full_clean_up:
        return ()
    if policy.preserve_signatures:
        return (assistant_blanks(keep_beside_thinking=not policy.drop_thinking),)
    signatures = foreign_signatures(base64_only=policy.clean_thought_signatures, failed_too=True)
    return signatures, assistant_blanks(keep_beside_thinking=False)


def _drop_thoughts(messages: tuple[Message, ...], policy: TranscriptPolicy) -> Step:
    if not has_thinking(messages):
        return Step(messages)
    passes: list[Pass] = []
    if policy.preserve_signatures:
        passes.append(strip_unsigned)
    if policy.drop_thinking:
        passes.append(drop_thinking)
    if policy.drop_reasoning:
        passes.append(drop_reasoning)
    return chain(messages, *passes)


def sanitize_history(
    messages: Sequence[Message],
    policy: TranscriptPolicy,
    now_ms: float,
    allowed_tools: Collection[str] | None = None,
) -> Sanitized:
    """Repair a history and apply the provider's turn rules; doing it twice changes nothing more."""
    step = chain(
        messages,
        lambda m: repair_history(m, policy, now_ms, allowed_tools),
        lambda m: apply_turn_rules(m, policy, now_ms),
    )
    return Sanitized(step.messages, step.decisions)


def prepare_request(
    messages: Sequence[Message],
    policy: TranscriptPolicy,
    now_ms: float,
    allowed_tools: Collection[str] | None = None,
) -> Sanitized:
    """Make the outgoing copy of a working set: model roles only, and acceptable whatever the turn has added.

    The working set itself keeps its roles and origins. Runs before every model call.

    Source: spec/context.md 4.3 (request boundary) and 4.4.
    """
    step = chain(
        to_model(messages),
        lambda m: repair_history(m, policy, now_ms, allowed_tools),
        prune_processed,
        lambda m: apply_turn_rules(m, policy, now_ms),
    )
    return Sanitized(step.messages, step.decisions)


def model_snapshot(
    last: Mapping[str, Any] | None, provider: str | None, api: str | None, model_id: str | None, now_ms: float
) -> dict[str, Any] | None:
    """Return the data of a new ``model-snapshot`` entry, ``None`` when the recorded model is the same.

    Source: spec/context.md 4.2 step 11.
    """
    current = {"provider": provider, "modelApi": api, "modelId": model_id}
    if not any(current.values()):
        return None
    if last is not None and all((last.get(key) or "") == (value or "") for key, value in current.items()):
        return None
    return {"timestamp": now_ms, **current}


async def sanitize(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`repair_history`."""
    context = runtime.context
    facts = context.model.facts
    repaired = repair_history(
        state["messages"],
        resolve_policy(facts.provider, facts.api, facts.model_id),
        to_ms(context.clock.now()),
        # A replay answers with recorded calls, whose tools this installation need not have.
        frozenset(tool.spec.name for tool in context.tools) if context.live else None,
        context.settings.image_max_dimension_px,
    )
    return {"messages": repaired.messages, "decisions": repaired.decisions}
