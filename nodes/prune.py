"""prune: shorten old tool output once the provider's prompt cache has expired anyway.

What was shortened once stays shortened with the same bytes: each change is a *projection* that is recorded in the
transcript and replayed before every request, so the pruned prefix can be cached again.
Source: spec/context.md section 6, known-faults 4.4 to 4.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nodes.history.sizes import prune_chars
from nodes.history.step import as_tuple
from nodes.projections import (
    PROJECTION_TYPE,
    Projection,
    Projections,
    by_key,
    read_projections,
    record_projections,
    replay_projections,
)
from nodes.prune_gate import Gate, is_eligible, prune_gate, read_touch
from nodes.prune_rules import PruneRules, prune_rules
from nodes.state import TurnContext, TurnState
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.messages import Message, block_text, entry_ids, text_block
from turngraph.name_patterns import is_allowed
from turngraph.text import weighted_chars
from turngraph.truncation import head_and_tail

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from stores.transcripts import Transcript

NODE = "prune"
TOUCH_TYPE = "openclaw.cache-ttl"
IMAGE_REMOVED = "[image removed during context pruning]"
CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Pruned:
    """The working set with old tool output shortened, and the projections to record for it."""

    messages: tuple[Message, ...]
    projections: tuple[Projection, ...] = ()
    decisions: tuple[Decision, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.projections)


def prune_results(messages: Sequence[Message], window_tokens: int, rules: PruneRules) -> Pruned:
    """Trim old tool results, and clear them when that is not enough.

    Nothing before the first user message and nothing from the last ``keep_last_assistants`` answers on is touched,
    nor is any user or assistant text. Linear in the number of messages.

    Args:
        messages: the working set, oldest first.
        window_tokens: context window; 0 or less prunes nothing.
        rules: settings.

    Source: spec/context.md 6.3.
    """
    unchanged = Pruned(as_tuple(messages))
    first, end = _prunable_range(messages, rules.keep_last_assistants)
    window = window_tokens * CHARS_PER_TOKEN
    if window <= 0 or first >= end:
        return unchanged
    sizes = [prune_chars(message) for message in messages]
    before = sum(sizes)
    if before / window < rules.soft_trim_ratio:
        return unchanged
    old = _prunable(messages, range(first, end), rules)
    out = list(messages)
    left = before
    trimmed: set[int] = set()
    for index in old:
        shorter = _trimmed(messages[index], rules)
        if shorter is not messages[index]:
            left += (size := prune_chars(shorter)) - sizes[index]
            out[index], sizes[index] = shorter, size
            trimmed.add(index)
    after_trim = left
    cleared, left = _clear(out, old, sizes, left, window, rules)
    for index, new in cleared.items():
        out[index] = new
    changed = sorted(trimmed | cleared.keys())
    if not changed:
        return unchanged
    projections = tuple(_projection(messages[index], out[index]) for index in changed)
    decisions = (
        *_decision("trimmed", _at(messages, trimmed), before, after_trim, window, rules.soft_trim_ratio),
        *_decision("cleared", _at(messages, cleared), after_trim, left, window, rules.hard_clear_ratio),
    )
    return Pruned(tuple(out), projections, decisions)


def _prunable_range(messages: Sequence[Message], keep_last: int) -> tuple[int, int]:
    first = next((i for i, m in enumerate(messages) if m.raw.get("role") == "user"), len(messages))
    if keep_last <= 0:
        return first, len(messages)
    seen = 0
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].raw.get("role") == "assistant":
            seen += 1
            if seen == keep_last:
                return first, index
    return first, 0


def _prunable(messages: Sequence[Message], among: range, rules: PruneRules) -> list[int]:
    """Return the places of the results of tools that may be pruned."""
    results = [(i, messages[i].tool_name) for i in among if messages[i].raw.get("role") == "toolResult"]
    allowed = {name: is_allowed(name, rules.allow, rules.deny) for name in {name for _, name in results}}
    return [index for index, name in results if allowed[name]]


def _trimmed(message: Message, rules: PruneRules) -> Message:
    parts: list[str] = []
    has_images = False
    for block in message.blocks:
        if block.get("type") == "image":
            has_images = True
            parts.append(IMAGE_REMOVED)
        elif block.get("type") == "text":
            parts.append(block_text(block))
    joined = "\n".join(parts)
    short = weighted_chars(joined) <= rules.trim_max_chars
    if short or rules.trim_head_chars + rules.trim_tail_chars >= len(joined):
        if not has_images or (len(parts) == 1 and not joined):
            return message
        return message.evolve(content=[text_block(joined)])
    head, tail = head_and_tail(joined, rules.trim_head_chars, rules.trim_tail_chars)
    note = (
        f"[Tool result trimmed: kept first {rules.trim_head_chars} chars and last {rules.trim_tail_chars} chars "
        f"of {len(joined)} chars.]"
    )
    text = f"{head}\n...\n{tail}\n\n{note}"
    if not has_images and len(text) >= len(joined):
        return message
    return message.evolve(content=[text_block(text)])


def _clear(
    messages: Sequence[Message],
    old: Sequence[int],
    sizes: Sequence[int],
    total_chars: int,
    window: int,
    rules: PruneRules,
) -> tuple[dict[int, Message], int]:
    cleared: dict[int, Message] = {}
    left = total_chars
    if not rules.clears or sum(sizes[index] for index in old) < rules.min_prunable_tool_chars:
        return cleared, left
    placeholder = [text_block(rules.placeholder)]
    placeholder_chars = weighted_chars(rules.placeholder)
    for index in old:
        if left / window < rules.hard_clear_ratio:
            break
        saved = sizes[index] - placeholder_chars
        if saved > 0:
            left -= saved
            cleared[index] = messages[index].evolve(content=placeholder)
    return cleared, left


def _at(messages: Sequence[Message], indices: Iterable[int]) -> list[Message]:
    return [messages[index] for index in sorted(indices)]


def _projection(original: Message, shown: Message) -> Projection:
    return Projection(original.tool_call_id, original.timestamp_ms, shown.text, original.entry_id)


def _decision(
    what: Any, touched: Sequence[Message], before: int, after: int, window: int, ratio: float
) -> tuple[Decision, ...]:
    if not touched:
        return ()
    why = f"context at {before / window:.2f} of the window (from {ratio:g} on): {len(touched)} old tool results {what}"
    return (Decision(NODE, what, why, entry_ids(touched), chars_before=before, chars_after=after),)


@dataclass(frozen=True, slots=True)
class PruneState:
    """What pruning knows at the start of a turn: recorded projections and the last touch of the cache."""

    projections: Projections
    last_touch_ms: float | None = None

    def after(self, pruned: Pruned, now_ms: float) -> PruneState:
        """Return the state after a prune: its projections hold from now on, and the cache counts as touched."""
        if not pruned.changed:
            return self
        return replace(self.showing(pruned.projections), last_touch_ms=now_ms)

    def showing(self, added: Iterable[Projection]) -> PruneState:
        """Return the state with further projections."""
        return replace(self, projections={**self.projections, **by_key(added)})


def request_gate(
    messages: Sequence[Message],
    state: PruneState,
    rules: PruneRules,
    *,
    window_tokens: int,
    now_ms: float,
    eligible: bool = True,
) -> Gate:
    """Decide whether a request with these messages may be pruned now."""
    filled = 0.0
    if rules.pressure_ratio is not None and window_tokens > 0:
        filled = sum(map(prune_chars, messages)) / (window_tokens * CHARS_PER_TOKEN)
    return prune_gate(
        now_ms=now_ms, last_touch_ms=state.last_touch_ms, rules=rules, eligible=eligible, filled_ratio=filled
    )


def prune_request(
    messages: Sequence[Message],
    state: PruneState,
    rules: PruneRules | None,
    *,
    window_tokens: int,
    now_ms: float,
    eligible: bool = True,
) -> Pruned:
    """Replay what was shortened before, then prune further when the gate is open."""
    replayed = replay_projections(messages, state.projections)
    if rules is None:
        return Pruned(replayed.messages, (), replayed.decisions)
    gate = request_gate(replayed.messages, state, rules, window_tokens=window_tokens, now_ms=now_ms, eligible=eligible)
    if not gate.open:
        return Pruned(replayed.messages, (), (*replayed.decisions, Decision(NODE, "skipped", gate.why)))
    pruned = prune_results(replayed.messages, window_tokens, rules)
    outcome = pruned.decisions or (Decision(NODE, "kept", f"{gate.why}; nothing old enough is large enough"),)
    return Pruned(pruned.messages, pruned.projections, (*replayed.decisions, *outcome))


async def prune(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`prune_request`; what it shortens is recorded in the transcript."""
    pruned = _prune(state["messages"], runtime.context)
    return {"messages": pruned.messages, "decisions": pruned.decisions}


