"""budget: weigh what the next request will hold, and choose between flushing, compacting and going on.

Source: spec/compaction.md 1.1, 2.1 and 5.1, spec/context.md section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nodes.compaction.cycle import compaction_count, is_flushed
from nodes.compaction.refresh import refresh_text
from nodes.compaction.settings import Limits, effective_settings, flush_threshold_tokens
from nodes.compaction.usage import context_size
from nodes.guard_tools import check_route, reducible_chars
from nodes.overflow import MAX_OVERFLOWS
from nodes.state import Attempts, Section, SessionFacts, TurnContext, TurnState
from nodes.system_prompt import system_text
from stores.transcript_context import speaks
from stores.transcript_entries import dump_line
from stores.workspace import read_bootstrap_file
from turngraph.decisions import Decision, Origin
from turngraph.messages import Message, compact_json
from turngraph.tokens import total
from turngraph.truncation import live_limits

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

REFRESH = "Compaction refresh"
_WITHOUT_FLUSH = frozenset({"heartbeat", "cron", "flush", "subagent"})


@dataclass(frozen=True, slots=True)
class Weight:
    """Size of the next request in tokens, by part.

    ``messages`` is what the provider reported for the last answer plus our count of what came after it, where that
    answer belongs to this working set (``reported`` is then above 0), else our count.
    """

    system: int
    tools: int
    messages: int
    incoming: int
    reported: int = 0

    @property
    def tokens(self) -> int:
        if self.reported:  # a reported prompt holds system text and tools
            return self.messages + self.incoming
        return self.system + self.tools + self.messages + self.incoming


async def budget(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: sets ``route`` to ``flush due``, ``compact due`` or ``fits``, with the numbers in ``why``."""
    context = runtime.context
    refreshed, decisions = _refreshed(state, context)
    update: dict[str, Any] = {"system": refreshed} if decisions else {}
    if state.get("command") == "compact":
        return update | {"route": "compact due", "why": "/compact"}
    attempts = state.get("attempts", Attempts())
    weight = weigh(state, refreshed, context)
    limits = effective_settings(context.settings.compaction, context.window_tokens)
    caps = live_limits(context.window_tokens, context.settings.context_limits.tool_result_max_chars)
    check = check_route(
        weight.tokens, limits.window_tokens, limits.reserve_tokens, reducible_chars(state["messages"], caps)
    )
    compact = _compaction_reason(check.estimate_tokens, check.route == "truncate_tool_results_only", limits, context)
    flush = _flush_reason(state, check.estimate_tokens, compact, limits, context)
    why = f"about {check.estimate_tokens} tokens of {limits.window_tokens}, compaction above {limits.threshold_tokens}"
    if flush:
        route, why = "flush due", f"{why}: {flush}"
    elif compact and attempts.failed is None and attempts.compactions < MAX_OVERFLOWS:
        route, why = "compact due", f"{why}: {compact}"
        update["attempts"] = attempts.bump(compaction_trigger="threshold")
    else:
        route = "fits"
    decisions += (_decision(weight, route, why, limits, context),)
    return update | {"route": route, "why": why, "decisions": decisions}


def weigh(state: TurnState, system: Sequence[Section], context: TurnContext) -> Weight:
    """Count the parts of the next request."""
    counter = context.counter
    messages = state["messages"]
    waiting = state.get("user_entry_id") is None
    incoming = counter.text(state.get("text", "")) if waiting else 0
    incoming += sum(counter.text(note.text) for note in state.get("notes", ()))
    size = context_size(messages, counter)
    anchored = context.live and size.usage_index is not None and _belongs(messages[: size.usage_index + 1])
    specs = [tool.spec for tool in context.tools]
    return Weight(
        system=counter.text(system_text(system)[0]),
        tools=sum(counter.text(spec.name + spec.description + compact_json(dict(spec.parameters))) for spec in specs),
        messages=size.tokens if anchored else total(counter, messages),
        incoming=incoming,
        reported=size.usage_tokens if anchored else 0,
    )


def compaction_is_due(tokens: int, window_tokens: int, reserve_tokens: int, *, enabled: bool = True) -> bool:
    """Whether a context of ``tokens`` is compacted; an unknown window (0) never is."""
    return enabled and window_tokens > 0 and tokens > window_tokens - reserve_tokens


def flush_is_due(tokens: int, threshold_tokens: int, entry: Mapping[str, Any] | None) -> bool:
    """Whether the memory flush runs for a context of ``tokens``: once in each compaction cycle.

    Args:
        threshold_tokens: 0 means never.
        entry: of the session; without one there is nothing to mark as flushed, and no flush.
    """
    if entry is None or threshold_tokens <= 0 or tokens < threshold_tokens:
        return False
    return not is_flushed(entry, entry.get("compactionCount") or 0)


