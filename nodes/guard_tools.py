"""guard_tools: keep tool output from filling the window, before every model call.

Three steps on a copy of the working set: each result within the live cap, then the route check (does the request
fit, can shorter results make it fit, or must it be compacted), then, as a last resort, old results give way to a
placeholder. Source: spec/context.md sections 1 and 5, known-faults 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from nodes.history.sizes import IMAGE_CHARS, guard_chars
from nodes.history.step import Step, as_tuple, chain
from nodes.state import TurnContext, TurnState
from turngraph.decisions import Decision
from turngraph.history import Fold, places, replaced
from turngraph.messages import Message, entry_ids, text_block
from turngraph.text import weighted_chars
from turngraph.tokens import Counter, total
from turngraph.truncation import (
    MIN_KEEP_CHARS,
    ResultLimits,
    fair_shares,
    head_at_line,
    live_limits,
    result_chars,
    truncate_result,
)

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "guard_tools"
RequestRoute = Literal["fits", "compact_only", "truncate_tool_results_only", "compact_then_truncate"]

# Literal markers: readers of transcripts and models know them.
LIMIT_NOTICE = "[truncated: output exceeded context limit]"
COMPACTED_NOTICE = "[compacted: tool output removed to free context]"
ELIDED_NOTICE = "[tool result elided: aggregate tool-result budget exceeded; rerun the command if the output is needed]"

ESTIMATE_FACTOR = 1.2  # the estimate is a lower bound
RESERVE_SHARE = 0.25  # of the window, at most
CHARS_PER_TOKEN = 4
TRUNCATION_BUFFER_TOKENS, TRUNCATION_FACTOR = 512, 1.5
BUDGET_SHARE, SINGLE_SHARE, MIN_BUDGET_CHARS = 0.75, 0.5, 1024
LEAST_SHOWN_CHARS = 100  # room for the notice: a result is never cut to nothing
_LINE_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class RouteCheck:
    """Whether a request fits its window, and what would make it fit.

    Attributes:
        route: what to do.
        counted_tokens: as counted. estimate_tokens: the same with the safety factor.
        budget_tokens: window less the reserve.
        reducible_chars: weighted characters that shorter tool results would free.
    """

    route: RequestRoute
    counted_tokens: int
    estimate_tokens: int
    budget_tokens: int
    reducible_chars: int

    @property
    def overflow_tokens(self) -> int:
        return max(0, self.estimate_tokens - self.budget_tokens)

    @property
    def why(self) -> str:
        return (
            f"about {self.estimate_tokens} tokens for a budget of {self.budget_tokens}, "
            f"{self.reducible_chars} characters of tool output could go"
        )


def check_route(tokens: int, window_tokens: int, reserve_tokens: int, reducible_chars: int) -> RouteCheck:
    """Choose what to do with a request of ``tokens`` tokens.

    >>> check_route(1000, 8000, 1000, 0).route, check_route(8000, 8000, 1000, 0).route
    ('fits', 'compact_only')
    """
    estimate = ceil(tokens * ESTIMATE_FACTOR)
    budget = window_tokens - min(reserve_tokens, int(window_tokens * RESERVE_SHARE))
    overflow_chars = max(0, estimate - budget) * CHARS_PER_TOKEN
    enough = max(overflow_chars + TRUNCATION_BUFFER_TOKENS * CHARS_PER_TOKEN, ceil(overflow_chars * TRUNCATION_FACTOR))
    route: RequestRoute
    if not overflow_chars:
        route = "fits"
    elif reducible_chars <= 0:
        route = "compact_only"
    else:
        route = "truncate_tool_results_only" if reducible_chars >= enough else "compact_then_truncate"
    return RouteCheck(route, tokens, estimate, budget, max(0, reducible_chars))


def cap_results(messages: Sequence[Message], limit: int) -> Step:
    """Cut every tool result to ``limit`` weighted characters; what fits stays the same object."""
    too_long = places(lambda message: _is_longer(message, limit), ("too long", limit))(messages)
    if not too_long:
        return Step(as_tuple(messages))
    capped: dict[int, Message | None] = {place: truncate_result(messages[place], limit) for place in too_long}
    out = replaced(messages, capped, ("cut", limit))
    cut = [messages[place] for place in too_long]
    before, after = sum(map(result_chars, cut)), sum(result_chars(truncate_result(m, limit)) for m in cut)
    why = f"{len(cut)} tool results above {limit} weighted characters: {before} -> {after}"
    return Step(out, (_cut_decision("truncated", why, cut, before, after),))


def _is_longer(message: Message, limit: int) -> bool:
    return message.raw.get("role") == "toolResult" and truncate_result(message, limit) is not message


def _cut_decision(what: Any, why: str, cut: Sequence[Message], before: int, after: int) -> Decision:
    return Decision(NODE, what, why, entry_ids(cut), chars_before=before, chars_after=after)


def fit_results(messages: Sequence[Message], budget_chars: int, min_keep: int = MIN_KEEP_CHARS) -> Step:
    """Bring all tool results together within ``budget_chars`` weighted characters, as far as that is possible.

    Results before the newest answer give way first, oldest first: each is cut to ``min_keep``, then replaced by a
    marker. Those after it are being worked on: they are cut to one level, so that the smallest is touched last.
    """
    results = [index for index, message in enumerate(messages) if message.raw.get("role") == "toolResult"]
    sizes = {index: result_chars(messages[index]) for index in results}
    before = sum(sizes.values())
    if before <= budget_chars:
        return Step(as_tuple(messages))
    newest = max((i for i, m in enumerate(messages) if m.raw.get("role") == "assistant"), default=-1)
    older = [index for index in results if index < newest]
    changed: dict[int, Message] = {}
    left = before
    for shorten in (lambda m: truncate_result(m, min_keep), _elided):
        for index in older:
            if left <= budget_chars:
                break
            shorter = shorten(changed.get(index, messages[index]))
            size = result_chars(shorter)
            if size < sizes[index]:
                left -= sizes[index] - size
                sizes[index], changed[index] = size, shorter
    if left > budget_chars:
        current = [index for index in results if index > newest]
        room = budget_chars - sum(sizes[index] for index in older)
        for index, share in zip(current, fair_shares([sizes[i] for i in current], max(0, room)), strict=True):
            if share < sizes[index]:
                changed[index] = truncate_result(messages[index], max(share, LEAST_SHOWN_CHARS))
    return _replaced(messages, changed, before, f"all tool results together: budget {budget_chars}")


def _elided(message: Message) -> Message:
    return message.evolve(content=[text_block(ELIDED_NOTICE)])


def _replaced(messages: Sequence[Message], changed: dict[int, Message], before: int, why: str) -> Step:
    changed = {index: message for index, message in changed.items() if message is not messages[index]}
    if not changed:
        return Step(as_tuple(messages))
    out = tuple(changed.get(index, message) for index, message in enumerate(messages))
    after = before - sum(result_chars(messages[index]) - result_chars(new) for index, new in changed.items())
    cut = [messages[index] for index in changed]
    why = f"{why} weighted characters, {before} -> {after}; {len(cut)} results shortened"
    return Step(out, (_cut_decision("truncated", why, cut, before, after),))


def cut_to_budget(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` weighted characters at a line end, with the notice of the prompt-time guard."""
    if weighted_chars(text) <= limit:
        return text
    body = limit - len(LIMIT_NOTICE) - 1
    if body <= 0:
        return LIMIT_NOTICE
    return f"{head_at_line(text, body, _LINE_SHARE)}\n{LIMIT_NOTICE}"


