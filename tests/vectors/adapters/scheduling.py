"""Schedules, jobs, run logs and heartbeats (spec/scheduling.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from stores.run_logs import parse_run_log, prune_lines, safe_job_id
from tests.vectors.runner import Case
from turngraph.clock import from_ms, iso_ms
from turngraph.config.fields import HoursOrNever, Minutes
from turngraph.config.schema_channels import Channel
from turngraph.config.schema_schedule import Cron, RunLog
from turngraph.heartbeat_text import event_kind, is_ack, is_effectively_empty, normalise_reply, strip_token
from turngraph.schedules.active_hours import active_part
from turngraph.schedules.heartbeat import phase_ms, visibility_of
from turngraph.schedules.job import Job
from turngraph.schedules.results import RunResult, apply_result, error_backoff_ms, transient_cause
from turngraph.schedules.schedule import (
    check_new_schedule,
    default_stagger_ms,
    parse_absolute_ms,
    read_schedule,
    stagger_ms,
    stagger_offset_ms,
)
from turngraph.schedules.slots import Watch, plan_job
from turngraph.schedules.wakes import deferral, priority, reason_kind

TOPIC = "scheduling"


def _iso(moment_ms: float | None) -> str | None:
    return None if moment_ms is None else iso_ms(from_ms(moment_ms))


def _schedule(case: Case) -> Any:
    return read_schedule(case.input["schedule"], created_ms=case.input["nowMs"])


def _next(case: Case) -> str | None:
    found = _schedule(case)
    return _iso(found.next_after(case.input["nowMs"])) if found else None


def _previous(case: Case) -> str | None:
    if case.input["schedule"]["kind"] != "cron":
        return None
    return _iso(_schedule(case).last_before(case.input["nowMs"]))


def _staggered(case: Case) -> Any:
    job = case.input["job"]
    return read_schedule(job["schedule"], job_id=job["id"])


def _strip(case: Case) -> dict[str, Any]:
    found = strip_token(case.input["text"] or "", case.config["mode"], case.config["maxAckChars"])
    return {"shouldSkip": found.skip, "text": found.text, "didStrip": found.found}


def _active(case: Case) -> bool:
    hours = case.config["activeHours"] or {}
    part = active_part(
        hours.get("start"), hours.get("end"), hours.get("timezone"), ZoneInfo(case.config["userTimezone"])
    )
    return part is None or part.holds(case.input["nowMs"])


def _interval(case: Case) -> int | None:
    every = case.input["every"]
    if every is None:
        return 1_800_000
    try:
        found = TypeAdapter(Minutes).validate_python(every)
    except ValidationError:
        return None
    return found // timedelta(milliseconds=1) or None


def _visible(case: Case) -> dict[str, bool]:
    raw = case.input["cfg"].get("channels") or {}
    channels = {name: Channel.model_validate(value) for name, value in raw.items()}
    found = visibility_of(channels, case.input["channel"], case.input.get("accountId"))
    return {"showOk": found.show_ok, "showAlerts": found.show_alerts, "useIndicator": found.use_indicator}


def _events(case: Case) -> dict[str, bool]:
    found = event_kind(case.input["text"])
    return {"ack": found.ack, "noise": found.noise, "exec": found.exec_done, "cron": found.reminder}


def _reply(case: Case) -> dict[str, Any]:
    payload = case.input["payload"]
    media = bool(payload.get("mediaUrl") or payload.get("mediaUrls"))
    found = normalise_reply(
        payload.get("text") or "",
        prefix=case.config.get("responsePrefix"),
        ack_max_chars=case.config["ackMaxChars"],
        has_media=media,
    )
    return {"shouldSkip": found.skip, "text": found.text, "hasMedia": found.has_media}


def _defer(case: Case) -> dict[str, Any]:
    given, limits = case.input, case.config
    found = deferral(
        given["intent"],
        given["now"],
        next_due_ms=given.get("nextDueMs"),
        last_start_ms=given.get("lastRunStartedAtMs"),
        recent_starts_ms=given.get("recentRunStarts") or (),
        work_retained=bool(given.get("hasRetainedWork") or given.get("retainedWork")),
        min_spacing_ms=limits["minSpacingMs"],
        flood_window_ms=limits["floodWindowMs"],
        flood_starts=limits["floodThreshold"],
    )
    if found is None:
        return {"defer": False}
    return {"defer": True, "reason": found.reason, "retryAtMs": found.retry_at_ms}


def _due(case: Case) -> bool:
    job = Job(case.input["job"])
    if "runningAtMs" in job.state:
        return False
    if case.config.get("forced"):
        return True
    due = job.state.get("nextRunAtMs")
    return job.enabled and due is not None and due <= case.input["nowMs"]


def _runnable(case: Case) -> bool:
    """Due, or a slot was missed: a plan with the last run as the newest slot that has an outcome."""
    job = Job(case.input["job"])
    now, last = case.input["nowMs"], job.state.get("lastRunAtMs")
    if not job.is_recurring:
        return job.state.get("lastStatus") != "ok" and plan_job(job, Watch(now, now), Cron()).run is not None
    due = job.state.get("nextRunAtMs")
    if due is not None and due <= now:
        return True
    if last is None or job.raw["schedule"]["kind"] != "cron":
        return False
    known = Job({**job.raw, "createdAtMs": 0, "updatedAtMs": 0})
    return plan_job(known, Watch(now, now, settled_ms=last), Cron()).run is not None


def _apply(case: Case) -> dict[str, Any]:
    given = case.input
    result = given["result"]
    done = RunResult(result["status"], result["startedAt"], result["endedAt"], result.get("error"))
    before = Job(given["job"])
    applied = apply_result(before, done, Cron(), given["nowMs"])
    job = applied.job or before
    state: Mapping[str, Any] = job.state if applied.job else {"consecutiveErrors": 0, "lastStatus": done.status}
    return {
        "shouldDelete": applied.job is None,
        "enabled": job.enabled,
        "state": {
            "consecutiveErrors": state.get("consecutiveErrors"),
            "nextRunAt": _iso(state.get("nextRunAtMs")),
            "lastStatus": state.get("lastStatus"),
            "lastDurationMs": state.get("lastDurationMs", done.ended_ms - done.started_ms),
            "alerted": applied.alert is not None,
        },
        "events": list(applied.notices),
    }


def _concurrency(case: Case) -> int:
    value = case.input["maxConcurrentRuns"]
    try:
        return Cron.model_validate({} if value is None else {"maxConcurrentRuns": int(value)}).max_concurrent_runs
    except ValidationError:
        return Cron().max_concurrent_runs


def _retention(case: Case) -> int | None:
    value = case.input["sessionRetention"]
    try:
        kept = Cron().session_retention if value is None else TypeAdapter(HoursOrNever).validate_python(value)
    except ValidationError:
        kept = Cron().session_retention
    return None if kept is None else kept // timedelta(milliseconds=1)


def _log_options(case: Case) -> dict[str, int]:
    raw = case.input["runLog"] or {}
    kept = RunLog()
    for key, value in raw.items():
        number = int(value) if isinstance(value, float) else value
        try:
            name = {"maxBytes": "max_bytes", "keepLines": "keep_lines"}[key]
            kept = kept.model_copy(update={name: getattr(RunLog.model_validate({key: number}), name)})
        except ValidationError:
            continue
    return {"maxBytes": kept.max_bytes, "keepLines": kept.keep_lines}


def _timeout(case: Case) -> float | None:
    return Job({"id": "job", "payload": case.input["payload"]}).timeout_ms()


def _prune(case: Case) -> list[str]:
    lines = [json.dumps({"n": n}, separators=(",", ":")) for n in range(case.input["lines"])]
    limits = case.config
    kept = prune_lines([line.encode() for line in lines], limits["maxBytes"], limits["keepLines"])
    return [line.decode() for line in kept]


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "strip_heartbeat_token": _strip,
    "strip_heartbeat_token_v9": _strip,
    "is_heartbeat_ack_v9": lambda case: is_ack(case.input["text"], case.config["maxAckChars"]),
    "is_heartbeat_content_effectively_empty": lambda case: is_effectively_empty(case.input["content"]),
    "is_heartbeat_content_effectively_empty_v9": lambda case: is_effectively_empty(case.input["content"]),
    "resolve_heartbeat_interval_ms": _interval,
    "is_within_active_hours": _active,
    "heartbeat_reason_kind": lambda case: {
        "kind": (kind := reason_kind(case.input["reason"])),
        "priority": priority(kind),
    },
    "heartbeat_event_filters": _events,
    "resolve_heartbeat_visibility": _visible,
    "normalize_heartbeat_reply": _reply,
    "should_defer_wake_v9": _defer,
    "heartbeat_phase_ms_v9": lambda case: phase_ms(
        case.input["schedulerSeed"], case.input["agentId"], case.input["intervalMs"]
    ),
    "compute_next_run": _next,
    "compute_next_run_v9": _next,
    "compute_previous_run": _previous,
    "default_cron_stagger_ms": lambda case: default_stagger_ms(case.input["expr"]) or None,
    "resolve_cron_stagger_ms": lambda case: stagger_ms(case.input["schedule"]),
    "stable_cron_offset_ms": lambda case: stagger_offset_ms(case.input["jobId"], case.input["staggerMs"]),
    "staggered_next_run": lambda case: _iso(_staggered(case).next_after(case.input["nowMs"])),
    "staggered_previous_run": lambda case: _iso(_staggered(case).last_before(case.input["nowMs"])),
    "job_next_run": lambda case: _iso(Job(case.input["job"]).next_run_ms(case.input["nowMs"])),
    "is_job_due": _due,
    "is_runnable_job": _runnable,
    "is_transient_cron_error": lambda case: (
        transient_cause(case.input["error"] or "", causes=case.config.get("retryOn")) is not None
    ),
    "error_backoff_ms": lambda case: error_backoff_ms(case.input["consecutiveErrors"]),
    "apply_job_result": _apply,
    "resolve_run_concurrency": _concurrency,
    "resolve_session_retention_ms": _retention,
    "resolve_run_log_prune_options": _log_options,
    "resolve_job_timeout_ms": _timeout,
    "validate_schedule_timestamp": lambda case: {
        "ok": check_new_schedule(case.input["schedule"], case.input["nowMs"]) is None
    },
    "parse_absolute_time_ms": lambda case: parse_absolute_ms(case.input["text"]),
    "safe_run_log_job_id": lambda case: {"ok": safe_job_id(case.input["jobId"])},
    "parse_run_log": lambda case: parse_run_log(case.input["text"].encode()),
    "prune_run_log": _prune,
}
