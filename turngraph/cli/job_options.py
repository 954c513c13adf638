"""Schedules and destinations as people write them on the command line, turned into fields of a job record."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from turngraph.clock import from_ms, iso_ms, to_ms
from turngraph.config.units import parse_duration_ms
from turngraph.errors import ConfigError
from turngraph.schedules.job import OWN
from turngraph.schedules.schedule import parse_absolute_ms, read_zone
from turngraph.text import head

NAME_CHARS = 40  # of a job that is named after what it asks


def schedule_of(
    *, every: str | None, cron: str | None, at: str | None, tz: str | None, user_zone: tzinfo, now: datetime
) -> dict[str, Any] | None:
    """Return the schedule that the options mean; ``None`` when they name none.

    A time without offset is meant in ``--tz``, else in the user's zone; ``--at 20m`` is twenty minutes from now.

    Raises:
        ConfigError: several are given, or one cannot be read.
    """
    given = [name for name, value in (("--every", every), ("--cron", cron), ("--at", at)) if value is not None]
    if len(given) > 1:
        raise ConfigError(f"give one of --every, --cron and --at, not {' and '.join(given)}")
    zone = read_zone(tz) if tz else user_zone
    if every is not None:
        return {"kind": "every", "everyMs": _duration_ms(every, "--every"), "anchorMs": to_ms(now)}
    if cron is not None:
        name = tz or getattr(user_zone, "key", None)
        return {"kind": "cron", "expr": cron, **({"tz": name} if name else {})}
    if at is not None:
        return {"kind": "at", "at": _moment(at, zone, now)}
    return None


def _moment(text: str, zone: tzinfo, now: datetime) -> str:
    try:
        return iso_ms(now + timedelta(milliseconds=parse_duration_ms(text.removeprefix("+"), "m")))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None:
        return iso_ms(moment.replace(tzinfo=zone).astimezone(UTC))
    at_ms = parse_absolute_ms(text)
    if at_ms is None:
        raise ConfigError(f"--at {text!r} is no time; write it as 2026-12-24T18:00 or as 20m")
    return iso_ms(from_ms(at_ms))


def _duration_ms(text: str, option: str) -> int:
    try:
        return parse_duration_ms(text, "m")
    except ValueError as error:
        raise ConfigError(f"{option} {text!r} is no duration; write it as 30m, 90s or 1h30m") from error


def destination_of(
    *, session: str | None, file: str | None, replace: bool, command: str | None, webhook: str | None, announce: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return ``delivery`` and our own sink for the destination that the options name.

    Raises:
        ConfigError: several are given.
    """
    sinks: list[dict[str, Any]] = []
    if session is not None:
        sinks.append({"kind": "session", "sessionKey": session})
    if file is not None:
        sinks.append({"kind": "file", "path": file, "mode": "replace" if replace else "append"})
    if command is not None:
        sinks.append({"kind": "command", "argv": shlex.split(command)})
    if webhook is not None:
        sinks.append({"kind": "webhook", "url": webhook})
    if len(sinks) + announce > 1:
        raise ConfigError("give one destination: --announce, --to-session, --to-file, --to-command or --webhook")
    if announce:
        return {"mode": "announce"}, None
    if webhook is not None:
        return {"mode": "webhook", "to": webhook}, sinks[0]
    return {"mode": "none"}, sinks[0] if sinks else None


def own_fields(catch_up: str | None, max_late: str | None) -> dict[str, Any]:
    """Return our fields of a job for catch-up and lateness."""
    fields: dict[str, Any] = {}
    if catch_up is not None:
        fields["catchUp"] = catch_up
    if max_late is not None:
        fields["maxLateMs"] = _duration_ms(max_late, "--max-late")
    return fields


def new_record(
    text: str,
    *,
    schedule: dict[str, Any],
    target: str,
    id_: str,
    now: datetime,
    delivery: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the record of a new job.

    Args:
        text: what the agent is asked; of a job of the main session the reminder.
        target: main, isolated or ``session:<key>``.
        own: our own fields, which stand under one key.
        payload: further fields of the payload; ``None`` leaves one out.
    """
    asked = {"kind": "systemEvent", "text": text} if target == "main" else {"kind": "agentTurn", "message": text}
    record: dict[str, Any] = {
        "id": id_,
        "name": head(" ".join(text.split()), NAME_CHARS),
        "enabled": True,
        "createdAtMs": to_ms(now),
        "updatedAtMs": to_ms(now),
        "schedule": schedule,
        "sessionTarget": target,
        "wakeMode": "now",
        "payload": asked | {name: value for name, value in (payload or {}).items() if value is not None},
        "delivery": dict(delivery or {}),
        "state": {},
    }
    return record | ({OWN: dict(own)} if own else {})