def guard_results(messages: Sequence[Message], window_tokens: int) -> Step:
    """Cut results that take half the window, then replace the oldest ones until the rest has room.

    The last resort: :func:`govern` uses it when neither compaction nor shorter results help.

    Source: spec/context.md 5.3, on copies; a replacement that would be longer than the result is not made.
    """
    window = max(1, window_tokens)
    budget = max(MIN_BUDGET_CHARS, int(window * CHARS_PER_TOKEN * BUDGET_SHARE))
    single = max(MIN_BUDGET_CHARS, int(window * 2 * SINGLE_SHARE))
    return chain(messages, lambda m: _cut_singles(m, single), lambda m: _clear_oldest(m, budget))


def _is_result(message: Message) -> bool:
    return message.raw.get("role") in ("toolResult", "tool")


def _cut_singles(messages: tuple[Message, ...], single: int) -> Step:
    out: list[Message] = []
    cut: list[Message] = []
    before = after = 0
    for message in messages:
        if _is_result(message) and (size := guard_chars(message)) > single:
            shorter = _cut_single(message, single)
            if guard_chars(shorter) < size:
                cut.append(message)
                before += size
                after += guard_chars(shorter)
                message = shorter
        out.append(message)
    if not cut:
        return Step(messages)
    why = f"{len(cut)} tool results above {single} characters by the guard's estimate: {before} -> {after}"
    return Step(tuple(out), (_cut_decision("truncated", why, cut, before, after),))


