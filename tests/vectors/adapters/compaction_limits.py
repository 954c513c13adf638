"""Compaction: settings, memory flush, usage, silent replies and overflow texts (spec/compaction.md 0, 1 and 6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from nodes.budget import flush_is_due
from nodes.compaction.settings import (
    MAX_RECENT_TURNS,
    MAX_RETRIES,
    clamped,
    effective_reserve_tokens,
    flush_threshold_tokens,
    timeout_ms,
)
from nodes.compaction.usage import last_nonzero_usage, normalise_usage, prompt_tokens
from nodes.flush_prompts import PROMPT, SYSTEM_PROMPT, dated_prompt, flush_path, with_safety_rules
from nodes.overflow import is_overflow_answer, observed_tokens, read_overflow_text
from nodes.silent import SILENT_TOKEN, is_silent, may_become_silent, strip_silent
from tests.vectors.runner import Case
from turngraph.clock import from_ms
from turngraph.config.schema_agent import Compaction
from turngraph.messages import Message

TOPIC = "compaction"

_DEFAULTS = Compaction()


def _settings(case: Case) -> dict[str, Any]:
    given, config = case.input, case.config
    reserve = effective_reserve_tokens(
        config.get("reserveTokens", given["currentReserveTokens"]),
        config.get("reserveTokensFloor", _DEFAULTS.reserve_tokens_floor),
        None,
    )
    keep = config.get("keepRecentTokens", given["currentKeepRecentTokens"])
    changed = (reserve, keep) != (given["currentReserveTokens"], given["currentKeepRecentTokens"])
    return {"didOverride": changed, "compaction": {"reserveTokens": reserve, "keepRecentTokens": keep}}


def _reserve(case: Case) -> int:
    return effective_reserve_tokens(case.input["reserveTokens"], 0, case.input["contextTokenBudget"])


def _clamped(default: int, highest: int) -> Callable[[Case], int]:
    def resolve(case: Case) -> int:
        value = case.input["value"]
        return clamped(default if value is None else value, highest)

    return resolve


def _flush_settings(case: Case) -> dict[str, Any] | None:
    settings = Compaction.model_validate(case.config)
    flush = settings.memory_flush
    if not flush.enabled:
        return None
    prompt, system = with_safety_rules(flush.prompt, PROMPT), with_safety_rules(flush.system_prompt, SYSTEM_PROMPT)
    custom = flush.prompt is not None
    return {
        "softThresholdTokens": flush.soft_threshold_tokens,
        "forceFlushTranscriptBytes": flush.force_flush_transcript_bytes or 0,
        "reserveTokensFloor": settings.reserve_tokens_floor,
        "promptHasNoReply": SILENT_TOKEN in prompt,
        "systemHasNoReply": SILENT_TOKEN in system,
        "promptStartsWithCustom": prompt.startswith(str(flush.prompt)) if custom else None,
        "appendedNoReplyHint": SILENT_TOKEN in system.removeprefix(flush.system_prompt or "") if custom else None,
    }


def _flush_plan(case: Case) -> dict[str, Any] | None:
    if case.config.get("enabled") is False:
        return None
    window = case.input["contextWindowTokens"]
    flush = _DEFAULTS.memory_flush
    return {
        "softThresholdTokens": flush.soft_threshold_tokens,
        "forceFlushTranscriptBytes": flush.force_flush_transcript_bytes,
        "reserveTokensFloor": effective_reserve_tokens(0, _DEFAULTS.reserve_tokens_floor, window),
    }


def _flush_due(case: Case) -> bool:
    given = case.input
    entry = given.get("entry")
    tokens = math.floor(given.get("tokenCount") or 0)
    if tokens <= 0 and entry and entry.get("totalTokensFresh") is not False:
        tokens = entry.get("totalTokens") or 0
    threshold = flush_threshold_tokens(
        given["contextWindowTokens"], given["reserveTokensFloor"], given["softThresholdTokens"]
    )
    return flush_is_due(tokens, threshold, entry)


def _usage_tail(case: Case) -> dict[str, Any]:
    lines = case.input["fileText"].encode().split(b"\n")
    usage = last_nonzero_usage(reversed(lines))
    if usage is None:
        return {"usage": None, "snapshot": None}
    output = usage.get("output") or None
    return {"usage": usage, "snapshot": {"promptTokens": prompt_tokens(usage), "outputTokens": output}}


def _session_total(case: Case) -> int | None:
    return case.input["promptTokens"] or prompt_tokens(normalise_usage(case.input["usage"]))


def _overflow_text(case: Case) -> dict[str, Any]:
    read = read_overflow_text(case.input["message"])
    return {
        "isContextOverflow": read.is_overflow,
        "isLikely": read.is_likely,
        "isCompactionFailure": read.is_compaction_failure,
        "observedTokens": read.observed_tokens,
    }


def _zone(case: Case) -> ZoneInfo:
    return ZoneInfo(case.config.get("userTimezone") or "UTC")


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "effective_compaction_settings": _settings,
    "effective_reserve_tokens_v9": _reserve,
    "resolve_recent_turns_preserve": _clamped(_DEFAULTS.recent_turns_preserve, MAX_RECENT_TURNS),
    "resolve_quality_guard_max_retries": _clamped(_DEFAULTS.quality_guard.max_retries, MAX_RETRIES),
    "resolve_compaction_timeout_ms": lambda case: timeout_ms(case.input["timeoutSeconds"]),
    "resolve_memory_flush_settings": _flush_settings,
    "memory_flush_plan_v9": _flush_plan,
    "should_run_memory_flush": _flush_due,
    "memory_flush_relative_path": lambda case: flush_path(from_ms(case.input["nowMs"]), _zone(case)),
    "memory_flush_prompt_for_run": lambda case: dated_prompt(
        case.input["prompt"], from_ms(case.input["nowMs"]), _zone(case)
    ),
    "read_last_nonzero_usage": _usage_tail,
    "derive_session_total_tokens": _session_total,
    "is_silent_reply_text": lambda case: is_silent(case.input["text"]),
    "is_silent_reply_prefix": lambda case: may_become_silent(case.input["text"]),
    "strip_silent_token": lambda case: strip_silent(case.input["text"]),
    "classify_overflow_error": _overflow_text,
    "extract_observed_overflow_tokens": lambda case: observed_tokens(case.input["message"]),
    "is_context_overflow_message": lambda case: is_overflow_answer(
        Message(case.input["message"]), case.input["contextWindow"]
    ),
}
