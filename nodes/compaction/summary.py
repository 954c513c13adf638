"""summary: make the summary of a prepared compaction, check it, and fit it to its cap.

Everything but the calls of the summariser is pure. Source: spec/compaction.md sections 2.6 and 4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nodes.compaction.budget import cap_with_suffix
from nodes.compaction.conversation import has_real_conversation
from nodes.compaction.file_lists import bounded_file_lists_text, file_lists_text
from nodes.compaction.fit import answer_tokens, fit_prompt, prompt_room_tokens
from nodes.compaction.instructions import (
    feedback_block,
    merge_prompt_instructions,
    plain_instructions,
    prefix_instructions,
    structure_instructions,
    summary_prompt,
)
from nodes.compaction.preparation import Preparation
from nodes.compaction.quality import Audit, IdentifierPolicy, audit_summary, latest_ask, recent_identifiers
from nodes.compaction.serialize import recent_turn_lines, serialize_conversation
from nodes.compaction.settings import Limits
from nodes.compaction.staging import (
    SAFETY_MARGIN,
    SummaryCall,
    max_chunk_tokens,
    prune_for_share,
    summarise_in_stages,
)
from nodes.compaction.tool_failures import find_tool_failures, tool_failures_section
from turngraph.credentials import mask_credentials
from turngraph.errors import ModelError
from turngraph.extractive import extractive_summary
from turngraph.messages import Message
from turngraph.summary_sections import NO_HISTORY, REQUIRED_HEADINGS, add_identifiers, fallback_summary
from turngraph.text import weighted_chars
from turngraph.tokens import Counter, total

SPLIT_HEADING = "**Turn Context (split turn):**"
RECENT_HEADING = "## Recent turns preserved verbatim"
HISTORY_ANSWER_SHARE = 0.8  # of the reserve, for the answer of a summary call; spec/compaction.md 2.6
PREFIX_ANSWER_SHARE = 0.5

_ATTACHMENTS = re.compile(
    r"\n\n(?:## (?:Tool Failures|Recent turns preserved verbatim)\n(?:(?!\n\n).)*"
    r"|<(?P<tag>read-files|modified-files|workspace-critical-rules)>\n.*?</(?P=tag)>)",
    re.DOTALL,
)

# Asks a model: user text and longest answer in tokens, gives its answer.
Ask = Callable[[str, int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SummaryPolicy:
    """How summaries are made: the settings of ``agents.defaults.compaction`` that concern their text.

    Attributes:
        limits: of the chat model's window.
        summariser_window_tokens: window of the model that writes the summary.
        checked: whether the quality guard audits; ``retries`` how often a refused summary is asked for again.
        focus: what the user or the operator wants attended to.
        rules: workspace rules for the end of the summary, beginning with a blank line; may be empty.
    """

    limits: Limits
    summariser_window_tokens: int
    checked: bool = True
    retries: int = 1
    identifier_policy: IdentifierPolicy = "strict"
    identifier_instructions: str | None = None
    max_history_share: float = 0.5
    focus: str | None = None
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary as it will be stored.

    Attributes:
        text: within the cap, attachments included.
        maker: who made its body: ``model``, ``plugin``, ``extractive``, ``recorded`` when a replay took it from the
            record, or ``none`` when there was no conversation.
        attempts: how often the summariser was asked for the whole.
        audit: what the stored text still lacks.
        added_identifiers: identifiers that the summariser left out and that were appended.
    """

    text: str
    maker: str
    attempts: int = 1
    audit: Audit = field(default_factory=Audit)
    added_identifiers: tuple[str, ...] = ()


class SummaryRefused(ModelError):
    """The summariser's answers did not hold what a summary must hold; nothing is stored."""


