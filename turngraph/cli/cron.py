"""``turngraph cron``: make, list, change and run scheduled jobs."""

from __future__ import annotations

import asyncio
import shutil
import sys
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turngraph.cli.job_view import job_facts, job_lines, next_runs, when
from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    find_home,
    new_app,
    pick_agent,
    print_json,
    read_settings,
    warn,
)
from turngraph.clock import RandomIds, SystemClock, to_ms
from turngraph.errors import ConfigError
from turngraph.text import head

if TYPE_CHECKING:
    from stores.jobs import JobStore
    from turngraph.config import Settings
    from turngraph.schedules.job import Job

app = new_app("Make, list, change and run scheduled jobs.")

JobArgument = Annotated[str, typer.Argument(help="Id of a job, the beginning of one, or its name.")]
EveryOption = Annotated[str | None, typer.Option("--every", help="Interval: 30m, 90s, 1h30m.")]
CronOption = Annotated[str | None, typer.Option("--cron", help='Cron expression: "0 9 * * 1-5".')]
AtOption = Annotated[str | None, typer.Option("--at", help="Once: 2026-12-24T18:00, or 20m from now.")]
ZoneOption = Annotated[str | None, typer.Option("--tz", help="Time zone of --cron and --at; else the user's.")]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the job.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="Model, as provider:model.")]
TimeoutOption = Annotated[float | None, typer.Option("--timeout", help="Seconds that a run may take; 0 for no limit.")]
CatchUpOption = Annotated[
    Literal["one", "none"] | None, typer.Option("--catch-up", help="After a stop: the newest missed slot, or none.")
]
MaxLateOption = Annotated[str | None, typer.Option("--max-late", help="How late a slot may start: 10m.")]
AnnounceOption = Annotated[bool, typer.Option("--announce", help="Put the result into the main session.")]
ToSessionOption = Annotated[str | None, typer.Option("--to-session", help="Put the result into this session.")]
ToFileOption = Annotated[str | None, typer.Option("--to-file", help="Append the result to a file of the workspace.")]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="With --to-file: replace the file.")]
ToCommandOption = Annotated[str | None, typer.Option("--to-command", help="Give the result to a command's input.")]
WebhookOption = Annotated[str | None, typer.Option("--webhook", help="POST the finished event to this address.")]