def prune_again(messages: Sequence[Message], context: TurnContext) -> Pruned:
    """Prune the working set of a running turn before another model call; silent when there is nothing new."""
    pruned = _prune(messages, context)
    return pruned if pruned.changed else replace(pruned, decisions=())


def _prune(messages: Sequence[Message], context: TurnContext) -> Pruned:
    now_ms = to_ms(context.clock.now())
    known = _known(context)
    pruned = prune_request(
        messages,
        known,
        prune_rules(context.settings.context_pruning),
        window_tokens=context.window_tokens,
        now_ms=now_ms,
        eligible=_eligible(context),
    )
    if pruned.projections:
        record_projections(context.opened, pruned.projections)
    context.prune_state = known.after(pruned, now_ms)
    return pruned


def _known(context: TurnContext) -> PruneState:
    facts = context.model.facts
    return context.prune_state or load_prune_state(context.opened, facts.provider, facts.model_id)


def _eligible(context: TurnContext) -> bool:
    facts = context.model.facts
    return context.settings.context_pruning.eligible == "always" or is_eligible(facts.provider, facts.model_id)


def prune_status(messages: Sequence[Message], context: TurnContext) -> str:
    """Say whether the next request would be pruned, and why or why not (known-faults 4.5)."""
    rules = prune_rules(context.settings.context_pruning)
    if rules is None:
        return "off"
    known = _known(context)
    gate = request_gate(
        replay_projections(messages, known.projections).messages,
        known,
        rules,
        window_tokens=context.window_tokens,
        now_ms=to_ms(context.clock.now()),
        eligible=_eligible(context),
    )
    return f"{'due' if gate.open else 'not now'}: {gate.why}"


def keep_shortened(shortened: Sequence[tuple[Message, Message]], context: TurnContext) -> None:
    """Record what the guard cut for the sake of the whole, so that it is shown with the same bytes from now on.

    A result of several blocks is left to be cut again: a projection holds one text.
    """
    projections = tuple(_projection(before, after) for before, after in shortened if len(after.blocks) == 1)
    if projections:
        record_projections(context.opened, projections)
        context.prune_state = _known(context).showing(projections)


def load_prune_state(transcript: Transcript, provider: str, model_id: str) -> PruneState:
    """Read the recorded projections and the last touch of the cache.

    A projection is recorded after its result, so all that visible results need lie in what was read of the file.
    """
    touch = transcript.newest_custom(TOUCH_TYPE)
    recorded = (e.raw.get("data") for e in transcript.entries() if e.raw.get("customType") == PROJECTION_TYPE)
    touched_ms = read_touch(touch.raw.get("data"), provider, model_id) if touch else None
    return PruneState(read_projections(recorded), touched_ms)