async def model_summary(plan: Preparation, policy: SummaryPolicy, ask: Ask, counter: Counter) -> Summary:
    """Let a model summarise what ``plan`` folds.

    Raises:
        ModelError: a call failed, or the answer is no summary.
    """
    if not has_real_conversation(plan.all_folded):
        return _without_conversation(plan, policy, counter)
    wanted = recent_identifiers(plan.all_folded) if policy.identifier_policy == "strict" else []
    request = latest_ask(plan.all_folded)
    reasons: list[str] = []
    attempt = 0
    while True:
        attempt += 1
        body = await _body(plan, policy, ask, counter, reasons)
        prefix = await _prefix(plan, policy, ask, counter)
        text = _assembled(body, prefix, plan, policy, counter)
        if not policy.checked:
            return Summary(text, "model", attempt)
        audit = audit_summary(text, identifiers=wanted, latest_ask=request, policy=policy.identifier_policy)
        if audit.ok:
            return Summary(text, "model", attempt)
        if attempt > policy.retries:
            break
        reasons = audit.reasons
    if not audit.only_identifiers_missing:
        raise SummaryRefused(f"the summary was refused after {attempt} attempts: {'; '.join(audit.reasons)}")
    missing = audit.missing_identifiers
    return Summary(_with_identifiers(body, prefix, plan, policy, counter, missing), "model", attempt, audit, missing)


async def plain_summary(plan: Preparation, policy: SummaryPolicy, ask: Ask, counter: Counter) -> Summary:
    """Let a model summarise without the safeguard: nothing is audited, only file lists are attached.

    Raises:
        ModelError: a call failed.
    """
    instructions = plain_instructions(policy.focus)
    previous = without_attachments(plan.previous_summary)
    body = previous or NO_HISTORY
    if plan.folded:
        body = await _stages(plan.folded, previous, policy, ask, counter, instructions)
    prefix = await _prefix(plan, policy, ask, counter)
    if prefix:
        body = f"{body}\n\n---{split_section(prefix)}"
    files = file_lists_text(plan.files.read_files, plan.files.modified_files)
    text = _capped(mask_credentials(body), files, policy.limits, counter, policy.limits.summary_chars)
    return Summary(text, "model")


def extracted_summary(plan: Preparation, policy: SummaryPolicy, counter: Counter) -> Summary:
    """Summarise what ``plan`` folds with its own sentences, without a model."""
    if not has_real_conversation(plan.all_folded):
        return _without_conversation(plan, policy, counter)
    body = extractive_summary(plan.all_folded, without_attachments(plan.previous_summary))
    wanted = recent_identifiers(plan.all_folded)
    text = _assembled(body, "", plan, policy, counter)
    audit = audit_summary(text, identifiers=wanted, latest_ask=None, policy=policy.identifier_policy)
    if not audit.missing_identifiers:
        return Summary(text, "extractive")
    text = _with_identifiers(body, "", plan, policy, counter, audit.missing_identifiers)
    return Summary(text, "extractive", added_identifiers=audit.missing_identifiers)


def without_attachments(summary: str | None) -> str | None:
    """Return an earlier summary without what is attached anew each time: failures, files, quoted turns and rules."""
    return _ATTACHMENTS.sub("", summary) if summary else summary


def split_section(prefix: str) -> str:
    """Return the section about the folded beginning of a split turn, beginning with a blank line.

    Required headings in it are lowered, so that each stands once in the whole.
    """
    lines = [f"#{line}" if line.strip() in REQUIRED_HEADINGS else line for line in prefix.split("\n")]
    return f"\n\n{SPLIT_HEADING}\n\n" + "\n".join(lines) if prefix else ""


def _without_conversation(plan: Preparation, policy: SummaryPolicy, counter: Counter) -> Summary:
    previous = without_attachments(plan.previous_summary)
    return Summary(_assembled(fallback_summary(previous), "", plan, policy, counter), "none")


