"""System runs do not keep a session fresh (known-faults 1.3), and rotations leave their note (6.7)."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.scheduling import MAIN, Bench, every

SETS = (
    "agents.defaults.heartbeat.every=30m",
    "agents.defaults.heartbeat.anchor=00:00",
    "agents.defaults.heartbeat.target=last",
    "agents.defaults.userTimezone=UTC",
    "serve.reindexEvery=0",
    "serve.maintenanceEvery=0",
)
DAILY = ("session.reset.mode=daily", "session.reset.atHour=4")
IDLE = ("session.reset.mode=idle", "session.reset.idleMinutes=60")


async def tick_until(bench: Bench, end: str) -> None:
    while bench.clock.now() < datetime.fromisoformat(f"{end}+00:00"):
        await bench.tick(minutes=5)


def give_tasks(bench: Bench) -> None:
    """Write a task file, so that the beats ask the model."""
    workspace = bench.root / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "HEARTBEAT.md").write_text("- Check the disk\n")


def notes(bench: Bench) -> list[Path]:
    return sorted((bench.root / "workspace" / "memory").glob("*.md"))


@pytest.mark.parametrize("answer", ["HEARTBEAT_OK", "Disk is at 97 %"], ids=["quiet", "alert"])
async def test_heartbeats_all_night_do_not_keep_yesterdays_session(tmp_path: Path, answer: str) -> None:
    bench = Bench(tmp_path / "home", (*SETS, *DAILY), at="2026-03-16T22:00:00")
    give_tasks(bench)
    await bench.agent.turn("good night")
    evening = bench.agent.sessions().get(MAIN)["sessionId"]
    bench.model._then = answer
    asked = len(bench.model.requests)
    await tick_until(bench, "2026-03-17T09:00:00")
    assert len(bench.model.requests) - asked >= 20
    assert bench.agent.sessions().get(MAIN)["sessionId"] == evening
    await bench.agent.turn("good morning")
    entry = bench.agent.sessions().get(MAIN)
    assert entry["sessionId"] != evening
    assert entry["resetReason"] == "daily"
    (note,) = notes(bench)
    assert "- **Reason**: daily" in note.read_text()
    assert "HEARTBEAT" not in note.read_text()


async def test_heartbeats_do_not_end_the_silence_of_the_user(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", (*SETS, *IDLE), at="2026-03-16T10:00:00")
    give_tasks(bench)
    await bench.agent.turn("hello")
    first = bench.agent.sessions().get(MAIN)["sessionId"]
    bench.model._then = "HEARTBEAT_OK"
    await tick_until(bench, "2026-03-16T11:15:00")
    assert len(bench.model.requests) == 3, "the beats of 10:30 and 11:00"
    await bench.agent.turn("hello again")
    assert bench.agent.sessions().get(MAIN)["sessionId"] != first


async def test_a_job_that_announces_does_not_end_it_either(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", (*SETS[3:], "agents.defaults.heartbeat.every=0", *IDLE), at="2026-03-16T10:00:00")
    await bench.agent.turn("hello")
    first = bench.agent.sessions().get(MAIN)["sessionId"]
    bench.add("news", every(1200), delivery={"mode": "announce"})
    bench.model._then = "Three new mails."
    await tick_until(bench, "2026-03-16T11:15:00")
    assert bench.spoken()[-1] == ("assistant", "Three new mails.")
    await bench.agent.turn("hello again")
    assert bench.agent.sessions().get(MAIN)["sessionId"] != first


async def test_a_user_within_the_hour_goes_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home", (*SETS, *IDLE), at="2026-03-16T10:00:00")
    await bench.agent.turn("hello")
    first = bench.agent.sessions().get(MAIN)["sessionId"]
    bench.clock.advance(timedelta(minutes=59))
    await bench.agent.turn("hello again")
    assert bench.agent.sessions().get(MAIN)["sessionId"] == first
    assert notes(bench) == []
