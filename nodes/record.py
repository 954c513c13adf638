"""Record a message: through the write guard and the hooks into the transcript, and back as part of the working set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from nodes.attachments import MIB, store_images
from nodes.history.provider_policy import resolve_policy
from nodes.state import TurnContext
from nodes.write_guard import Guarded, ResultFacts, WriteRules, flush_pending, guard_write
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.messages import Message

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was appended, with entry ids as origins, and what the guard and the hooks decided."""

    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()


async def record(
    message: Message,
    runtime: Runtime[TurnContext],
    *,
    durable: bool = False,
    extra: Mapping[str, Any] | None = None,
    parent: str | EllipsisType | None = ...,
) -> Recorded:
    """Append ``message`` as it happens, so that a killed turn loses nothing.

    Args:
        message: what was said, asked or answered.
        durable: whether to wait for the disk (user messages and tool results of live turns).
        extra: further fields of the entry, such as media facts.
        parent: the entry it follows, when that is not the leaf.

    Source: spec/context.md 5.1, spec/sessions.md 4.7.
    """
    context = runtime.context
    hooked: list[Decision] = []
    stored = store_images(message, context.media.put, int(context.settings.media_max_mb * MIB))
    if stored.media:
        extra = {**(extra or {}), "turngraph": {"media": [fact.raw for fact in stored.media]}}
    message = stored.message
    hooked.extend(stored.decisions)
    guarded = guard_write(message, context.pending_calls, _rules(context, hooked), to_ms(context.clock.now()))
    return _append(guarded, hooked, context, durable=durable, extra=extra, parent=parent)


async def record_failure(text: str, runtime: Runtime[TurnContext]) -> Recorded:
    """Append the answer of a failed turn; without it the next turn would take the user's message for unanswered."""
    context = runtime.context
    facts = context.model.facts
    failed = {
        "role": "assistant",
        "content": [],
        "api": facts.api or facts.provider,
        "provider": facts.provider,
        "model": facts.model_id,
        "stopReason": "error",
        "errorMessage": text,
        "timestamp": to_ms(context.clock.now()),
    }
    return await record(Message(failed), runtime)


async def record_missing_results(runtime: Runtime[TurnContext]) -> Recorded:
    """Append error results for the calls of the last answer that never got one."""
    context = runtime.context
    hooked: list[Decision] = []
    guarded = flush_pending(context.pending_calls, _rules(context, hooked), to_ms(context.clock.now()))
    return _append(guarded, hooked, context, durable=False, extra=None)


def _append(
    guarded: Guarded,
    hooked: list[Decision],
    context: TurnContext,
    *,
    durable: bool,
    extra: Mapping[str, Any] | None,
    parent: str | EllipsisType | None = ...,
) -> Recorded:
    context.pending_calls = dict(guarded.pending)
    fsync = durable and context.live and context.settings.session.durability == "fsync"
    appended = []
    for index, written in enumerate(guarded.writes):
        is_last = index + 1 == len(guarded.writes)
        following = parent if index == 0 else ...
        fields = extra or {} if is_last else {}
        entry = context.opened.append_message(written, durable=fsync, parent=following, **fields)
        appended.append(context.opened.message(entry))
    return Recorded(tuple(appended), (*guarded.decisions, *hooked))


def _rules(context: TurnContext, hooked: list[Decision]) -> WriteRules:
    facts = context.model.facts
    policy = resolve_policy(facts.provider, facts.api, facts.model_id)

    def on_result(message: Message, about: ResultFacts) -> Message:
        answer = context.hooks.tool_result_persist(
            message, about.tool_name or "", about.tool_call_id, context.hook_context, synthetic=about.synthetic
        )
        hooked.extend(answer.decisions)
        return answer.message or message

    def on_write(message: Message) -> Message | None:
        answer = context.hooks.before_message_write(message, context.hook_context)
        hooked.extend(answer.decisions)
        return answer.message

    # Every call is written, also of a tool that is not there: the loop answers it with an error that the model reads.
    # Where a message comes from is set by the prompt node, which knows what came in.
    return WriteRules(
        synthetic_results=policy.synthetic_results,
        cap_chars=context.settings.context_limits.stored_tool_result_max_chars,
        on_result=on_result if context.hooks.handles("tool_result_persist") else _keep_result,
        on_write=on_write if context.hooks.handles("before_message_write") else _keep,
    )


def _keep_result(message: Message, _about: ResultFacts) -> Message:
    return message


def _keep(message: Message) -> Message | None:
    return message
