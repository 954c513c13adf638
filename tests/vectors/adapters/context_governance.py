"""Adapters of the governance half of the context vectors: history, limits, guards, pruning, loop detection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from nodes.guard_tools import cut_to_budget, guard_results
from nodes.history import content, images, pairing, thinking, tool_ids, tool_inputs, turn_rules, usage
from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.sizes import guard_chars, prune_chars
from nodes.history.step import Step, chain
from nodes.limit_history import history_limit, limit_turns
from nodes.loop_detection import CallRecord, call_hash, detect_loop, outcome_hash
from nodes.prune import PruneState, prune_request, prune_results
from nodes.prune_rules import PruneRules, prune_rules
from nodes.sanitize import model_snapshot, repair_history
from nodes.write_guard import ResultFacts, WriteRules, flush_pending, guard_write
from tests.vectors.runner import Case
from turngraph.config.checking import repaired
from turngraph.config.fields import ReadAs, Section
from turngraph.config.schema_agent import ContextPruning
from turngraph.config.schema_tools import LoopDetection
from turngraph.messages import Message
from turngraph.name_patterns import is_allowed
from turngraph.text import weighted_chars
from turngraph.tokens import EstimateCounter
from turngraph.truncation import has_important_tail, live_limits, truncate_result, truncate_text

TOPIC = "context"
NOW_MS = 1_700_000_000_000


def _messages(raws: Sequence[Any]) -> tuple[Message, ...]:
    return tuple(Message(raw) for raw in raws if isinstance(raw, dict))


def _raw(messages: Sequence[Message]) -> list[Any]:
    return [message.raw for message in messages]


def _pass(apply: Callable[[tuple[Message, ...]], Step]) -> Callable[[Case], Any]:
    """Make the adapter of a pass whose case has ``messages`` and expects messages."""
    return lambda case: _raw(apply(_messages(case.input["messages"])).messages)


def _policy(case: Case) -> TranscriptPolicy:
    return resolve_policy(case.input.get("provider"), case.input.get("modelApi"), case.input.get("modelId"))


def _policy_fields(policy: TranscriptPolicy) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "sanitizeMode": "full" if policy.full_clean_up else "images-only",
        "sanitizeToolCallIds": policy.id_mode is not None,
        "repairToolUseResultPairing": True,
        "preserveSignatures": policy.preserve_signatures,
        "dropThinkingBlocks": policy.drop_thinking,
        "applyGoogleTurnOrdering": policy.google_ordering,
        "validateGeminiTurns": policy.merge_assistants,
        "validateAnthropicTurns": policy.merge_users,
        "allowSyntheticToolResults": policy.synthetic_results,
    }
    if policy.id_mode:
        fields["toolCallIdMode"] = policy.id_mode
    if policy.clean_thought_signatures:
        fields["sanitizeThoughtSignatures"] = {"allowBase64Only": True, "includeCamelCase": True}
    return fields


def resolve_transcript_policy(case: Case) -> Any:
    return _policy_fields(_policy(case)) | {"sanitizeThinkingSignatures": False}


def resolve_transcript_policy_unowned(case: Case) -> Any:
    policy = _policy(case)
    return _policy_fields(policy) | {
        "preserveNativeAnthropicToolUseIds": False,
        "appendOnlyRuntimeContext": False,
        "dropReasoningFromHistory": policy.drop_reasoning,
    }


def sanitize_session_messages(case: Case) -> Any:
    mode, config = case.config or {}, case.config or {}
    keeps = bool(config.get("preserveSignatures"))

    def answers(messages: tuple[Message, ...]) -> Step:
        if mode.get("sanitizeMode") != "full":
            return Step(messages)
        blanks = content.assistant_blanks(keep_beside_thinking=keeps)
        if keeps:
            return blanks(messages)
        signatures = config.get("sanitizeThoughtSignatures") or {}
        return chain(messages, thinking.foreign_signatures(base64_only=bool(signatures.get("allowBase64Only"))), blanks)

    step = chain(_messages(case.input["messages"]), content.CANONICAL_CONTENT, content.BLANK_TEXT, answers)
    return _raw(step.messages)


def sanitize_session_history(case: Case) -> Any:
    policy = _policy(case)
    repaired = repair_history(
        _messages(case.input["messages"]), policy, NOW_MS, case.input.get("allowedToolNames")
    ).messages
    opened = turn_rules.open_with_user(repaired, NOW_MS).messages if policy.google_ordering else repaired
    api, model_id = case.input.get("modelApi"), case.input.get("modelId")
    entries = []
    snapshot = model_snapshot(case.input.get("lastSnapshot"), case.input.get("provider"), api, model_id, NOW_MS)
    if snapshot is not None:
        entries.append({"type": "custom", "customType": "model-snapshot", "data": snapshot})
    if opened is not repaired and api and api.startswith("google"):
        data = {"timestamp": NOW_MS}
        entries.append({"type": "custom", "customType": "google-turn-ordering-bootstrap", "data": data})
    return {"messages": [_older_marker(raw) for raw in _raw(opened)], "appendedEntries": entries}


def _older_marker(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Leave out the details that the newer release puts on made-up results; older cases have none."""
    details = raw.get("details")
    if isinstance(details, dict) and "openclawSyntheticMissingToolResult" in details:
        return {key: value for key, value in raw.items() if key != "details"}
    return raw


