"""staging: summarise a history of any size with calls of bounded size (spec/compaction.md section 3).

Chunks never separate a tool call from its results. A failure is raised: what could not be summarised is not folded.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from nodes.compaction.settings import SMALLEST_CHUNK_TOKENS, overhead_tokens
from turngraph.clock import from_ms
from turngraph.errors import ModelError
from turngraph.messages import Message, text_block
from turngraph.summary_sections import NO_HISTORY
from turngraph.tokens import Counter, total

BASE_CHUNK_RATIO = 0.4
MIN_CHUNK_RATIO = 0.15
SAFETY_MARGIN = 1.2  # token estimates may be that much too low
PARTS = 2
MIN_MESSAGES_TO_SPLIT = 4
_TEMPORARY = frozenset({"timeout", "rate", "quota", "auth"})  # another model may help, leaving out messages does not


@dataclass(frozen=True, slots=True)
class SummaryCall:
    """One call of the summariser; ``merge`` says that the messages are partial summaries."""

    messages: tuple[Message, ...]
    previous_summary: str | None = None
    merge: bool = False


Summarise = Callable[[SummaryCall], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Pruned:
    """A history cut down to a share of the window; ``dropped`` and ``kept`` together are the input, in order."""

    kept: tuple[Message, ...]
    dropped: tuple[Message, ...]
    chunks: int
    budget_tokens: int


def chunk_ratio(messages: Sequence[Message], window_tokens: int, counter: Counter) -> float:
    """Return the share of the window that one chunk may take: smaller when the messages are large."""
    if not messages:
        return BASE_CHUNK_RATIO
    average = total(counter, messages) / len(messages) * SAFETY_MARGIN / window_tokens
    if average <= 0.1:
        return BASE_CHUNK_RATIO
    return max(MIN_CHUNK_RATIO, BASE_CHUNK_RATIO - min(2 * average, BASE_CHUNK_RATIO - MIN_CHUNK_RATIO))


def max_chunk_tokens(messages: Sequence[Message], window_tokens: int, counter: Counter) -> int:
    """Return the largest chunk for a summariser of ``window_tokens`` (design decision 1)."""
    share = math.floor(window_tokens * chunk_ratio(messages, window_tokens, counter))
    return max(SMALLEST_CHUNK_TOKENS, share - overhead_tokens(window_tokens))


def is_oversized(message: Message, window_tokens: int, counter: Counter) -> bool:
    """Whether one message alone takes more than half of the summariser's window."""
    return counter.message(message) * SAFETY_MARGIN > window_tokens * 0.5


