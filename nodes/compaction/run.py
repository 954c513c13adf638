"""run: one compaction from the plan to the stored entry; the node and the command line both come here.

Nothing is stored until the summary is there and shrinks the context: whatever fails before leaves history untouched.
Source: spec/compaction.md sections 3 to 5, known-faults section 5.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nodes.compaction.ask import Summariser
from nodes.compaction.cycle import compaction_count
from nodes.compaction.instructions import custom_focus
from nodes.compaction.outcome import NODE, Outcome, Trigger, failed_outcome, made_decisions, refused
from nodes.compaction.plugin_summariser import PROVIDER as PLUGIN
from nodes.compaction.plugin_summariser import PluginSummariser
from nodes.compaction.preparation import NotPrepared, Preparation, prepare_compaction
from nodes.compaction.refresh import summary_rules
from nodes.compaction.settings import MAX_RETRIES, Limits, clamped, effective_settings, timeout_ms
from nodes.compaction.summary import Summary, SummaryPolicy, extracted_summary, model_summary, plain_summary
from nodes.state import SessionFacts, TurnContext
from stores.workspace import read_bootstrap_file
from turngraph.decisions import Decision
from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.models.model import Model
from turngraph.tokens import total

OFFLINE = "offline"
FORCED: frozenset[Trigger] = frozenset({"overflow", "timeout_recovery"})
MAX_HALVINGS = 6  # of the kept tail, until a forced compaction has something to fold


async def run_compaction(
    context: TurnContext,
    session: SessionFacts,
    *,
    trigger: Trigger,
    focus: str | None = None,
    halvings: int = 0,
    dry_run: bool = False,
) -> Outcome:
    """Compact the session of ``context.opened``.

    Args:
        focus: what the summary should attend to, for this compaction only.
        halvings: how often the kept tail is halved.
        dry_run: plan and summarise, but store nothing and call no hooks.

    Cancelling stores nothing.
    """
    settings = context.settings.compaction
    if settings.mode == "off":
        return refused("compaction.mode is off", trigger)
    limits, plan = _plan(context, halvings, forced=trigger in FORCED)
    if isinstance(plan, NotPrepared):
        return refused(plan.reason, trigger)
    told = () if dry_run else await _tell_before(context, plan)
    summariser = _summariser(context)
    made = await _summarised(context, plan, _policy(context, limits, summariser, focus), summariser, trigger)
    made = replace(made, decisions=(*told, *made.decisions))
    return made if dry_run or not made.compacted else await _store(context, session, made, trigger)


async def _tell_before(context: TurnContext, plan: Preparation) -> tuple[Decision, ...]:
    messages = (*plan.all_folded, *plan.kept)
    return await context.hooks.observe(
        "before_compaction",
        context.hook_context,
        message_count=len(messages),
        messages=messages,
        session_file=context.opened.path,
    )


async def _summarised(
    context: TurnContext, plan: Preparation, policy: SummaryPolicy, summariser: Summariser, trigger: Trigger
) -> Outcome:
    """Summarise what ``plan`` folds, within the time limit; a summary that frees nothing is a failure too."""
    timeout_seconds = context.settings.compaction.timeout_seconds
    try:
        async with asyncio.timeout(timeout_ms(timeout_seconds) / 1000):
            summary = await _summary(context, plan, policy, summariser)
    except TimeoutError:
        return failed_outcome(f"Compaction timed out after {timeout_seconds} s", trigger, plan)
    except ModelError as error:
        reason = f"summary failed ({error.kind}): {error}"
        return failed_outcome(reason, trigger, plan, data={"failures": summariser.failures})
    tokens_after = context.counter.message(_as_message(summary.text)) + total(context.counter, plan.kept)
    if tokens_after >= plan.tokens_before:
        reason = (
            f"the compaction would free nothing ({plan.tokens_before} tokens before, {tokens_after} after); "
            "use /new, a model with a larger window, or a smaller keepRecentTokens"
        )
        return failed_outcome(reason, trigger, plan)
    return Outcome(
        None,
        tuple(made_decisions(plan, summary, summariser, trigger, tokens_after)),
        plan,
        summary,
        tokens_before=plan.tokens_before,
        tokens_after=tokens_after,
        made_by=tuple(summariser.answered_by),
    )


def _plan(context: TurnContext, halvings: int, *, forced: bool) -> tuple[Limits, Preparation | NotPrepared]:
    """Plan the compaction; a forced one halves the kept tail until there is something to fold."""
    whole = effective_settings(context.settings.compaction, context.window_tokens)
    path = context.opened.branch()
    limits = whole.tighter(halvings)
    plan = prepare_compaction(path, limits, context.counter)
    while forced and isinstance(plan, NotPrepared) and halvings < MAX_HALVINGS:
        halvings += 1
        limits = whole.tighter(halvings)
        plan = prepare_compaction(path, limits, context.counter)
    return limits, plan


async def _summary(context: TurnContext, plan: Preparation, policy: SummaryPolicy, summariser: Summariser) -> Summary:
    recorded = context.recorded_summary(plan.kept[0]) if context.recorded_summary and plan.kept else None
    if recorded is not None:
        return Summary(recorded, "recorded", attempts=0)
    if not summariser.models:
        return extracted_summary(plan, policy, context.counter)
    offline = all(model.facts.provider == PLUGIN for model in summariser.models)
    make = plain_summary if context.settings.compaction.mode == "default" else model_summary
    try:
        summary = await make(plan, policy, summariser.ask, context.counter)
    except ModelError as error:
        if not (offline or context.settings.compaction.extractive_fallback):
            raise
        summariser.failures.append(f"extractive summary in place of the summariser's: {error.kind}")
        return extracted_summary(plan, policy, context.counter)
    by_plugin = bool(summariser.answered_by) and all(name.startswith(f"{PLUGIN}:") for name in summariser.answered_by)
    return replace(summary, maker="plugin") if by_plugin else summary


def _summariser(context: TurnContext) -> Summariser:
    """Return the models to ask; none where the summary is to be extractive (offline, and replay without a model).

    The plugin that ``compaction.provider`` names stands before them.
    """
    chosen: tuple[Model, ...] = (context.model, *context.fallbacks)
    if context.summariser is not None:
        chosen = (context.summariser, *context.summariser_fallbacks)
    elif not context.live:
        chosen = ()
    models = tuple(model for model in chosen if model.facts.provider != OFFLINE)
    settings = context.settings.compaction
    if settings.provider and context.live:
        window = context.window_tokens
        plugin = PluginSummariser(settings.provider, context.hooks, context.hook_context, context.clock, window)
        models = (plugin, *models)
    return Summariser(models, context.clock, settings.thinking_level)


def _policy(context: TurnContext, limits: Limits, summariser: Summariser, focus: str | None) -> SummaryPolicy:
    settings = context.settings.compaction
    agents_md = read_bootstrap_file(context.workspace, "AGENTS.md")
    text = None if agents_md.missing or agents_md.fault else agents_md.content
    return SummaryPolicy(
        limits=limits,
        summariser_window_tokens=summariser.window_tokens if summariser.models else context.window_tokens,
        checked=settings.quality_guard.enabled,
        retries=clamped(settings.quality_guard.max_retries, MAX_RETRIES),
        identifier_policy=settings.identifier_policy,
        identifier_instructions=settings.identifier_instructions,
        max_history_share=settings.max_history_share,
        focus=custom_focus(focus, settings.custom_instructions),
        rules=summary_rules(text, settings.post_compaction_sections),
    )


async def _store(context: TurnContext, session: SessionFacts, made: Outcome, trigger: Trigger) -> Outcome:
    plan, summary, tokens_after = made.plan, made.summary, made.tokens_after
    assert plan is not None and summary is not None and tokens_after is not None
    count = compaction_count(context.sessions.find(session.key).entry, context.opened.branch()) + 1
    own = {
        "count": count,
        "maker": summary.maker,
        "models": list(made.made_by),
        "trigger": trigger,
        "tokensAfter": tokens_after,
        "attempts": summary.attempts,
    }
    entry = context.opened.append_compaction(
        summary.text,
        plan.first_kept_id,
        plan.tokens_before,
        {"readFiles": plan.files.read_files, "modifiedFiles": plan.files.modified_files},
        durable=context.live,
        turngraph=own,
    )
    patch = {"compactionCount": count, "totalTokens": tokens_after, "totalTokensFresh": False}
    context.sessions.update(
        session.key, patch, touch=False, drop=("inputTokens", "outputTokens", "cacheRead", "cacheWrite")
    )
    decisions = [*made.decisions, *await _sync_index(context)]
    decisions += await context.hooks.observe(
        "after_compaction",
        context.hook_context,
        message_count=len(plan.kept) + 1,
        compacted_count=count,
        tokens=tokens_after,
        session_file=context.opened.path,
    )
    return replace(made, decisions=tuple(decisions), entry=entry, count=count)


async def _sync_index(context: TurnContext) -> list[Decision]:
    """Bring the index of this session up to date where the settings ask for it (spec/compaction.md 5.3)."""
    mode, search = context.settings.compaction.post_index_sync, context.settings.memory_search
    wanted = "sessions" in search.sources and search.sync.sessions.post_compaction_force
    if mode == "off" or not wanted or context.session_changed is None:
        return []
    try:
        await context.session_changed(context.opened.path, mode == "await")
    except OSError as error:
        return [Decision(node=NODE, what="warned", why=f"the session's index was not brought up to date: {error}")]
    return []


def _as_message(summary: str) -> Message:
    return Message({"role": "compactionSummary", "summary": summary})