def sanitize_tool_call_ids(case: Case) -> Any:
    config = case.config or {}
    step = tool_ids.rename_ids(
        _messages(case.input["messages"]),
        case.input.get("mode", "strict"),
        keep_kimi=case.version != "2026.3",
        keep_anthropic=bool(config.get("preserveNativeAnthropicToolUseIds")),
        openai_style=config.get("duplicateToolCallIdStyle") == "openai",
    )
    return _raw(step.messages)


def sanitize_tool_call_inputs(case: Case) -> Any:
    cleaned = tool_inputs.clean_tool_calls(_messages(case.input["messages"]), case.input.get("allowedToolNames"))
    return {
        "messages": _raw(cleaned.messages),
        "droppedToolCalls": cleaned.dropped_calls,
        "droppedAssistantMessages": cleaned.dropped_messages,
    }


def sanitize_replay_tool_call_inputs(case: Case) -> Any:
    named = tool_inputs.resolve_call_names(_messages(case.input["messages"]), case.input.get("allowedToolNames") or ())
    cleaned = tool_inputs.clean_tool_calls(named.messages)
    return {
        "messages": _raw(cleaned.messages),
        "droppedAssistantMessages": named.dropped_messages + cleaned.dropped_messages,
    }


def repair_tool_use_result_pairing(case: Case) -> Any:
    paired = pairing.pair_results(_messages(case.input["messages"]), NOW_MS)
    return {
        "messages": _raw(paired.messages),
        "added": paired.added,
        "droppedDuplicateCount": paired.duplicates,
        "droppedOrphanCount": paired.orphans,
        "moved": paired.moved,
    }


def validate_anthropic_turns(case: Case) -> Any:
    step = chain(
        _messages(case.input["messages"]),
        turn_rules.merge_assistants,
        turn_rules.drop_dangling,
        turn_rules.merge_users,
    )
    return _raw(step.messages)


def normalize_tool_call_name_for_dispatch(case: Case) -> Any:
    raw, allowed = case.input["rawName"], case.input.get("allowedToolNames") or ()
    return tool_inputs.resolve_tool_name(raw, allowed, case.input.get("toolCallId")) or raw.strip()


def try_parse_malformed_tool_call_arguments(case: Case) -> Any:
    found = tool_inputs.salvage_arguments(case.input["raw"])
    return {"args": dict(found.arguments), "trailingSuffix": found.trailing} if found else None


def limit_history_turns(case: Case) -> Any:
    return [_label(m) for m in limit_turns(_messages(case.input["messages"]), case.input.get("limit")).messages]


def _label(message: Message) -> str:
    if message.role == "toolResult":
        return f"R:{message.tool_call_id}"
    text = message.raw.get("summary") or message.text or "".join(call.id for call in message.tool_calls)
    return f"{message.role[0]}:{text}"


def truncate_tool_result_text(case: Case) -> Any:
    return truncate_text(case.input["text"], case.input["maxChars"], **_notice(case))


def truncate_tool_result_message(case: Case) -> Any:
    return truncate_result(Message(case.input["message"]), case.input["maxChars"], **_notice(case)).raw


def _notice(case: Case) -> dict[str, Any]:
    suffix = (case.config or {}).get("suffix")
    return {} if suffix is None else {"notice": lambda _omitted: suffix}


def resolve_live_tool_result_max_chars(case: Case) -> Any:
    window = case.input["contextWindowTokens"]
    limits = live_limits(window)
    return {"perResult": limits.per_result, "aggregate": limits.aggregate, "contextMax": max(1024, window)}


def estimate_string_chars(case: Case) -> Any:
    text = case.input["text"]
    tokens = EstimateCounter().text(text)
    return {"weight1": weighted_chars(text), "weight2": weighted_chars(text, 2), "tokens": tokens}


def tool_result_context_guard(case: Case) -> Any:
    guarded = guard_results(_messages(case.input["messages"]), case.input["contextWindowTokens"])
    return {"messages": _raw(guarded.messages)}


