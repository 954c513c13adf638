"""Where the result of a job goes, and where its failures go.

Without a connector for channels, what is announced is put into a session: the one that is named, else the main one.
Source: spec/scheduling.md B1, B4 and C2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turngraph.session_keys import main_session_key, parse_key

if TYPE_CHECKING:
    from turngraph.api import Agent
    from turngraph.schedules.job import Job

Sink = Mapping[str, Any]


def result_sink(agent: Agent, job: Job) -> Sink | None:
    """Return where the result of a run goes; ``None`` is nowhere."""
    own = job.own.get("sink")
    if isinstance(own, Mapping):
        return own
    mode = job.delivery.get("mode")
    if mode in ("webhook", "announce"):
        return _sink(agent, mode, job.delivery.get("to") if mode == "webhook" else None)
    legacy = agent.settings.cron.webhook
    return {"kind": "webhook", "url": legacy} if legacy and job.raw.get("notify") is True else None


def alert_sink(agent: Agent, job: Job) -> Sink | None:
    """Return where an alert about repeated failures goes: what it names itself, else where the results go.

    ``None`` leaves it to the agent's next turn.
    """
    own = job.raw.get("failureAlert")
    rules = own if isinstance(own, Mapping) else {}
    mode = rules.get("mode") or agent.settings.cron.failure_alert.mode
    to = rules.get("to")
    if to or rules.get("channel"):
        return _sink(agent, mode, to)
    return result_sink(agent, job)


def failure_sink(agent: Agent, job: Job) -> Sink | None:
    """Return where each failed run is told: ``delivery.failureDestination``, else ``cron.failureDestination``."""
    own = job.delivery.get("failureDestination")
    wanted = agent.settings.cron.failure_destination.model_dump() if not isinstance(own, Mapping) else own
    mode, to = wanted.get("mode"), wanted.get("to")
    if not (mode or to or wanted.get("channel")) or mode == "none":
        return None
    if job.target == "main" and mode != "webhook":
        return None
    return _sink(agent, mode, to)


def _sink(agent: Agent, mode: Any, to: Any) -> Sink:
    if mode == "webhook":
        return {"kind": "webhook", "url": str(to or "")}
    named = isinstance(to, str) and parse_key(to) is not None
    key = to if named else main_session_key(agent.id, agent.settings.session.main_key)
    return {"kind": "session", "sessionKey": key}