def _cut_single(message: Message, single: int) -> Message:
    content = message.raw.get("content")
    if isinstance(content, str):
        return message.evolve(drop=("details",), content=cut_to_budget(content, single))
    images = [block for block in message.blocks if block.get("type") == "image"]
    text = message.text
    kept = images[: max(0, single - weighted_chars(text)) // (2 * IMAGE_CHARS)]
    left_out = len(images) - len(kept)
    if left_out:
        text += f"\n[{left_out} of {len(images)} images omitted: output exceeded context limit]"
    cut = cut_to_budget(text, single - len(kept) * 2 * IMAGE_CHARS) if text else LIMIT_NOTICE
    return message.evolve(drop=("details",), content=[text_block(cut), *kept])


def _clear_oldest(messages: tuple[Message, ...], budget: int) -> Step:
    sizes = [guard_chars(message) for message in messages]
    before = left = sum(sizes)
    if left <= budget:
        return Step(messages)
    out = list(messages)
    cleared: list[Message] = []
    for index, message in enumerate(messages):
        if left <= budget:
            break
        if not _is_result(message) or message.text == COMPACTED_NOTICE:
            continue
        is_text = isinstance(message.raw.get("content"), str)
        notice: Any = COMPACTED_NOTICE if is_text else [text_block(COMPACTED_NOTICE)]
        shorter = message.evolve(drop=("details",), content=notice)
        if (size := guard_chars(shorter)) >= sizes[index]:
            continue
        left -= sizes[index] - size
        out[index] = shorter
        cleared.append(message)
    if not cleared:
        return Step(messages)
    why = f"{before} characters by the guard's estimate, budget {budget}: {len(cleared)} oldest tool results cleared"
    return Step(tuple(out), (_cut_decision("cleared", why, cleared, before, left),))


@dataclass(frozen=True, slots=True)
class Governed:
    """A working set that was made to fit, as far as shorter tool results can.

    ``route`` says what is left to do: ``fits`` sends it; the compact routes want a compaction first. ``shortened``
    holds results that gave way to others, before and after: unlike a cut to the cap of one result, that would come out
    differently next time.
    """

    messages: tuple[Message, ...]
    route: RequestRoute
    check: RouteCheck
    decisions: tuple[Decision, ...] = ()
    shortened: tuple[tuple[Message, Message], ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """The space a request has.

    Attributes:
        tokens: context window. reserve_tokens: kept free for the answer.
        overhead_tokens: system prompt, tool schemas and notes that go with the messages.
        per_result_chars: cap of one shown result, ``None`` for the one by window.
    """

    tokens: int
    reserve_tokens: int = 0
    overhead_tokens: int = 0
    per_result_chars: int | None = None

    @property
    def limits(self) -> ResultLimits:
        limits = live_limits(self.tokens, self.per_result_chars)
        return replace(limits, per_result=max(limits.per_result, LEAST_SHOWN_CHARS))


def govern(messages: Sequence[Message], window: Window, counter: Counter, *, last_resort: bool = False) -> Governed:
    """Cap tool results and check whether the request fits; shorten results further when that alone makes it fit.

    Args:
        messages: the working set, oldest first, projections already replayed.
        window: the space there is.
        counter: counts tokens.
        last_resort: also clear the oldest results when the request still does not fit (compaction was no help).
    """
    limits = window.limits
    capped = cap_results(messages, limits.per_result)
    check = _check(capped.messages, window, counter, limits)
    if check.route == "fits":
        return Governed(capped.messages, "fits", check, capped.decisions)
    steps = [capped]
    if check.route == "truncate_tool_results_only" or last_resort:
        wanted = check.overflow_tokens * CHARS_PER_TOKEN + TRUNCATION_BUFFER_TOKENS * CHARS_PER_TOKEN
        current = sum(result_chars(m) for m in capped.messages if m.raw.get("role") == "toolResult")
        steps.append(fit_results(capped.messages, max(0, current - ceil(wanted * TRUNCATION_FACTOR))))
    if last_resort and not _fits(steps[-1].messages, window, counter, limits):
        steps.append(guard_results(steps[-1].messages, window.tokens))
    route: RequestRoute = check.route
    if _fits(steps[-1].messages, window, counter, limits):
        route = "fits"
    decisions = tuple(decision for step in steps for decision in step.decisions)
    pairs = zip(capped.messages, steps[-1].messages, strict=True)
    shortened = tuple((before, after) for before, after in pairs if after is not before)
    return Governed(steps[-1].messages, route, check, decisions, shortened)


def _check(messages: tuple[Message, ...], window: Window, counter: Counter, limits: ResultLimits) -> RouteCheck:
    tokens = total(counter, messages) + window.overhead_tokens
    return check_route(tokens, window.tokens, window.reserve_tokens, reducible_chars(messages, limits))


def _fits(messages: tuple[Message, ...], window: Window, counter: Counter, limits: ResultLimits) -> bool:
    return _check(messages, window, counter, limits).route == "fits"


def reducible_chars(messages: Sequence[Message], limits: ResultLimits) -> int:
    """Return how many weighted characters of tool output could go: what is above the minimum of each result."""
    floor = min(MIN_KEEP_CHARS, limits.per_result)

    def add(chars: int, more: Iterable[Message], _start: int) -> int:
        results = (message for message in more if message.raw.get("role") == "toolResult")
        return chars + sum(max(0, result_chars(message) - floor) for message in results)

    return Fold(0, add, ("reducible", floor))(messages)


async def guard_tools(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`cap_results`: the shown cap on the loaded history."""
    context = runtime.context
    window = Window(context.window_tokens, per_result_chars=context.settings.context_limits.tool_result_max_chars)
    capped = cap_results(state["messages"], window.limits.per_result)
    return {"messages": capped.messages, "decisions": capped.decisions}