def session_tool_result_guard(case: Case) -> Any:
    config = case.config or {}
    rules = WriteRules(
        allowed_tools=config.get("allowedToolNames"),
        synthetic_results=config.get("allowSyntheticToolResults") is not False,
        on_result=_redact if config.get("persistHook") == "redact" else WriteRules().on_result,
        on_write=_WRITE_HOOKS.get(config.get("writeHook"), WriteRules().on_write),
    )
    pending: Mapping[str, str] = {}
    written: list[Message] = []
    for raw in case.input["messages"]:
        if raw.get("$flush"):
            step = flush_pending(pending, rules, NOW_MS)
        else:
            step = guard_write(Message(raw), pending, rules, NOW_MS)
        written += step.writes
        pending = step.pending
    return {"persisted": [_older_marker(m.raw) for m in written], "pending": list(pending)}


def _redact(message: Message, facts: ResultFacts) -> Message:
    text = f"redacted:{facts.tool_name}:{str(facts.synthetic).lower()}"
    return message.evolve(content=[{"type": "text", "text": text}])


def _block_user(message: Message) -> Message | None:
    return None if message.role == "user" else message


_WRITE_HOOKS: dict[Any, Callable[[Message], Message | None]] = {
    "block_user": _block_user,
    "tag": lambda message: message.evolve(tagged=True),
}


def _lenient(section: type[Section], raw: Any) -> Any:
    """Read a section of the settings as of a foreign file: what is out of range is put right."""
    how = ReadAs(lenient=True)
    tree, _ = repaired(section, raw or {}, how)
    return section.model_validate(tree, context=how)


def _rules(config: Mapping[str, Any] | None) -> PruneRules | None:
    return prune_rules(_lenient(ContextPruning, config))


def compute_pruning_settings(case: Case) -> Any:
    rules = _rules(case.input["config"])
    if rules is None:
        return None
    tools = {key: list(value) for key, value in (("allow", rules.allow), ("deny", rules.deny)) if value}
    return {
        "mode": "cache-ttl",
        "ttlMs": rules.ttl / timedelta(milliseconds=1),
        "keepLastAssistants": rules.keep_last_assistants,
        "softTrimRatio": rules.soft_trim_ratio,
        "hardClearRatio": rules.hard_clear_ratio,
        "minPrunableToolChars": rules.min_prunable_tool_chars,
        "tools": tools,
        "softTrim": {
            "maxChars": rules.trim_max_chars,
            "headChars": rules.trim_head_chars,
            "tailChars": rules.trim_tail_chars,
        },
        "hardClear": {"enabled": rules.clears, "placeholder": rules.placeholder},
    }


def prune_context_messages(case: Case) -> Any:
    rules = _rules(case.config or {}) or PruneRules()
    pruned = prune_results(_messages(case.input["messages"]), case.input.get("contextWindowTokens") or 0, rules)
    return {"changed": pruned.changed, "messages": _raw(pruned.messages)}


def cache_ttl_gate(case: Case) -> Any:
    given = case.input
    rules = replace(_rules(case.config or {}) or PruneRules(), ttl=timedelta(milliseconds=given["ttlMs"]))
    state = PruneState({}, given["lastCacheTouchAt"])
    pruned = prune_request(
        _messages(given["messages"]), state, rules, window_tokens=given["contextWindowTokens"], now_ms=given["now"]
    )
    return {"pruned": pruned.changed, "lastCacheTouchAtAfter": state.after(pruned, given["now"]).last_touch_ms}


def is_tool_prunable(case: Case) -> Any:
    tools = case.input["tools"]
    return is_allowed(case.input["toolName"], tools.get("allow"), tools.get("deny"))


def prune_processed_history_images(case: Case) -> Any:
    given = _messages(case.input["messages"])
    step = images.prune_processed(given)
    return {"changed": step.messages is not given, "messages": _raw(step.messages)}


def resolve_loop_detection_config(case: Case) -> Any:
    rules = _lenient(LoopDetection, case.input["config"])
    return {
        "enabled": rules.enabled,
        "historySize": rules.history_size,
        "warningThreshold": rules.warning_threshold,
        "criticalThreshold": rules.critical_threshold,
        "globalCircuitBreakerThreshold": rules.global_circuit_breaker_threshold,
        "detectors": {
            "genericRepeat": rules.detectors.generic_repeat,
            "knownPollNoProgress": rules.detectors.known_poll_no_progress,
            "pingPong": rules.detectors.ping_pong,
        },
    }