def tool_groups(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Group each assistant message with the results of its calls; every other message stands alone."""
    groups: list[list[Message]] = []
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "toolResult" and message.tool_call_id in open_calls:
            groups[-1].append(message)
            continue
        groups.append([message])
        open_calls = {call.id for call in message.tool_calls}
    return [tuple(group) for group in groups]


def split_by_share(messages: Sequence[Message], parts: int, counter: Counter) -> list[tuple[Message, ...]]:
    """Split into at most ``parts`` runs of about the same number of tokens."""
    target = total(counter, messages) / max(1, parts)
    return _pack(tool_groups(messages), target, counter, max_chunks=parts)


def chunk_by_tokens(messages: Sequence[Message], max_tokens: int, counter: Counter) -> list[tuple[Message, ...]]:
    """Split into runs of at most ``max_tokens`` with a safety margin; a larger group stands alone."""
    return _pack(tool_groups(messages), max(1, math.floor(max_tokens / SAFETY_MARGIN)), counter, max_chunks=None)


def _pack(
    groups: Sequence[tuple[Message, ...]], limit: float, counter: Counter, max_chunks: int | None
) -> list[tuple[Message, ...]]:
    chunks: list[tuple[Message, ...]] = []
    current: tuple[Message, ...] = ()
    tokens = 0
    for group in groups:
        size = total(counter, group)
        may_close = max_chunks is None or len(chunks) < max_chunks - 1
        if current and may_close and tokens + size > limit:
            chunks.append(current)
            current, tokens = (), 0
        current, tokens = (*current, *group), tokens + size
        if max_chunks is None and size > limit:
            chunks.append(current)
            current, tokens = (), 0
    return [*chunks, current] if current else chunks


def prune_for_share(
    messages: Sequence[Message], max_context_tokens: int, share: float, counter: Counter, parts: int = PARTS
) -> Pruned:
    """Drop the oldest parts until the rest takes at most ``share`` of the context; the last part always stays."""
    budget = max(1, math.floor(max_context_tokens * share))
    kept, dropped, chunks = tuple(messages), 0, 0
    while kept and total(counter, kept) > budget:
        split = split_by_share(kept, parts, counter)
        if len(split) <= 1:
            break
        dropped += len(split[0])
        chunks += 1
        kept = tuple(messages[dropped:])
    return Pruned(kept, tuple(messages[:dropped]), chunks, budget)


def needs_stages(messages: Sequence[Message], chunk_tokens: int, counter: Counter, parts: int = PARTS) -> bool:
    """Whether a history is summarised in parts that are merged, and not in one pass."""
    return parts > 1 and len(messages) >= MIN_MESSAGES_TO_SPLIT and total(counter, messages) > chunk_tokens


async def summarise_in_stages(
    messages: Sequence[Message],
    summarise: Summarise,
    *,
    previous_summary: str | None,
    window_tokens: int,
    chunk_tokens: int,
    counter: Counter,
    parts: int = PARTS,
) -> str:
    """Summarise ``messages``, continuing ``previous_summary``.

    Raises:
        ModelError: a call failed, also without the messages that are too large for the summariser.
    """
    if not messages:
        return previous_summary or NO_HISTORY

    notes: list[str] = []

    async def one_pass(run: Sequence[Message], previous: str | None) -> str:
        try:
            return await _chain(run, previous, summarise, chunk_tokens, counter)
        except ModelError as error:
            kept, omitted = _without_oversized(run, window_tokens, counter)
            if not omitted or error.kind in _TEMPORARY:
                raise
            notes.extend(omitted)
            return await _chain(kept, previous, summarise, chunk_tokens, counter)

    runs = split_by_share(messages, parts, counter) if needs_stages(messages, chunk_tokens, counter, parts) else []
    if len(runs) < 2:
        summary = await one_pass(messages, previous_summary)
    else:
        partial = tuple([_partial(await one_pass(run, None), run, i, len(runs)) for i, run in enumerate(runs)])
        summary = await summarise(SummaryCall(partial, previous_summary, merge=True))
    return "\n\n".join((summary, *notes))


async def _chain(
    messages: Sequence[Message], previous: str | None, summarise: Summarise, chunk_tokens: int, counter: Counter
) -> str:
    summary = previous
    for chunk in chunk_by_tokens(messages, chunk_tokens, counter):
        summary = await summarise(SummaryCall(chunk, summary))
    return summary or NO_HISTORY


def _without_oversized(
    messages: Sequence[Message], window_tokens: int, counter: Counter
) -> tuple[tuple[Message, ...], list[str]]:
    kept: list[Message] = []
    notes: list[str] = []
    for group in tool_groups(messages):
        large = next((message for message in group if is_oversized(message, window_tokens, counter)), None)
        if large is None:
            kept.extend(group)
        else:
            thousands = round(total(counter, group) / 1000)
            notes.append(f"[Large {large.role} (~{thousands}K tokens) omitted from summary]")
    return tuple(kept), notes


def _partial(summary: str, run: Sequence[Message], index: int, count: int) -> Message:
    times = [message.timestamp_ms for message in run if message.timestamp_ms]
    span = ""
    if times:
        first, last = (from_ms(at).strftime("%Y-%m-%d %H:%M") for at in (min(times), max(times)))
        span = f", {first} to {last} UTC"
    place = "oldest" if index == 0 else "most recent" if index == count - 1 else "middle"
    label = f"[Partial summary {index + 1} of {count}, {place}{span}]"
    return Message({"role": "user", "content": [text_block(f"{label}\n{summary}")]})
