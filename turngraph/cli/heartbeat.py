"""``turngraph heartbeat``: run one by hand, and see when the next are due."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from turngraph.cli.job_view import span
from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    console,
    find_home,
    new_app,
    pick_agent,
    print_json,
    read_settings,
    table,
    warn,
)
from turngraph.clock import RandomIds, SystemClock, from_ms, to_ms

app = new_app("Run heartbeats by hand, and see when the next are due.")


@app.command()
def run(
    home: HomeOption = None,
    agent: AgentOption = None,
    reason: Annotated[str, typer.Option("--reason", help="What asks for it: manual, wake, interval ...")] = "manual",
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Run one heartbeat now, in this process.

    Example: turngraph heartbeat run --reason wake
    """
    from flows.plain import PlainRunner
    from turngraph.api import Turngraph

    settings = read_settings(find_home(home), sets)
    opened = Turngraph(find_home(home), settings)
    runner = PlainRunner(lambda: opened, SystemClock())
    result = asyncio.run(runner.heartbeat(pick_agent(settings, agent), reason))
    if json:
        facts = {"status": result.status, "reason": result.reason, "text": result.text, "traceId": result.trace_id}
        print_json(facts)
    else:
        print(result.text or f"{result.status}: {result.reason}")
    if result.status == "failed":
        raise typer.Exit(3)


@app.command()
def status(home: HomeOption = None, sets: SetOption = None, json: JsonOption = False) -> None:
    """Show the last and the next heartbeats of each agent.

    Example: turngraph heartbeat status
    """
    from turngraph.scheduled.overview import beat_overview

    found = find_home(home)
    settings = read_settings(found, sets)
    rows = beat_overview(found, settings, to_ms(SystemClock().now()))
    if json:
        print_json({"agents": rows})
        return
    made = table("agent", "every", "last", "result", "next")
    for row in rows:
        zone = settings.agent(row["agent"]).zone
        every = span(row["everyMs"]) if row["everyMs"] else "off"
        made.add_row(row["agent"], every, _at(row["lastMs"], zone), row["last"], _at(row["nextMs"], zone))
    console().print(made)
    for row in rows:
        if row["isNever"]:
            warn(
                f"{row['agent']}: no planned beat lies inside the active hours; set heartbeat.anchor to a time in them"
            )


@app.command("import-tasks")
def import_tasks(
    home: HomeOption = None,
    agent: AgentOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Make the jobs; without it they are only listed.")] = False,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Make a job of each entry of the tasks: list in HEARTBEAT.md; the file stays as it is.

    Example: turngraph heartbeat import-tasks --yes
    """
    from stores.jobs import JobStore
    from turngraph.bootstrap_files import HEARTBEAT
    from turngraph.cli.job_options import new_record
    from turngraph.schedules.job import Job
    from turngraph.schedules.task_list import read_tasks

    found = find_home(home)
    chosen = (settings := read_settings(found, sets)).agent(pick_agent(settings, agent))
    path = found.workspace(chosen.agent_id, chosen) / HEARTBEAT
    listed = read_tasks(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "")
    store = JobStore.of_home(found, settings.agent())
    taken = {job.name for job in store.load().jobs}
    now = SystemClock().now()
    made = []
    for task in listed.tasks:
        if task.name not in taken:
            schedule = {"kind": "every", "everyMs": task.every_ms, "anchorMs": to_ms(now)}
            made.append(new_record(task.prompt, schedule=schedule, target="main", id_=RandomIds().uuid(), now=now))
            made[-1] |= {"name": task.name} | ({"agentId": chosen.agent_id} if agent else {})
            if yes:
                store.add(Job(made[-1]))
    if json:
        print_json({"jobs": made, "made": yes, "problems": listed.problems})
    else:
        for record in made:
            what = "made" if yes else "would make"
            print(f"{what} {record['name']}  (every {span(record['schedule']['everyMs'])})")
        if made:
            print(f"take them out of {path}, else heartbeats do them too" if yes else "to make them: --yes")
        if not listed.tasks:
            print(f"{path} holds no tasks: list")
    for problem in listed.problems:
        warn(f"{path.name}: {problem}")


def _at(at_ms: int | None, zone: Any) -> str:
    return "-" if at_ms is None else f"{from_ms(at_ms).astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"