def detect_tool_call_loop(case: Case) -> Any:
    rules = _lenient(LoopDetection, case.config)
    records: list[CallRecord] = []
    for made in case.input["calls"]:
        tool, params, error = made["tool"], made.get("params"), made.get("error")
        outcome = outcome_hash(tool, params, made.get("result"), error) if "result" in made or error else None
        unknown = isinstance(error, str) and error.endswith("not found")
        records.append(CallRecord(tool, call_hash(tool, params), outcome, unknown_tool=unknown))
    following = case.input["next"]
    verdict = detect_loop(records[-rules.history_size :], following["tool"], following.get("params"), rules)
    if verdict is None:
        return {"stuck": False}
    return {
        "stuck": True,
        "level": verdict.level,
        "detector": verdict.detector,
        "count": verdict.count,
        "warningKey": verdict.key,
        "pairedToolName": verdict.paired_tool,
    }


ADAPTERS: dict[str, Callable[[Case], Any]] = {
    "annotate_inter_session_user_messages": _pass(content.ANNOTATE_INTER_SESSION),
    "cache_ttl_gate": cache_ttl_gate,
    "canonicalize_assistant_history_messages": _pass(content.CANONICAL_CONTENT),
    "compute_pruning_settings": compute_pruning_settings,
    "detect_tool_call_loop": detect_tool_call_loop,
    "downgrade_openai_function_call_reasoning_pairs": _pass(thinking.unpair_calls),
    "downgrade_openai_reasoning_blocks": _pass(thinking.LONE_REASONING),
    "drop_reasoning_from_history": _pass(thinking.drop_reasoning),
    "drop_thinking_blocks": _pass(thinking.drop_thinking),
    "ensure_assistant_usage_snapshots": _pass(usage.ENSURE_USAGE),
    "estimate_message_chars_guard": lambda case: guard_chars(Message(case.input["message"])),
    "estimate_message_chars_pruning": lambda case: prune_chars(Message(case.input["message"])),
    "estimate_string_chars": estimate_string_chars,
    "get_history_limit_from_session_key": lambda case: history_limit(case.input["sessionKey"], case.config["channels"]),
    "google_turn_ordering": _pass(lambda messages: turn_rules.open_with_user(messages, NOW_MS)),
    "has_important_tail": lambda case: has_important_tail(case.input["text"]),
    "hash_tool_call": lambda case: call_hash(case.input["toolName"], case.input["params"]),
    "is_base64_signature": lambda case: thinking.is_base64(str(case.input["value"] or "")),
    "is_tool_prunable": is_tool_prunable,
    "limit_history_turns": limit_history_turns,
    "normalize_tool_call_ids_in_message": lambda case: tool_inputs.name_call_ids(Message(case.input["message"])).raw,
    "normalize_tool_call_name_for_dispatch": normalize_tool_call_name_for_dispatch,
    "prune_context_messages": prune_context_messages,
    "prune_processed_history_images": prune_processed_history_images,
    "repair_tool_use_result_pairing": repair_tool_use_result_pairing,
    "resolve_live_tool_result_max_chars": resolve_live_tool_result_max_chars,
    "resolve_loop_detection_config": resolve_loop_detection_config,
    "resolve_transcript_policy": resolve_transcript_policy,
    "resolve_transcript_policy_unowned": resolve_transcript_policy_unowned,
    "sanitize_replay_tool_call_inputs": sanitize_replay_tool_call_inputs,
    "sanitize_session_history": sanitize_session_history,
    "sanitize_session_messages": sanitize_session_messages,
    "sanitize_tool_call_id": lambda case: tool_ids.clean_id(case.input["id"], case.input["mode"]),
    "sanitize_tool_call_ids": sanitize_tool_call_ids,
    "sanitize_tool_call_inputs": sanitize_tool_call_inputs,
    "session_tool_result_guard": session_tool_result_guard,
    "strip_invalid_thinking_signatures": _pass(thinking.strip_unsigned),
    "strip_stale_assistant_usage": _pass(usage.strip_stale_usage),
    "strip_thought_signatures": lambda case: thinking.strip_signatures(
        case.input["content"], base64_only=bool((case.config or {}).get("allowBase64Only"))
    ),
    "strip_tool_result_details": _pass(content.STRIP_DETAILS),
    "tool_result_context_guard": tool_result_context_guard,
    "truncate_text_to_budget": lambda case: cut_to_budget(case.input["text"], case.input["maxChars"]),
    "truncate_tool_result_message": truncate_tool_result_message,
    "truncate_tool_result_text": truncate_tool_result_text,
    "try_parse_malformed_tool_call_arguments": try_parse_malformed_tool_call_arguments,
    "validate_anthropic_turns": validate_anthropic_turns,
    "validate_gemini_turns": _pass(turn_rules.merge_assistants),
}