def _compaction_reason(tokens: int, shrinking_is_enough: bool, limits: Limits, context: TurnContext) -> str:
    settings = context.settings.compaction
    if settings.mode == "off":
        return ""
    due = compaction_is_due(tokens, limits.window_tokens, limits.reserve_tokens, enabled=settings.enabled)
    if due and not shrinking_is_enough:
        return "above the threshold"
    most = settings.max_active_transcript_bytes
    if settings.enabled and most and (active := active_bytes(context, most)) > most:
        return f"{active} bytes of active transcript, maxActiveTranscriptBytes {most}"
    return ""


def _flush_reason(state: TurnState, tokens: int, compact: str, limits: Limits, context: TurnContext) -> str:
    """Say why a flush is due; empty when it is not. A compaction that is due is preceded by its flush."""
    settings = context.settings.compaction
    flush = settings.memory_flush
    entry = context.sessions.find(state["session"].key).entry
    attempts = state.get("attempts", Attempts())
    if settings.mode == "off" or not flush.enabled or attempts.flush_tried or entry is None:
        return ""
    entry = {**entry, "compactionCount": compaction_count(entry, context.opened.branch())}
    if is_flushed(entry, entry["compactionCount"]):
        return ""
    if state["inbound"].kind in _WITHOUT_FLUSH or not workspace_is_writable(state["session"], context):
        return ""
    threshold = flush_threshold_tokens(limits.window_tokens, limits.reserve_tokens, flush.soft_threshold_tokens)
    if threshold > 0 and (compact or flush_is_due(tokens, threshold, entry)):
        return f"not yet flushed in this compaction cycle, flush from {threshold}"
    forced = flush.force_flush_transcript_bytes
    if forced and (active := active_bytes(context, forced)) >= forced:
        return f"{active} bytes since the last compaction, forceFlushTranscriptBytes {forced}"
    return ""


def workspace_is_writable(session: SessionFacts, context: TurnContext) -> bool:
    """Whether notes may be written: not in a sandboxed session without full access (spec/compaction.md 1.1)."""
    sandbox = context.settings.sandbox
    main = session.key.endswith(":main") and session.chat_type == "direct"
    sandboxed = sandbox.mode == "all" or (sandbox.mode == "non-main" and not main)
    return not sandboxed or sandbox.workspace_access == "rw"


def active_bytes(context: TurnContext, limit: int) -> int:
    """Return the size of the branch after the last compaction, as it stands on disk.

    While everything that was read is below ``limit``, that is returned without a look at the entries.
    """
    if context.opened.bytes_held < limit:
        return context.opened.bytes_held
    size = 0
    for entry in reversed(context.opened.branch()):
        if entry.type in ("compaction", "reset"):
            break
        size += len(dump_line(entry.raw))
    return size


def _belongs(messages: Sequence[Message]) -> bool:
    return not any(message.derived for message in messages if message.role != "compactionSummary")


def _refreshed(state: TurnState, context: TurnContext) -> tuple[tuple[Section, ...], tuple[Decision, ...]]:
    """Add the workspace rules when nobody has spoken since the last compaction (design decision 10)."""
    system = state.get("system", ())
    spoken = next((entry for entry in reversed(context.opened.branch()) if _counts(entry)), None)
    if spoken is None or spoken.type != "compaction" or not system or any(s.name == REFRESH for s in system):
        return system, ()
    agents_md = read_bootstrap_file(context.workspace, "AGENTS.md")
    settings = context.settings
    text = refresh_text(
        None if agents_md.missing or agents_md.fault else agents_md.content,
        settings.compaction.post_compaction_sections,
        context.clock.now().astimezone(settings.zone).date(),
        settings.context_limits.post_compaction_max_chars,
    )
    if text is None:
        return system, ()
    origin = Origin("bootstrap", path="AGENTS.md", entry_id=spoken.id)
    section = Section(REFRESH, text, origin=origin, stable=False)
    why = f"rules of AGENTS.md ({len(text)} characters) for the turn after compaction {spoken.id}"
    decision = Decision("budget", "injected", why, (spoken.id,), "AGENTS.md", chars_after=len(text))
    return (*system, section), (decision,)


def _counts(entry: Any) -> bool:
    return entry.type == "compaction" or speaks(entry)


def _decision(weight: Weight, route: str, why: str, limits: Limits, context: TurnContext) -> Decision:
    flush = context.settings.compaction.memory_flush
    flush_from = flush_threshold_tokens(limits.window_tokens, limits.reserve_tokens, flush.soft_threshold_tokens)
    marks = {"compaction": limits.threshold_tokens, "flush": flush_from if flush.enabled else 0}
    data = {"system": weight.system, "tools": weight.tools, "messages": weight.messages, "incoming": weight.incoming}
    return Decision(
        node="budget",
        what="routed",
        why=f"{route}: {why}",
        tokens_before=weight.tokens,
        data=data | {"route": route, "limits": marks},
    )
