"""``turngraph status``: agents, sessions, next runs, last results and the state of the indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turngraph.cli.options import (
    HomeOption,
    JsonOption,
    SetOption,
    console,
    find_home,
    print_json,
    read_settings,
    table,
)
from turngraph.clock import RandomIds, SystemClock, from_ms, to_ms
from turngraph.errors import TurngraphError

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import Settings


def status(home: HomeOption = None, sets: SetOption = None, json: JsonOption = False) -> None:
    """Show what a home holds, what runs next and how the last runs went.

    Example: turngraph status
    """
    from flows.serve_lock import ServeLock
    from turngraph.scheduled.overview import beat_overview, upkeep_overview

    found = find_home(home)
    settings = read_settings(found, sets)
    now_ms = to_ms(SystemClock().now())
    lock = ServeLock(found.root)
    facts: dict[str, Any] = {
        "home": str(found.root),
        "served": lock.holder() if lock.is_held() else None,
        "agents": [_agent(found, settings, agent_id) for agent_id in settings.agent_ids],
        "heartbeats": beat_overview(found, settings, now_ms),
        "jobs": _jobs(found, settings, now_ms),
        "upkeep": upkeep_overview(found, settings),
    }
    if json:
        print_json(facts)
        return
    print(f"{found.root}: {'served by ' + facts['served'] if facts['served'] else 'not served'}")
    agents = table("agent", "sessions", "last used", "index", "memory", right=("sessions",))
    for row in facts["agents"]:
        agents.add_row(row["agent"], str(row["sessions"]), _at(row["lastUsedMs"]), row["index"], row["memory"])
    console().print(agents)
    runs = table("scheduled", "last", "next")
    for beat in facts["heartbeats"]:
        runs.add_row(f"heartbeat {beat['agent']}", beat["last"], _at(beat["nextMs"]))
    for job in facts["jobs"]:
        last = f"{_at(job['lastMs'])} {job['last']}" if job["lastMs"] else job["last"]
        runs.add_row(job["name"], last, _at(job["nextMs"]) if job["enabled"] else "disabled")
    for row in facts["upkeep"]:
        runs.add_row(row["what"], _at(row["lastMs"]), _at(row["nextMs"]) if row["on"] else "off")
    console().print(runs)


def _agent(home: Home, settings: Settings, agent_id: str) -> dict[str, Any]:
    from stores.session_entries import updated_ms
    from stores.sessions import SessionStore

    chosen = settings.agent(agent_id)
    entries = SessionStore.of_agent(home, chosen, SystemClock(), RandomIds()).entries()
    used = max((updated_ms(entry) for entry in entries.values()), default=0)
    index, memory = _index(home, settings, agent_id)
    return {
        "agent": agent_id,
        "sessions": len(entries),
        "lastUsedMs": used or None,
        "reset": chosen.session.reset.mode if chosen.session.reset else "none",
        "index": index,
        "memory": memory,
    }


def _index(home: Home, settings: Settings, agent_id: str) -> tuple[str, str]:
    """Return the state of an index and what it holds; an index that cannot be read is no reason to fail."""
    from stores.memory.index import MemoryIndex

    index = MemoryIndex.open(home, agent_id, settings.agent(agent_id))
    try:
        known = index.status()
    except (TurngraphError, OSError) as error:
        return "cannot be read", str(error)
    finally:
        index.close()
    if not known.exists:
        return "none yet", _counted(known.on_disk, "file")
    dirty = known.added + known.changed + known.removed
    state = "clean" if not dirty else f"{_counted(dirty, 'file')} changed"
    return state, f"{_counted(known.files, 'file')}, {_counted(known.chunks, 'chunk')}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _jobs(home: Home, settings: Settings, now_ms: int) -> list[dict[str, Any]]:
    from stores.jobs import JobStore

    rows = []
    for job in JobStore.of_home(home, settings.agent()).load().jobs:
        try:
            next_ms = job.next_run_ms(now_ms)
        except TurngraphError:
            next_ms = None
        last = str(job.state.get("lastStatus") or "-")
        facts = {"id": job.id, "name": job.name, "enabled": job.enabled, "last": last, "nextMs": next_ms}
        rows.append(facts | {"lastMs": job.state.get("lastRunAtMs"), "error": job.state.get("lastError")})
    return rows


def _at(at_ms: float | None) -> str:
    return "-" if at_ms is None else f"{from_ms(at_ms).astimezone():%a %Y-%m-%d %H:%M:%S}"
