"""What the result of a run does to its job: state, retries, back-off, alerts, the end of a one-shot.

Source: spec/scheduling.md B4.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.config.schema_schedule import Cron as CronSettings
from turngraph.config.schema_schedule import RetryCause
from turngraph.errors import ConfigError, ModelErrorKind
from turngraph.schedules.job import Job, RunStatus

BACKOFF_MS = (30_000, 60_000, 300_000, 900_000, 3_600_000)
SCHEDULE_ERRORS = 3  # in a row; then the job is disabled
FAILED_RUNS = 10  # in a row, of a recurring job
REFIRE_GAP_MS = 2_000  # a cron job does not start again within two seconds of its end
SHOWN_ERROR_CHARS = 200

_CAUSES: dict[RetryCause, re.Pattern[str]] = {
    "rate_limit": re.compile(r"rate[ _-]?limit|\b429\b|too many requests|resource.exhausted|cloudflare|tokens per day"),
    "overloaded": re.compile(r"\b529\b|overloaded|high demand|capacity exceeded"),
    "network": re.compile(r"network|econnreset|econnrefused|fetch failed|socket"),
    "timeout": re.compile(r"timeout|timed out|etimedout"),
    "server_error": re.compile(r"(?:http|status|code|error)\D{0,12}\b5[0-9]{2}\b|^\s*5[0-9]{2}\b"),
}
_KINDS: dict[ModelErrorKind, RetryCause | None] = {
    "rate": "rate_limit",
    "network": "network",
    "timeout": "timeout",
    "server": "server_error",
    "auth": None,
    "quota": None,
    "bad_request": None,
    "missing": None,
    "overflow": None,
}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    Attributes:
        started_ms, ended_ms: when.
        error: what went wrong, as text; ``error_kind`` its class, where known.
        delivery: delivered, not-delivered, unknown or not-requested.
        delivery_error: why nothing was delivered.
        forced: a run by hand, which moves no schedule.
    """

    status: RunStatus
    started_ms: int
    ended_ms: int
    error: str | None = None
    error_kind: ModelErrorKind | None = None
    delivery: str = "not-requested"
    delivery_error: str | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """A job after a run.

    Attributes:
        job: the new record; ``None`` when it is to be deleted.
        alert: what to tell about repeated failures.
        notices: what else the user is told.
    """

    job: Job | None
    alert: str | None = None
    notices: tuple[str, ...] = ()


def error_backoff_ms(consecutive_errors: int) -> int:
    """Return the pause after so many failures in a row."""
    return BACKOFF_MS[max(0, min(consecutive_errors, len(BACKOFF_MS)) - 1)]


def transient_cause(
    error: str, kind: ModelErrorKind | None = None, causes: Collection[RetryCause] | None = None
) -> RetryCause | None:
    """Return why another try may help; ``None`` when it will not.

    The class of an error decides where it is known, its text otherwise.
    """
    wanted = _CAUSES if causes is None else causes
    if kind in _KINDS:
        cause = _KINDS[kind]
        return cause if cause in wanted else None
    text = error.lower()
    return next((cause for cause, pattern in _CAUSES.items() if cause in wanted and pattern.search(text)), None)


def apply_result(job: Job, result: RunResult, settings: CronSettings, now_ms: int) -> Applied:
    """Return the job as it stands after a run."""
    failed = result.status == "error"
    errors = (int(job.state.get("consecutiveErrors") or 0) + 1) if failed else 0
    state: dict[str, Any] = {
        "runningAtMs": None,
        "lastRunAtMs": result.started_ms,
        "lastRunStatus": result.status,
        "lastStatus": result.status,
        "lastError": result.error,
        "lastErrorReason": transient_cause(result.error or "", result.error_kind) if failed else None,
        "lastDurationMs": max(0, result.ended_ms - result.started_ms),
        "consecutiveErrors": errors,
        "lastDelivered": result.delivery == "delivered" if result.delivery != "unknown" else None,
        "lastDeliveryStatus": result.delivery,
        "lastDeliveryError": result.delivery_error,
    }
    alert = _alert(job, result, settings, errors, now_ms) if failed else None
    if alert:
        state["lastFailureAlertAtMs"] = now_ms
    elif not failed:
        state["lastFailureAlertAtMs"] = None
    if not job.is_recurring:
        return _one_shot(job, result, settings, state, errors, alert)
    return _recurring(job, result, state, errors, alert)


