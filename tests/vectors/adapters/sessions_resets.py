"""Reset triggers, policy and freshness (spec/sessions.md 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from nodes.chat_commands import match_command
from nodes.reset_policy import (
    ResetMode,
    ResetPolicy,
    channel_reset,
    daily_boundary,
    freshness,
    is_threaded,
    reset_policy,
    reset_type,
)
from tests.vectors.runner import Case
from turngraph.clock import from_ms, to_ms
from turngraph.config.schema_session import DEFAULT_RESET_TRIGGERS

TOPIC = "sessions"


@dataclass(frozen=True)
class _Block:
    mode: ResetMode | None
    at_hour: float | None
    idle_minutes: float | None
    timezone: str | None = None


def _block(raw: Mapping[str, Any] | None) -> _Block | None:
    return None if raw is None else _Block(raw.get("mode"), raw.get("atHour"), raw.get("idleMinutes"))


def _trigger(case: Case) -> dict[str, Any]:
    given = case.input
    words = given.get("triggers") or DEFAULT_RESET_TRIGGERS
    found = match_command(given["body"], words, in_group=given.get("isGroup", False))
    if found is None or given.get("authorized") is False:
        return {"reset": False}
    return {"reset": True, "bodyStripped": found.text, "trigger": found.word}


def _policy(case: Case) -> dict[str, Any]:
    session = case.input.get("sessionCfg") or {}
    types = session.get("resetByType") or {}
    kind = case.input["resetType"]
    found = reset_policy(
        base=_block(session.get("reset")),
        by_type=_block(types.get(kind, types.get("dm") if kind == "direct" else None)),
        channel=_block(case.input.get("resetOverride")),
        legacy_idle_minutes=session.get("idleMinutes"),
        any_type_configured=bool(types),
    )
    return {
        "mode": found.mode,
        "atHour": found.at_hour,
        "idleMinutes": found.idle_minutes,
        "configured": found.configured,
    }


def _channel(case: Case) -> Any:
    blocks = {name: _block(raw) for name, raw in (case.input["sessionCfg"].get("resetByChannel") or {}).items()}
    found = channel_reset({name: block for name, block in blocks.items() if block}, case.input["channel"])
    return {"mode": found.mode, "atHour": found.at_hour, "idleMinutes": found.idle_minutes} if found else None


def _thread_flag(case: Case) -> bool:
    given = case.input
    return is_threaded(
        given.get("sessionKey"),
        thread=given.get("messageThreadId"),
        label=given.get("threadLabel"),
        starter=given.get("threadStarterBody"),
        parent_key=given.get("parentSessionKey"),
    )


def _boundary(case: Case) -> int:
    given = case.input
    return to_ms(daily_boundary(from_ms(given["nowMs"]), given["atHour"], ZoneInfo(given["timeZone"])))


def _freshness(case: Case) -> dict[str, Any]:
    given = case.input
    raw = given["policy"]
    policy = ResetPolicy(raw["mode"], raw.get("atHour", 4), raw.get("idleMinutes"))
    found = freshness(
        policy,
        from_ms(given["now"]),
        ZoneInfo(given["timeZone"]),
        updated_ms=given.get("updatedAt"),
        started_ms=given.get("sessionStartedAt"),
        interaction_ms=given.get("lastInteractionAt"),
    )
    return {
        "fresh": found.fresh,
        "dailyResetAt": to_ms(found.boundary) if found.boundary else None,
        "idleExpiresAt": to_ms(found.idle_until) if found.idle_until else None,
        "staleReason": found.reason if found.reason in ("daily", "idle") else None,
    }


def _fork_limit(case: Case) -> int:
    raw = ((case.input["config"] or {}).get("session") or {}).get("parentForkMaxTokens")
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw) or raw < 0:
        return 100_000
    return math.floor(raw)


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "match_reset_trigger": _trigger,
    "resolve_session_reset_type": lambda case: reset_type(
        case.input.get("sessionKey"),
        threaded=case.input.get("isThread", False),
        in_group=case.input.get("isGroup", False),
    ),
    "resolve_thread_flag": _thread_flag,
    "resolve_session_reset_policy": _policy,
    "resolve_session_reset_policy@2026.9": _policy,
    "resolve_channel_reset_config": _channel,
    "resolve_daily_reset_at_ms": _boundary,
    "resolve_daily_reset_at_ms@2026.9": _boundary,
    "evaluate_session_freshness": _freshness,
    "evaluate_session_freshness@2026.9": _freshness,
    "resolve_parent_fork_max_tokens": _fork_limit,
}