async def _body(plan: Preparation, policy: SummaryPolicy, ask: Ask, counter: Counter, reasons: list[str]) -> str:
    messages, previous = plan.folded, without_attachments(plan.previous_summary)
    instructions = structure_instructions(policy.identifier_policy, policy.identifier_instructions, policy.focus)
    if reasons:
        instructions = f"{instructions}\n\n{feedback_block(reasons)}"

    async def stage(part: tuple[Message, ...], before: str | None) -> str:
        return await _stages(part, before, policy, ask, counter, instructions)

    budget = policy.limits.window_tokens * policy.max_history_share
    if plan.tokens_before - total(counter, plan.all_folded) > math.floor(budget * SAFETY_MARGIN):
        pruned = prune_for_share(messages, policy.limits.window_tokens, policy.max_history_share, counter)
        messages = pruned.kept
        previous = await stage(pruned.dropped, previous) if pruned.dropped else previous
    return await stage(messages, previous) if messages else fallback_summary(previous)


async def _stages(
    messages: tuple[Message, ...],
    previous: str | None,
    policy: SummaryPolicy,
    ask: Ask,
    counter: Counter,
    instructions: str,
    answer_share: float = HISTORY_ANSWER_SHARE,
) -> str:
    window = policy.summariser_window_tokens
    longest = answer_tokens(math.floor(policy.limits.reserve_tokens * answer_share), window)
    room = prompt_room_tokens(window, longest, counter)
    left_out = 0

    async def summarise(call: SummaryCall) -> str:
        nonlocal left_out
        wanted = merge_prompt_instructions(instructions) if call.merge else instructions
        prompt = summary_prompt(serialize_conversation(call.messages), wanted, call.previous_summary)
        fitted = fit_prompt(prompt, room, counter)
        left_out += fitted.left_out_chars
        return await ask(fitted.text, longest)

    summary = await summarise_in_stages(
        messages,
        summarise,
        previous_summary=previous,
        window_tokens=window,
        chunk_tokens=max_chunk_tokens(messages, window, counter),
        counter=counter,
    )
    note = f"[{left_out} characters of very long messages were left out of this summary]"
    return f"{summary}\n\n{note}" if left_out else summary


async def _prefix(plan: Preparation, policy: SummaryPolicy, ask: Ask, counter: Counter) -> str:
    if not plan.prefix:
        return ""
    return await _stages(plan.prefix, None, policy, ask, counter, prefix_instructions(), PREFIX_ANSWER_SHARE)


def _assembled(
    body: str, prefix: str, plan: Preparation, policy: SummaryPolicy, counter: Counter, room_for: int = 0
) -> str:
    """Put body and attachments together within the cap; ``room_for`` weighted characters stay free."""
    lines = recent_turn_lines(plan.cut_turns, policy.limits.line_chars)
    recent = f"\n\n{RECENT_HEADING}\n" + "\n".join(lines) if lines else ""
    failures = tool_failures_section(find_tool_failures(plan.all_folded))
    suffix = (
        split_section(prefix)
        + recent
        + failures
        + bounded_file_lists_text(plan.files.read_files, plan.files.modified_files)
    )
    suffix = mask_credentials(suffix) + policy.rules
    return _capped(mask_credentials(body), suffix, policy.limits, counter, policy.limits.summary_chars - room_for)


def _capped(body: str, suffix: str, limits: Limits, counter: Counter, max_chars: int) -> str:
    """Fit a summary to both caps: weighted characters, and an eighth of the window in tokens."""
    text = cap_with_suffix(body, suffix, max_chars)
    while (tokens := counter.text(text)) > limits.summary_tokens and max_chars > 0:
        max_chars = max_chars * limits.summary_tokens // tokens
        text = cap_with_suffix(body, suffix, max_chars)
    return text


def _with_identifiers(
    body: str, prefix: str, plan: Preparation, policy: SummaryPolicy, counter: Counter, missing: tuple[str, ...]
) -> str:
    room = sum(weighted_chars(identifier) + 3 for identifier in missing)
    return add_identifiers(_assembled(body, prefix, plan, policy, counter, room), missing)