def _one_shot(
    job: Job, result: RunResult, settings: CronSettings, state: dict[str, Any], errors: int, alert: str | None
) -> Applied:
    if result.status == "ok" and job.raw.get("deleteAfterRun") is True:
        return Applied(None, alert)
    retry = settings.retry
    transient = transient_cause(result.error or "", result.error_kind, retry.retry_on)
    if result.status == "error" and transient and errors <= retry.max_attempts and retry.backoff_ms:
        wait_ms = retry.backoff_ms[min(errors, len(retry.backoff_ms)) - 1]
        state["nextRunAtMs"] = result.ended_ms + wait_ms
        return Applied(job.evolve(state=state), alert)
    state["nextRunAtMs"] = None
    return Applied(job.evolve(state=state, enabled=False), alert)


def _recurring(job: Job, result: RunResult, state: dict[str, Any], errors: int, alert: str | None) -> Applied:
    if errors >= FAILED_RUNS and job.enabled:
        state["nextRunAtMs"] = None
        notice = f'Cron job "{job.name}" is disabled: it failed {errors} times in a row. Last error: {_short(result)}'
        return Applied(job.evolve(state=state, enabled=False), alert, (notice,))
    not_before = result.ended_ms + error_backoff_ms(errors) if errors else None
    changed = job.evolve(state=state, own={"notBeforeMs": not_before})
    try:
        schedule = job.schedule() if job.enabled else None
    except ConfigError as error:
        return schedule_failed(changed, str(error))
    natural = schedule.next_after(result.ended_ms) if schedule else None
    if natural is not None and not_before is not None:
        natural = max(natural, not_before)
    elif natural is not None and job.raw["schedule"].get("kind") == "cron":
        natural = max(natural, result.ended_ms + REFIRE_GAP_MS)
    return Applied(changed.evolve(state={"nextRunAtMs": natural, "scheduleErrorCount": None}), alert)


def schedule_failed(job: Job, problem: str) -> Applied:
    """Return a job whose next run could not be worked out: the third time in a row disables it."""
    count = int(job.state.get("scheduleErrorCount") or 0) + 1
    state = {"nextRunAtMs": None, "scheduleErrorCount": count, "lastError": f"schedule error: {problem}"}
    if count < SCHEDULE_ERRORS:
        return Applied(job.evolve(state=state))
    notice = f'Cron job "{job.name}" is disabled: its schedule cannot be read ({problem})'
    return Applied(job.evolve(state=state, enabled=False), None, (notice,))


def _alert(job: Job, result: RunResult, settings: CronSettings, errors: int, now_ms: int) -> str | None:
    own = job.raw.get("failureAlert")
    if own is False or (not isinstance(own, Mapping) and not settings.failure_alert.enabled) or job.best_effort:
        return None
    rules = own if isinstance(own, Mapping) else {}
    after = int(rules.get("after") or settings.failure_alert.after)
    cooldown_ms = rules.get("cooldownMs", settings.failure_alert.cooldown_ms)
    last_ms = job.state.get("lastFailureAlertAtMs")
    if errors < after or (last_ms is not None and now_ms - last_ms < cooldown_ms):
        return None
    return f'Cron job "{job.name}" failed {errors} times\nLast error: {_short(result)}'


def _short(result: RunResult) -> str:
    return (result.error or "unknown")[:SHOWN_ERROR_CHARS]
