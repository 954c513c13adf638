"""What is scheduled and how it went, for status commands. Reads only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turngraph.scheduled.beat_state import BeatStates, read_seed
from turngraph.scheduled.intervals import MS, Intervals, reindex_every
from turngraph.schedules.heartbeat import rhythm_of

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import Settings


def beat_overview(home: Home, settings: Settings, now_ms: int) -> list[dict[str, Any]]:
    """Return the last heartbeat of each agent and the next one planned; the phase is known once serve has run.

    ``isNever``: no planned beat lies inside the active hours.
    """
    seed = read_seed(home)
    states = BeatStates(home)
    rows: list[dict[str, Any]] = []
    for agent_id in settings.agent_ids:
        chosen = settings.agent(agent_id)
        state = states.of(agent_id)
        anchored = chosen.heartbeat.anchor is not None
        rhythm = rhythm_of(chosen, seed or "") if seed or anchored else None
        following = rhythm.next_after(now_ms) if rhythm else None
        result = f"{state.last_status} ({state.last_reason})" if state.last_status else "-"
        rows.append(
            {
                "agent": agent_id,
                "everyMs": chosen.heartbeat.every // MS if chosen.beats else 0,
                "isNever": rhythm is not None and following is None,
                "lastMs": state.last_ms,
                "last": result,
                "failures": state.failures,
                "nextMs": following,
            }
        )
    return rows


def upkeep_overview(home: Home, settings: Settings) -> list[dict[str, Any]]:
    """Return when each index and the home were looked after last, and when that is due next."""
    intervals = Intervals(home)
    wanted = [
        (f"reindex {agent_id}", f"reindex:{agent_id}", reindex_every(settings.agent(agent_id)))
        for agent_id in settings.agent_ids
    ]
    wanted.append(("maintenance", "maintenance", settings.agent().serve.maintenance_every))
    return [
        {
            "what": what,
            "on": bool(every),
            "lastMs": intervals.last_ms(name),
            "nextMs": intervals.next_ms(name, every),
        }
        for what, name, every in wanted
    ]
