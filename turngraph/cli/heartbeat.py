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
from turngraph.clock import SystemClock, from_ms, to_ms

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


def _at(at_ms: int | None, zone: Any) -> str:
    return "-" if at_ms is None else f"{from_ms(at_ms).astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}"
