"""Builders for scheduled work: a home with a scripted model, a clock to move, jobs in one line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flows.dispatcher import Dispatcher
from flows.plain import PlainRunner
from stores.home import Home
from stores.jobs import JobStore
from stores.transcripts import Transcript
from turngraph.api import Agent, Turngraph
from turngraph.clock import DerivedIds, FixedClock, to_ms
from turngraph.config import load_settings
from turngraph.models.scripted import ScriptedModel
from turngraph.schedules.job import Job

MAIN = "agent:main:main"
QUIET = ("agents.defaults.heartbeat.every=0", "serve.reindexEvery=0", "serve.maintenanceEvery=0")


class ScriptedHome(Turngraph):
    """A home whose agents all speak with one scripted model."""

    model: ScriptedModel
    clock: FixedClock

    def agent(self, agent_id: str | None = None, **overrides: Any) -> Agent:
        return super().agent(agent_id, **{**overrides, "model": self.model, "clock": self.clock, "tools": ()})


class Bench:
    """A home, its jobs and its dispatcher."""

    def __init__(self, root: Path, sets: tuple[str, ...] = QUIET, *, at: str = "2026-03-16T12:00:00") -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "turngraph.json5").write_text("{}")
        self.root, self.sets = root, sets
        self.clock = FixedClock(datetime.fromisoformat(at).replace(tzinfo=UTC))
        self.model = ScriptedModel(then="done")
        self.ids = DerivedIds("bench")
        self.home = self._open(root)
        self.agent = self.home.agent()
        self.store = JobStore.of_home(self.home.home, self.home.settings.agent())
        self.dispatcher = self.restart()

    def _open(self, root: Path) -> ScriptedHome:
        home = ScriptedHome(Home(root), load_settings(root, sets=self.sets, env={}))
        home.model, home.clock = self.model, self.clock
        return home

    def restart(self) -> Dispatcher:
        """Begin as a new process would; returns the new dispatcher."""
        runner = PlainRunner(lambda: self.dispatcher.home, self.clock)
        self.dispatcher = Dispatcher(self.home, runner, self.clock, self.ids, self._open)
        self.dispatcher.recover()
        return self.dispatcher

    def add(self, id_: str, schedule: dict[str, Any], **fields: Any) -> Job:
        """Add a job that asks the agent something, in a session of its own."""
        job = self.add_raw(id_, schedule, **fields)
        self.store.add(job)
        return job

    def add_raw(self, id_: str, schedule: dict[str, Any], **fields: Any) -> Job:
        """Return such a job without storing it."""
        raw = {
            "id": id_,
            "name": id_,
            "enabled": True,
            "createdAtMs": self.now_ms,
            "updatedAtMs": self.now_ms,
            "schedule": schedule,
            "sessionTarget": "isolated",
            "wakeMode": "now",
            "payload": {"kind": "agentTurn", "message": "What is new?"},
            "state": {},
        }
        return Job(raw | fields)

    def job(self, id_: str) -> Job:
        return self.store.load().find(id_)

    @property
    def now_ms(self) -> int:
        return to_ms(self.clock.now())

    async def tick(self, **later: float) -> None:
        """Move the clock, tick once, and wait for what was started."""
        self.clock.advance(timedelta(**later))
        await self.dispatcher.tick()
        await self.dispatcher.settled()

    def go_to(self, at: str) -> None:
        """Set the clock."""
        self.clock.at = datetime.fromisoformat(at).replace(tzinfo=UTC)

    def outcomes(self, id_: str) -> list[str]:
        """Return what the ledger says of slots, claims left out."""
        return [str(line["event"]) for line in self.store.ledger.read(id_).lines if line["event"] != "claimed"]

    def spoken(self, key: str = MAIN) -> list[tuple[str, str]]:
        """Return role and text of the messages of a session on disk."""
        store = self.agent.sessions()
        entry = store.get(key)
        if not entry:
            return []
        transcript = Transcript.open(
            store.transcript_of(entry),
            session_id=str(entry["sessionId"]),
            clock=self.clock,
            ids=self.ids,
            full=True,
            read_only=True,
        )
        messages = [transcript.message(item) for item in transcript.entries() if item.type == "message"]
        return [(message.role, message.text) for message in messages]


def every(seconds: int) -> dict[str, Any]:
    return {"kind": "every", "everyMs": seconds * 1000}


def cron(expr: str, tz: str = "UTC", **fields: Any) -> dict[str, Any]:
    return {"kind": "cron", "expr": expr, "tz": tz, "staggerMs": 0, **fields}
