"""shrink: shorten oversized tool results in the transcript, on a new branch, after an overflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nodes.state import Attempts, TurnContext, TurnState
from stores.transcript_context import message_of, speaks
from stores.transcript_entries import Entry
from turngraph.decisions import Decision
from turngraph.messages import Message
from turngraph.truncation import fair_shares, live_limits, result_chars, truncate_result

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


def shrink_results(results: Mapping[str, Message], window_tokens: int) -> dict[str, Message]:
    """Return shorter versions of the tool results that are above what the window may show, by entry id.

    Each keeps at most the live cap of one result; together they keep at most the aggregate, the largest giving first.
    Source: design decision 7, spec/compaction.md 6.2 step 3.
    """
    limits = live_limits(window_tokens)
    ids = list(results)
    sizes = [min(result_chars(results[entry_id]), limits.per_result) for entry_id in ids]
    shares = fair_shares(sizes, limits.aggregate)
    shorter = {entry_id: truncate_result(results[entry_id], share) for entry_id, share in zip(ids, shares, strict=True)}
    return {entry_id: message for entry_id, message in shorter.items() if message is not results[entry_id]}


async def shrink(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`shrink_results`; old entries stay in the file, off the branch."""
    context = runtime.context
    attempts = state.get("attempts", Attempts()).bump(shrunk=True)
    results = _results(context.opened.branch())
    shorter = shrink_results(results, context.window_tokens)
    if not shorter:
        decision = Decision("shrink", "skipped", f"none of {len(results)} tool results is above the live cap")
        return {"attempts": attempts, "decisions": (decision,)}
    renamed = context.opened.rewrite_branch(shorter, durable=context.live)
    before, after = (sum(map(result_chars, group)) for group in ([results[i] for i in shorter], shorter.values()))
    decision = Decision(
        node="shrink",
        what="truncated",
        why=f"{len(shorter)} tool results cut from {before} to {after} weighted characters",
        entry_ids=tuple(shorter),
        count_before=len(results),
        count_after=len(results),
        chars_before=before,
        chars_after=after,
    )
    update: dict[str, Any] = {"attempts": attempts, "decisions": (decision,)}
    user_entry_id = state.get("user_entry_id")
    if user_entry_id in renamed:
        update["user_entry_id"] = renamed[user_entry_id]
    return update


def _results(branch: Sequence[Entry]) -> dict[str, Message]:
    messages = {entry.id: message_of(entry) for entry in branch if speaks(entry)}
    return {entry_id: message for entry_id, message in messages.items() if message.role == "toolResult"}
