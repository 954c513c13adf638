"""outcome: what came of a compaction, in words, codes and decisions (spec/compaction.md 5.6, known-faults 5.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nodes.compaction.ask import Summariser
from nodes.compaction.preparation import Preparation
from nodes.compaction.summary import Summary
from stores.transcript_entries import Entry
from turngraph.decisions import Decision
from turngraph.messages import entry_ids

Trigger = Literal["threshold", "overflow", "manual", "timeout_recovery", "budget"]
NODE = "compact"

_REASONS: tuple[tuple[str, str], ...] = (
    (r"nothing to compact|too small|no compactable", "no_compactable_entries"),
    (r"below threshold", "below_threshold"),
    (r"already compacted", "already_compacted_recently"),
    (r"timed? ?-?out", "timeout"),
    (r"summar(?:y|ization).*(?:failed|refused)|gave no summary", "summary_failed"),
    (r"\b4\d\d\b", "provider_error_4xx"),
    (r"\b5\d\d\b", "provider_error_5xx"),
    (r"free nothing", "nothing_freed"),
    (r"compaction\.mode is off", "off"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a compaction.

    Attributes:
        reason: why it did not happen; ``None`` when it did (or would, in a dry run).
        plan, summary: as far as it got.
        entry: the stored entry; ``None`` in a dry run.
        tokens_before, tokens_after: size of the visible history.
        made_by: names of the models that wrote the summary.
        count: compactions of this session, this one included.
        failed: whether it was tried and failed; false when there was simply nothing to do.
    """

    reason: str | None
    decisions: tuple[Decision, ...]
    plan: Preparation | None = None
    summary: Summary | None = None
    entry: Entry | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    made_by: tuple[str, ...] = ()
    count: int = 0
    failed: bool = False

    @property
    def compacted(self) -> bool:
        return self.reason is None


def classify_reason(reason: str | None) -> str:
    """Return the code under which a reason is logged (spec/compaction.md 5.6)."""
    text = (reason or "").lower()
    return next((code for pattern, code in _REASONS if re.search(pattern, text)), "unknown")


def made_decisions(
    plan: Preparation, summary: Summary, summariser: Summariser, trigger: Trigger, tokens_after: int
) -> list[Decision]:
    """Return what a compaction did to the history, with its numbers."""
    by = ", ".join(summariser.answered_by) or f"no model ({summary.maker})"
    decisions = [
        Decision(
            node=NODE,
            what="summarised",
            why=(
                f"{trigger}: {len(plan.all_folded)} messages folded by {by} in {summariser.calls} calls, "
                f"{len(plan.kept)} kept from {plan.first_kept_id}; {plan.tokens_before} tokens became {tokens_after}"
            ),
            entry_ids=plan.replaced_ids,
            count_before=len(plan.all_folded) + len(plan.kept),
            count_after=len(plan.kept) + 1,
            tokens_before=plan.tokens_before,
            tokens_after=tokens_after,
            data={"trigger": trigger, "maker": summary.maker, "failures": list(summariser.failures)}
            | ({"usage": dict(summariser.usage)} if summariser.usage else {}),
        ),
        Decision(
            node=NODE,
            what="kept",
            why=f"the tail from {plan.first_kept_id} stays word for word",
            entry_ids=entry_ids(plan.kept),
            count_after=len(plan.kept),
        ),
    ]
    if plan.cut_turns:
        why = f"{len(plan.cut_turns)} messages of the last turns do not fit into a quarter of the window; cut to lines"
        decisions.append(Decision(node=NODE, what="truncated", why=why, entry_ids=entry_ids(plan.cut_turns)))
    if summary.added_identifiers:
        why = f"{len(summary.added_identifiers)} identifiers were missing from the summary and were appended"
        decisions.append(Decision(node=NODE, what="repaired", why=why))
    return decisions


def refused(reason: str, trigger: Trigger) -> Outcome:
    """Return the outcome of a compaction for which there was nothing to do."""
    decision = Decision(node=NODE, what="skipped", why=f"{trigger}: {reason}", data={"code": classify_reason(reason)})
    return Outcome(reason, (decision,))


def failed_outcome(
    reason: str,
    trigger: Trigger,
    plan: Preparation,
    data: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the outcome of a compaction that was tried and failed; nothing is stored."""
    decision = Decision(
        node=NODE,
        what="failed",
        why=f"{trigger}: {reason}; history is untouched",
        tokens_before=plan.tokens_before,
        data={"code": classify_reason(reason), "outcome": "failed"} | dict(data or {}),
    )
    return Outcome(reason, (decision,), plan, tokens_before=plan.tokens_before, failed=True)