@app.command()
def add(
    text: Annotated[str, typer.Argument(help="What the agent is asked, or the reminder with --main.")],
    every: EveryOption = None,
    cron: CronOption = None,
    at: AtOption = None,
    tz: ZoneOption = None,
    name: NameOption = None,
    main: Annotated[bool, typer.Option("--main", help="A reminder in the main session, not a run of its own.")] = False,
    session: Annotated[str | None, typer.Option("--session", help="Session that keeps the runs' context.")] = None,
    agent: AgentOption = None,
    model: ModelOption = None,
    timeout: TimeoutOption = None,
    light: Annotated[bool, typer.Option("--light", help="Run without the bootstrap files.")] = False,
    announce: AnnounceOption = False,
    to_session: ToSessionOption = None,
    to_file: ToFileOption = None,
    replace: ReplaceOption = False,
    to_command: ToCommandOption = None,
    webhook: WebhookOption = None,
    best_effort: Annotated[bool, typer.Option("--best-effort", help="A failed delivery is no failure.")] = False,
    catch_up: CatchUpOption = None,
    max_late: MaxLateOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a one-shot job after its run.")] = False,
    disabled: Annotated[bool, typer.Option("--disabled", help="Do not run it yet.")] = False,
    home: HomeOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Make a job.

    Example: turngraph cron add "Summarise my mail" --cron "0 9 * * 1-5" --tz Asia/Shanghai --announce
    """
    from turngraph.cli.job_options import destination_of, new_record, own_fields, schedule_of
    from turngraph.schedules.job import Job, check_new_job

    store, settings = _store(home, sets)
    chosen = settings.agent(pick_agent(settings, agent))
    now = SystemClock().now()
    schedule = schedule_of(every=every, cron=cron, at=at, tz=tz, user_zone=chosen.zone, now=now)
    if schedule is None:
        raise ConfigError("say when: --every 30m, --cron '0 9 * * 1-5' or --at 2026-12-24T18:00")
    delivery, sink = destination_of(
        session=to_session, file=to_file, replace=replace, command=to_command, webhook=webhook, announce=announce
    )
    raw = new_record(
        text,
        schedule=schedule,
        target="main" if main else f"session:{session}" if session else "isolated",
        delivery=delivery | ({"bestEffort": True} if best_effort else {}),
        own=own_fields(catch_up, max_late) | ({"sink": sink} if sink else {}),
        payload={"model": model, "timeoutSeconds": timeout, "lightContext": light or None},
        id_=RandomIds().uuid(),
        now=now,
    )
    raw |= {"name": name or raw["name"], "enabled": not disabled} | ({"agentId": chosen.agent_id} if agent else {})
    if schedule["kind"] == "at":
        raw["deleteAfterRun"] = not keep
    if problems := check_new_job(raw, to_ms(now)):
        raise ConfigError("this cannot be a job:", problems)
    job = Job(raw)
    job = job.evolve(state={"nextRunAtMs": job.next_run_ms(to_ms(now))})
    store.add(job)
    if json:
        print_json(dict(job.raw))
        return
    print(f"{job.id}  {job.name}")
    for line in next_runs(job, chosen.zone):
        print(f"  {line}")
    _say_whether_served(home)


@app.command("list")
def list_jobs(home: HomeOption = None, sets: SetOption = None, json: JsonOption = False) -> None:
    """List the jobs with their next five runs, in the job's zone and in the user's.

    Example: turngraph cron list
    """
    store, settings = _store(home, sets)
    loaded = store.load()
    for problem in loaded.unusable:
        warn(f"{store.path.name}: {problem}")
    zone = settings.agent().zone
    if json:
        print_json({"jobs": [job_facts(job) for job in loaded.jobs], "unusable": list(loaded.unusable)})
        return
    for job in loaded.jobs:
        print("\n".join(job_lines(job, zone)))


@app.command()
def show(job: JobArgument, home: HomeOption = None, sets: SetOption = None, json: JsonOption = False) -> None:
    """Show the record of a job, its next runs and what became of its last slots.

    Example: turngraph cron show mail
    """
    store, settings = _store(home, sets)
    found = store.load().find(job)
    slots = list(store.ledger.read(found.id).lines)[-10:]
    if json:
        print_json({**job_facts(found), "record": dict(found.raw), "slots": slots})
        return
    print_json(dict(found.raw))
    for line in next_runs(found, settings.agent().zone):
        print(f"next  {line}")
    for slot in slots:
        if slot.get("event") != "claimed":
            print(f"slot  {when(slot.get('slotMs'), settings.agent().zone)}  {slot['event']}  {slot.get('reason', '')}")


@app.command()
def edit(
    job: JobArgument,
    text: Annotated[str | None, typer.Option("--text", help="What the agent is asked, or the reminder.")] = None,
    every: EveryOption = None,
    cron: CronOption = None,
    at: AtOption = None,
    tz: ZoneOption = None,
    name: NameOption = None,
    model: ModelOption = None,
    timeout: TimeoutOption = None,
    announce: AnnounceOption = False,
    to_session: ToSessionOption = None,
    to_file: ToFileOption = None,
    replace: ReplaceOption = False,
    to_command: ToCommandOption = None,
    webhook: WebhookOption = None,
    no_delivery: Annotated[bool, typer.Option("--no-delivery", help="Deliver the result to nobody.")] = False,
    catch_up: CatchUpOption = None,
    max_late: MaxLateOption = None,
    home: HomeOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Change a job; a serve that is running sees it with its next tick.

    Example: turngraph cron edit mail --every 15m
    """
    from turngraph.cli.job_options import destination_of, own_fields, schedule_of
    from turngraph.schedules.job import check_new_job

    store, settings = _store(home, sets)
    found = store.load().find(job)
    now = SystemClock().now()
    zone = settings.agent().zone
    schedule = schedule_of(every=every, cron=cron, at=at, tz=tz, user_zone=zone, now=now)
    if schedule is None and tz:
        schedule = {**found.raw["schedule"], "tz": tz}
    delivery, sink = destination_of(
        session=to_session, file=to_file, replace=replace, command=to_command, webhook=webhook, announce=announce
    )
    sends = no_delivery or announce or sink is not None

    def change(known: Job) -> Job:
        payload = dict(known.payload)
        if text is not None:
            payload["text" if payload.get("kind") == "systemEvent" else "message"] = text
        payload |= {key: value for key, value in (("model", model), ("timeoutSeconds", timeout)) if value is not None}
        own: dict[str, Any] = own_fields(catch_up, max_late) | ({"sink": sink} if sends else {})
        fields: dict[str, Any] = {"payload": payload, "updatedAtMs": to_ms(now)}
        fields |= {"name": name} if name else {}
        fields |= {"schedule": schedule} if schedule else {}
        fields |= {"delivery": {**known.delivery, "to": None, **delivery}} if sends else {}
        changed = known.evolve(own=own | ({"notBeforeMs": None} if schedule else {}), **fields)
        problems = check_new_job(changed.raw, to_ms(now)) if schedule else ()
        if problems:
            raise ConfigError("the job would be unusable:", problems)
        return changed.evolve(state={"nextRunAtMs": changed.next_run_ms(to_ms(now))})

    _print_changed(store.update(found.id, change), zone, json)


@app.command()
def enable(job: JobArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Let a job run again; slots that passed meanwhile are not caught up.

    Example: turngraph cron enable mail
    """
    _switch(job, home, True, json)


@app.command()
def disable(job: JobArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Keep a job, and do not run it.

    Example: turngraph cron disable mail
    """
    _switch(job, home, False, json)


@app.command()
def rm(job: JobArgument, home: HomeOption = None, json: JsonOption = False) -> None:
    """Delete a job; its run log and slots stay until their retention is over.

    Example: turngraph cron rm mail
    """
    store, _ = _store(home, None)
    found = store.load().find(job)
    store.change(lambda _: {found.id: None})
    if json:
        print_json({"removed": found.id})
    else:
        print(f"removed {found.id}  {found.name}")


@app.command()
def run(
    job: JobArgument,
    home: HomeOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Run a job now, in this process; its schedule does not move.

    Example: turngraph cron run mail
    """
    from flows.due_now import run_by_hand
    from flows.plain import PlainRunner
    from turngraph.api import Turngraph

    opened = Turngraph(find_home(home), read_settings(find_home(home), sets))
    done = asyncio.run(run_by_hand(PlainRunner(lambda: opened, SystemClock()), job))
    entry = dict(done.entry) if done else {}
    if json:
        print_json(entry)
    else:
        print(entry.get("summary") or entry.get("error") or entry.get("status", "the job is gone"))
    if entry.get("status") == "error":
        raise typer.Exit(3)


@app.command()
def runs(
    job: JobArgument,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="Show the newest N.")] = 50,
    status: Annotated[str | None, typer.Option("--status", help="ok, error or skipped.")] = None,
    text: Annotated[str, typer.Option("--text", help="Only runs whose summary or error holds this.")] = "",
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """List the finished runs of a job, the newest first.

    Example: turngraph cron runs mail --status error
    """
    store, settings = _store(home, None)
    loaded = store.load()
    known = [found for found in loaded.jobs if found.id == job or found.id.startswith(job) or found.name == job]
    job_id = known[0].id if len(known) == 1 else job
    found = store.logs.page(job_id, limit=limit, status=status, text=text)
    if json:
        print_json({"jobId": job_id, "runs": found})
        return
    zone = settings.agent().zone
    width = max(shutil.get_terminal_size().columns - 54, 20) if sys.stdout.isatty() else None
    for entry in found:
        result = " ".join(str(entry.get("error") or entry.get("summary") or "").split())
        started = when(entry.get("runAtMs"), zone, named=False)
        took = f"{entry.get('durationMs', 0) / 1000:.1f} s"
        facts = f"{entry.get('status', '-'):<8}{took:>7}  {entry.get('deliveryStatus', '-'):<13}"
        print(f"{started}  {facts}  {head(result, width) if width else result}".rstrip())
    if not found:
        warn(f"no runs of {job} yet; `turngraph cron list` shows when it is due")


def _store(home: Path | None, sets: list[str] | None) -> tuple[JobStore, Settings]:
    from stores.jobs import JobStore

    found = find_home(home)
    settings = read_settings(found, sets)
    return JobStore.of_home(found, settings.agent()), settings


def _switch(name: str, home: Path | None, on: bool, json: bool) -> None:
    store, settings = _store(home, None)
    now_ms = to_ms(SystemClock().now())
    found = store.load().find(name)

    def change(known: Job) -> Job:
        state = {"scheduleErrorCount": None, "consecutiveErrors": None} if on else {"nextRunAtMs": None}
        changed = known.evolve(enabled=on, updatedAtMs=now_ms, state=state)
        return changed.evolve(state={"nextRunAtMs": changed.next_run_ms(now_ms)})

    _print_changed(store.update(found.id, change), settings.agent().zone, json)


def _print_changed(job: Job | None, zone: tzinfo, json: bool) -> None:
    if job is None:
        return
    if json:
        print_json(dict(job.raw))
    else:
        print("\n".join(job_lines(job, zone)))


def _say_whether_served(home: Path | None) -> None:
    from flows.serve_lock import ServeLock

    if not ServeLock(find_home(home).root).is_held():
        warn("no `turngraph serve` runs on this home: start one, and the job runs")
