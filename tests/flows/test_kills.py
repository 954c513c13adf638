"""Two simulated hours of serve with kill -9 at 30 random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from stores.jobs import JobStore
from tests.flows.simulated_serve import START, FastClock
from tests.scheduling import cron, every
from turngraph.clock import to_ms
from turngraph.schedules.job import Job

KILLS = 30
HOURS = 2.0
FACTOR = 60.0
SCRIPT = Path(__file__).with_name("simulated_serve.py")


def reminder(id_: str, schedule: dict[str, object]) -> Job:
    start = to_ms(START)
    return Job(
        {
            "id": id_,
            "enabled": True,
            "createdAtMs": start,
            "updatedAtMs": start,
            "schedule": schedule,
            "sessionTarget": "main",
            "wakeMode": "next-heartbeat",
            "payload": {"kind": "systemEvent", "text": id_},
            "state": {},
        }
    )


def run_and_kill(root: Path, clock: FastClock, seconds: float) -> None:
    """Start serve, wait until it looks, and kill it some seconds later."""
    argv = [sys.executable, str(SCRIPT), str(root), str(clock.began), str(clock.factor)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        process.kill()


@pytest.mark.slow
def test_no_slot_runs_twice_and_none_is_lost_when_serve_is_killed(tmp_path: Path) -> None:
    root = tmp_path / "home"
    root.mkdir()
    (root / "turngraph.json5").write_text("{}")
    store = JobStore(root / "cron" / "jobs.json")
    schedules = {"minute": every(60), "five": every(300), "seven": every(420), "ten": cron("*/10 * * * *")}
    for id_, schedule in schedules.items():
        store.add(reminder(id_, schedule))
    clock = FastClock(time.time(), FACTOR)
    random_ = random.Random(7)
    for _ in range(KILLS):
        run_and_kill(root, clock, random_.uniform(0.05, 3.0))
        assert len(store.load().jobs) == len(schedules)
        for id_ in schedules:
            store.ledger.read(id_)
            store.logs.read(id_)
    # The last start settles what the last kill left, and serves the rest of the two hours.
    run_and_kill(root, clock, max(3.0, HOURS * 3600 / FACTOR - (time.time() - clock.began)))
    end_ms = to_ms(clock.now()) - int(FACTOR * 2_000)
    counted: Counter[str] = Counter()
    for id_ in schedules:
        ledger = store.ledger.read(id_)
        claims = [line["slotMs"] for line in ledger.lines if line["event"] == "claimed"]
        assert len(claims) == len(set(claims)), f"{id_}: a slot was claimed twice"
        outcomes = Counter(line["runId"] for line in ledger.lines if line["event"] in ("done", "late", "interrupted"))
        assert max(outcomes.values()) == 1, f"{id_}: a run has two outcomes"
        finished = [entry.get("slotMs") for entry in store.logs.read(id_)]
        assert len(finished) == len(set(finished)), f"{id_}: a slot ran twice"
        counted.update(str(line["event"]) for line in ledger.lines)
        planned = store.load().find(id_).schedule()
        assert planned is not None
        slot = planned.next_after(to_ms(START))
        while slot is not None and slot < end_ms:
            assert ledger.knows(slot), f"{id_}: nothing is known of the slot {(slot - to_ms(START)) / 60_000} min in"
            slot = planned.next_after(slot)
    assert counted["done"] + counted["late"] > 50
    assert counted["late"] > 0
