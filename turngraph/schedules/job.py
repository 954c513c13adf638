"""A job record as ``cron/jobs.json`` holds it: one frozen type around its raw mapping, with typed views.

What we do not know is kept and written back. Our own fields stand under the key ``turngraph``.
Source: spec/scheduling.md B1 and C2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turngraph.errors import ConfigError
from turngraph.schedules.schedule import (
    LEAST_EVERY_MS,
    At,
    Schedule,
    check_new_schedule,
    parse_absolute_ms,
    read_schedule,
)

OWN = "turngraph"
AGENT_TIMEOUT_MS = 3_600_000  # spec/scheduling.md B3
EVENT_TIMEOUT_MS = 600_000
RunStatus = Literal["ok", "error", "skipped"]
SINKS = {"session": "sessionKey", "file": "path", "command": "argv", "webhook": "url"}  # kind -> what it must name


@dataclass(frozen=True, slots=True)
class Job:
    """A job. ``raw`` is its record; it is never changed, :meth:`evolve` gives a new one."""

    raw: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.raw["id"])

    @property
    def name(self) -> str:
        return str(self.raw.get("name") or self.id)

    @property
    def agent_id(self) -> str | None:
        value = self.raw.get("agentId")
        return str(value) if value else None

    @property
    def enabled(self) -> bool:
        return self.raw.get("enabled") is not False

    @property
    def state(self) -> Mapping[str, Any]:
        return _mapping(self.raw.get("state"))

    @property
    def payload(self) -> Mapping[str, Any]:
        return _mapping(self.raw.get("payload"))

    @property
    def delivery(self) -> Mapping[str, Any]:
        return _mapping(self.raw.get("delivery"))

    @property
    def own(self) -> Mapping[str, Any]:
        """Our fields: catchUp, maxLateMs, notBeforeMs, sink."""
        return _mapping(self.raw.get(OWN))

    @property
    def target(self) -> str:
        return str(self.raw.get("sessionTarget") or "isolated")

    @property
    def wakes_now(self) -> bool:
        return self.raw.get("wakeMode") != "next-heartbeat"

    @property
    def is_recurring(self) -> bool:
        return _mapping(self.raw.get("schedule")).get("kind") != "at"

    @property
    def best_effort(self) -> bool:
        return self.delivery.get("bestEffort") is True

    @property
    def not_before_ms(self) -> int:
        """End of the back-off of a recurring job; 0 when there is none."""
        return _whole(self.own.get("notBeforeMs")) or 0

    @property
    def edited_ms(self) -> int:
        """When the job was made or last edited; runs do not count."""
        return max(_whole(self.raw.get("updatedAtMs")) or 0, _whole(self.raw.get("createdAtMs")) or 0)

    @property
    def schedule_text(self) -> str:
        """The schedule as text, to see whether it was edited."""
        return json.dumps(self.raw.get("schedule"), sort_keys=True)

    def schedule(self) -> Schedule | None:
        """Return when it is due; ``None`` when never.

        Raises:
            ConfigError: the schedule cannot be read.
        """
        created = _whole(self.raw.get("createdAtMs"))
        return read_schedule(_mapping(self.raw.get("schedule")), job_id=self.id, created_ms=created)

    def timeout_ms(self) -> float | None:
        """Return how long one run may take; ``None`` is without limit."""
        if self.payload.get("kind") != "agentTurn":
            return EVENT_TIMEOUT_MS
        seconds = self.payload.get("timeoutSeconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            return AGENT_TIMEOUT_MS
        return seconds * 1000 if seconds > 0 else None

    def next_run_ms(self, now_ms: float) -> int | None:
        """Return when it runs next, as the record stands; a one-shot that has not run keeps its past time.

        Raises:
            ConfigError: the schedule cannot be read.
        """
        schedule = self.schedule() if self.enabled else None
        if schedule is None:
            return None
        if isinstance(schedule, At):
            ran_ms = _whole(self.state.get("lastRunAtMs"))
            done = self.state.get("lastStatus") == "ok" and ran_ms is not None and schedule.at_ms <= ran_ms
            return None if done else max(schedule.at_ms, _retry_ms(self))
        return schedule.next_after(max(now_ms, self.not_before_ms - 1))

    def evolve(
        self, *, state: Mapping[str, Any] | None = None, own: Mapping[str, Any] | None = None, **fields: Any
    ) -> Job:
        """Return a copy; in ``state``, ``own`` and ``fields`` a value of ``None`` removes the key."""
        raw = _laid_over(self.raw, fields)
        if state is not None:
            raw["state"] = _laid_over(self.state, state)
        if own is not None:
            merged = _laid_over(self.own, own)
            raw = _laid_over(raw, {OWN: merged or None})
        return Job(raw)


def _retry_ms(job: Job) -> int:
    return (_whole(job.state.get("nextRunAtMs")) or 0) if job.state.get("lastStatus") == "error" else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value)


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**below, **above}
    return {key: value for key, value in merged.items() if value is not None or key not in above}


def check_job(raw: Any) -> tuple[str, ...]:
    """Return what makes a record unusable, one sentence each; nothing for a good one.

    Kinds of later releases are unusable here: the record is kept, and left alone.
    """
    if not isinstance(raw, Mapping):
        return ("the job is no object",)
    problems = []
    if not isinstance(raw.get("id"), str) or not is_job_id(raw["id"]):
        problems.append(f"id {raw.get('id')!r} is no usable id")
    payload, target = _mapping(raw.get("payload")), raw.get("sessionTarget") or "isolated"
    kind = payload.get("kind")
    if kind not in ("systemEvent", "agentTurn"):
        problems.append(f"payload kind {kind!r} is not supported; there are systemEvent and agentTurn")
    elif (target == "main") != (kind == "systemEvent"):
        problems.append(f"session target {target!r} does not go with payload {kind!r}: main takes systemEvent")
    if not isinstance(target, str) or not (target in ("main", "isolated", "current") or target.startswith("session:")):
        problems.append(f"session target {target!r} is none of main, isolated, session:<key>")
    problems += _check_delivery(raw, str(target))
    schedule = raw.get("schedule")
    if not isinstance(schedule, Mapping) or schedule.get("kind") not in ("at", "every", "cron"):
        kind = schedule.get("kind") if isinstance(schedule, Mapping) else schedule
        problems.append(f"schedule kind {kind!r} is not supported; there are at, every and cron")
    return tuple(problems)


def _check_delivery(raw: Mapping[str, Any], target: str) -> list[str]:
    delivery = _mapping(raw.get("delivery"))
    mode, problems = delivery.get("mode") or "none", []
    if mode not in ("none", "announce", "webhook"):
        problems.append(f"delivery mode {mode!r} is none of none, announce, webhook")
    if mode == "announce" and target == "main":
        problems.append("delivery announce does not go with session target main")
    if mode == "webhook" and not str(delivery.get("to") or "").startswith(("http://", "https://")):
        problems.append("delivery webhook needs an http or https address in delivery.to")
    sink = _mapping(raw.get(OWN)).get("sink")
    if sink is not None and (not isinstance(sink, Mapping) or not sink.get(SINKS.get(str(sink.get("kind")), ""))):
        problems.append("the sink needs a kind (session, file, command, webhook) and its sessionKey, path, argv or url")
    return problems


def check_new_job(raw: Mapping[str, Any], now_ms: float) -> tuple[str, ...]:
    """Return what is wrong with a job that is being made or whose schedule is being changed."""
    problems = list(check_job(raw))
    schedule = _mapping(raw.get("schedule"))
    every = _whole(schedule.get("everyMs"))
    if schedule.get("kind") == "every" and (every is None or every < LEAST_EVERY_MS):
        problems.append(f"an interval is at least {LEAST_EVERY_MS} ms")
    elif late := check_new_schedule(schedule, now_ms):
        problems.append(late)
    elif not problems:
        try:
            found = Job(raw).schedule()
        except ConfigError as error:
            problems.append(str(error))
        else:
            past = schedule.get("kind") == "at" and parse_absolute_ms(schedule.get("at"))
            if found is None or (not past and found.next_after(now_ms) is None):
                problems.append("the schedule is never due")
    return tuple(problems)


def is_job_id(text: str) -> bool:
    """Tell whether an id can name the files of a job."""
    return bool(text.strip()) and not any(char in text for char in "/\\\0") and text.strip() not in (".", "..")
