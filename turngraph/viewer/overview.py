"""What the local page tells of a home: sessions with their turns, running turns, memory, schedules.

Reads only. Source: spec/seeing.md 2.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from stores.home import Home
from stores.jobs import JobStore
from stores.sessions import SessionStore, entry_facts
from stores.traces import TraceReader, spools
from turngraph.clock import DerivedIds, SystemClock, from_ms
from turngraph.config import AgentSettings
from turngraph.decisions import TurnTrace, acting_nodes
from turngraph.errors import TurngraphError

NEWEST_TURNS = 400  # looked at for the overview


def sessions_overview(home: Home, settings: AgentSettings) -> list[dict[str, Any]]:
    """Return the sessions of an agent, last used first, with what their traces tell."""
    store = SessionStore.of_agent(home, settings, SystemClock(), DerivedIds("read only"))
    rows = {key: entry_facts(key, entry) for key, entry in store.entries().items()}
    for trace in TraceReader(home.traces_dir).turns(agent=settings.agent_id, limit=NEWEST_TURNS):
        row = rows.setdefault(trace.session_key, {"key": trace.session_key})
        row["turns"] = row.get("turns", 0) + 1
        row["promptTokens"] = int(trace.facts.get("prompt_tokens") or 0)
        row["lastTurn"] = trace.started
    return sorted(rows.values(), key=_last_used, reverse=True)


def _last_used(row: Mapping[str, Any]) -> float:
    last = row.get("lastTurn")
    updated = row.get("updatedAt")
    seconds = updated / 1000 if isinstance(updated, (int, float)) else 0.0
    return max(seconds, last.timestamp() if isinstance(last, datetime) else 0.0)


def turn_rows(turns: list[TurnTrace]) -> Iterator[dict[str, Any]]:
    """Yield the turns of a session, oldest first, with the change from one to the next."""
    before = 0
    for trace in turns:
        tokens = int(trace.facts.get("prompt_tokens") or 0)
        yield {
            "turn": trace.turn,
            "trace": trace.trace_id,
            "started": trace.started.isoformat(timespec="seconds"),
            "tokens": tokens,
            "delta": tokens - before,
            "ms": sum(run.duration_ms for run in trace.nodes if ":" not in run.node),
            "decided": sorted(acting_nodes(decision for _, decision in trace.decisions)),
            "reply": trace.facts.get("reply"),
            "error": trace.facts.get("error"),
        }
        before = tokens


def running(home: Home) -> list[dict[str, Any]]:
    """Return the turns that run now, in any process."""
    return [
        {"session": str(spool.header["session_key"]), "started": str(spool.header["started"]), "trace": spool.trace_id}
        for spool in spools(home.traces_dir / "live")
        if not spool.is_dead
    ]


def schedules(home: Home, settings: AgentSettings) -> dict[str, Any]:
    """Return heartbeat settings and cron jobs with their state; what cannot be read is said."""
    beat = settings.heartbeat
    found: dict[str, Any] = {
        "heartbeat": {"every": str(beat.every) if beat.every else "off"},
        "jobs": [],
        "problem": None,
    }
    try:
        loaded = JobStore.of_home(home, settings).load()
    except (OSError, TurngraphError) as error:
        return {**found, "problem": str(error)}
    for row in loaded.rows:
        if isinstance(row, Mapping):
            found["jobs"].append(_job(row))
    return found


def _job(row: Mapping[str, Any]) -> dict[str, Any]:
    state = row.get("state")
    known = state if isinstance(state, Mapping) else {}
    schedule = row.get("schedule")
    return {
        "name": str(row.get("name") or row.get("id") or ""),
        "enabled": row.get("enabled") is not False,
        "schedule": " ".join(f"{key}={value}" for key, value in schedule.items())
        if isinstance(schedule, Mapping)
        else "",
        "next": _time(known.get("nextRunAtMs")),
        "last": _time(known.get("lastRunAtMs")),
        "status": str(known.get("lastStatus") or known.get("lastRunStatus") or ""),
    }


def _time(ms: Any) -> str:
    return from_ms(ms).isoformat(timespec="seconds") if isinstance(ms, (int, float)) else ""


def search_memory(home: Home, settings: AgentSettings, query: str) -> dict[str, Any]:
    """Search memory and sessions of an agent; each hit explains its score.

    The index is read as it is: a page that looks never makes one.
    """
    from stores.memory.index import MemoryIndex

    index = MemoryIndex.open(home, settings.agent_id, settings)
    try:
        if not index.database.exists:
            return {"hits": [], "problem": "Nothing is indexed yet: run `turngraph memory index`."}
        result = index.search(query, refresh=False)
    except TurngraphError as error:
        return {"hits": [], "problem": str(error)}
    finally:
        index.close()
    hits = [{**asdict(hit), "explanation": asdict(hit.explanation)} for hit in result.hits]
    return {"hits": hits, "mode": result.mode, "files": result.files, "tookMs": result.took_ms, "problem": result.stale}
