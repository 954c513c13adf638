"""Compaction: instructions, summaries, audits, caps and workspace rules (spec/compaction.md 2.6, 4 and 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from nodes.compaction.budget import cap_summary, cap_with_suffix
from nodes.compaction.conversation import real_conversation_flags
from nodes.compaction.file_lists import FileOperations
from nodes.compaction.instructions import custom_focus, identifier_instructions
from nodes.compaction.outcome import classify_reason
from nodes.compaction.preparation import Preparation
from nodes.compaction.quality import audit_summary, reflects_ask
from nodes.compaction.refresh import refresh_text, summary_rules
from nodes.compaction.sections import extract_sections
from nodes.compaction.settings import Limits
from nodes.compaction.summary import SummaryPolicy, model_summary, plain_summary
from nodes.compaction.tool_failures import find_tool_failures, tool_failures_section
from nodes.flush_prompts import time_line
from tests.vectors.adapters.compaction_history import CHARS, messages_of
from tests.vectors.runner import Case
from turngraph.clock import from_ms
from turngraph.errors import ModelError
from turngraph.identifiers import find_identifiers, is_hex_identifier
from turngraph.summary_sections import fallback_summary, has_required_sections

TOPIC = "compaction"


def _plan(raw: dict[str, Any]) -> Preparation:
    files = raw["fileOps"]
    return Preparation(
        first_kept_id=raw.get("firstKeptEntryId", "k1"),
        folded=messages_of(raw["messagesToSummarize"]),
        prefix=messages_of(raw["turnPrefixMessages"]) if raw["isSplitTurn"] else (),
        kept=(),
        cut_turns=(),
        previous_summary=raw.get("previousSummary"),
        tokens_before=raw["tokensBefore"],
        files=FileOperations(frozenset(files["read"]), frozenset(files["written"]), frozenset(files["edited"])),
    )


def _stored(plan: Preparation, summary: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "firstKeptEntryId": plan.first_kept_id,
        "tokensBefore": plan.tokens_before,
        "details": {"readFiles": plan.files.read_files, "modifiedFiles": plan.files.modified_files},
    }


def _limits(window_tokens: int, reserve_tokens: int) -> Limits:
    return Limits(window_tokens, reserve_tokens, 20_000, 3, window_tokens // 4, 16_000, window_tokens // 8)


def _assemble(case: Case) -> dict[str, Any]:
    plan = _plan(case.input["preparation"])
    reserve = case.input["preparation"]["settings"]["reserveTokens"]
    calls: list[dict[str, Any]] = []

    async def ask(prompt: str, max_tokens: int) -> str:
        prefix = "## Original Request" in prompt
        calls.append({"maxTokens": max_tokens, "hasPrevious": "<previous-summary>" in prompt, "prefixPrompt": prefix})
        return "PREFIX" if prefix else "HISTORY"

    policy = SummaryPolicy(_limits(200_000, reserve), 200_000)
    summary = asyncio.run(plain_summary(plan, policy, ask, CHARS))
    return _stored(plan, summary.text) | {"calls": calls}


def _safeguard(case: Case) -> dict[str, Any]:
    given, config = case.input, case.config
    plan = _plan(given)
    answers = list(given["summariserAnswers"])
    calls = 0

    async def ask(prompt: str, max_tokens: int) -> str:
        nonlocal calls
        if not given["model"] or not given["apiKeyAvailable"]:
            raise ModelError("no model or no key", kind="auth")
        calls += 1
        return str(answers.pop(0))

    policy = SummaryPolicy(
        _limits(config.get("contextWindowTokens", 100_000), 20_000),
        100_000,
        checked=config.get("qualityGuardEnabled", False),
        rules=summary_rules(given["agentsMd"], None),
    )
    try:
        summary = asyncio.run(model_summary(plan, policy, ask, CHARS))
    except ModelError:
        return {"cancel": True, "summariserCalls": calls}
    stored = _stored(plan, summary.text) | {"summariserCalls": calls}
    return {key: value for key, value in stored.items() if key in case.expected}


def _audit(case: Case) -> dict[str, Any]:
    given = case.input
    audit = audit_summary(
        given["summary"],
        identifiers=given["identifiers"],
        latest_ask=given["latestAsk"],
        policy=given.get("identifierPolicy") or "strict",
    )
    return {"ok": audit.ok, "reasons": audit.reasons}


def _identifier_instructions(case: Case) -> str | None:
    given = case.input
    policy: Any = given.get("identifierPolicy") or "strict"
    text = identifier_instructions(policy, given.get("identifierInstructions"), given["customInstructions"])
    built_in = identifier_instructions("strict")
    return text.replace(built_in, "<STRICT>") if text and built_in else text


def _focus(case: Case) -> dict[str, Any]:
    text = custom_focus(case.input["event"], case.input["config"])
    if text is None:
        return {"default": True}
    if isinstance(case.expected.get("text"), dict):
        return {"text": {"codePoints": len(text), "first": text[0]}}
    return {"text": text}


def _sections(case: Case) -> dict[str, Any]:
    found = extract_sections(case.input["content"], case.input["sectionNames"])
    return {"sections": [text for _, text in found], "found": [name for name, _ in found]}


def _refresh(case: Case) -> dict[str, Any] | None:
    defaults = case.config.get("agents", {}).get("defaults", {})
    zone = ZoneInfo(defaults.get("userTimezone") or "UTC")
    names = defaults.get("compaction", {}).get("postCompactionSections")
    now = from_ms(case.input.get("nowMs") or 0)
    text = refresh_text(case.input["agentsMd"], names, now.astimezone(zone).date())
    if text is None:
        return None
    # The clock travels with the newest message and not in the refresh (design decision 10).
    body = text.split("(from AGENTS.md):\n\n", 1)[1]
    return {"heading": text.split("\n", 1)[0], "timeLine": time_line(now, zone), "body": body}


def _failures(case: Case) -> dict[str, Any]:
    failures = find_tool_failures(messages_of(case.input["messages"]))
    return {
        "failures": [
            {"toolCallId": f.call_id, "toolName": f.tool, "summary": f.summary, "meta": f.meta or None}
            for f in failures
        ],
        "section": tool_failures_section(failures),
    }


def _identifiers(case: Case) -> list[str]:
    found = find_identifiers(case.input["text"], case.config["max"])
    return [name.upper() if is_hex_identifier(name) else name for name in found]  # ours stand as they were written


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "compact_assemble": _assemble,
    "compaction_safeguard": _safeguard,
    "audit_summary_quality": _audit,
    "has_required_summary_sections": lambda case: has_required_sections(case.input["summary"]),
    "has_ask_overlap": lambda case: reflects_ask(case.input["summary"], case.input["latestAsk"]),
    "extract_opaque_identifiers": _identifiers,
    "extract_opaque_identifiers_v9": _identifiers,
    "build_structured_fallback_summary": lambda case: fallback_summary(case.input["previousSummary"]),
    "build_summarization_instructions": _identifier_instructions,
    "resolve_compaction_instructions": _focus,
    "cap_compaction_summary": lambda case: cap_summary(case.input["summary"], case.input["maxChars"]),
    "cap_compaction_summary_preserving_suffix": lambda case: cap_with_suffix(
        case.input["summaryBody"], case.input["suffix"], case.input["maxChars"]
    ),
    "extract_sections": _sections,
    "read_workspace_context_for_summary": lambda case: summary_rules(case.input["agentsMd"], None),
    "read_post_compaction_context": _refresh,
    "real_conversation_flags": lambda case: real_conversation_flags(
        messages_of(case.input["messages"]), case.config["lookback"]
    ),
    "tool_failures_section": _failures,
    "classify_compaction_reason": lambda case: classify_reason(case.input["reason"]),
}
