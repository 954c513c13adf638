"""How the command line shows a job: its schedule in words, and its next runs in two time zones."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from turngraph.clock import SystemClock, from_ms, to_ms
from turngraph.errors import ConfigError
from turngraph.schedules.schedule import read_zone

if TYPE_CHECKING:
    from turngraph.schedules.job import Job

SHOWN_RUNS = 5


def job_lines(job: Job, zone: tzinfo) -> list[str]:
    """Return a job with its next runs, in the job's zone and in the user's."""
    state = "disabled" if not job.enabled else f"last run {job.state.get('lastStatus', 'never')}"
    head = f"{job.id}  {job.name}  ({schedule_text(job)}; {state})"
    return [head, *(f"  {line}" for line in (next_runs(job, zone) if job.enabled else ()))]


def job_facts(job: Job) -> dict[str, Any]:
    """Return what ``--json`` says of a job."""
    return {
        "id": job.id,
        "name": job.name,
        "enabled": job.enabled,
        "schedule": job.raw["schedule"],
        "lastStatus": job.state.get("lastStatus"),
        "nextRunsMs": upcoming(job),
    }


def upcoming(job: Job, count: int = SHOWN_RUNS) -> list[int]:
    """Return the next runs of a job, as epoch milliseconds."""
    try:
        at = job.next_run_ms(to_ms(SystemClock().now()))
        schedule = job.schedule()
    except ConfigError:
        return []
    found: list[int] = []
    while at is not None and schedule is not None and len(found) < count:
        found.append(at)
        at = schedule.next_after(at)
    return found


def next_runs(job: Job, user_zone: tzinfo) -> list[str]:
    """Return the next runs in the job's zone and, where it is another one, in the user's."""
    try:
        own = read_zone(job.raw["schedule"].get("tz")) if job.raw["schedule"].get("tz") else user_zone
    except ConfigError as error:
        return [str(error)]
    lines = []
    for at_ms in upcoming(job):
        shown = when(at_ms, own)
        lines.append(shown if str(own) == str(user_zone) else f"{shown} = {when(at_ms, user_zone)}")
    return lines


def when(at_ms: Any, zone: tzinfo, *, named: bool = True) -> str:
    """Return a time in a zone, with the name of the zone unless ``named`` is false."""
    if not isinstance(at_ms, int | float):
        return "by hand"
    local = from_ms(at_ms).astimezone(zone)
    shown = f"{local:%a %Y-%m-%d %H:%M:%S}"
    return f"{shown} {getattr(zone, 'key', None) or f'{local:%Z}'}" if named else shown


def schedule_text(job: Job) -> str:
    """Return a schedule as people say it."""
    schedule = job.raw["schedule"]
    if schedule["kind"] == "every":
        return f"every {span(schedule.get('everyMs', 0))}"
    if schedule["kind"] == "at":
        return f"at {schedule.get('at')}"
    return f"{schedule.get('expr')} {schedule.get('tz', '')}".strip()


def span(ms: float) -> str:
    """Return a duration in its largest whole unit.

    >>> span(1_800_000), span(90_000)
    ('30m', '90s')
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms >= size and ms % size == 0:
            return f"{int(ms // size)}{unit}"
    return f"{ms:g}ms"
