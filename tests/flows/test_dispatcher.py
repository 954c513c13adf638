"""The dispatcher with real stores and a scripted model: slots, catch-up, retries, edits (known-faults 11)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows.dispatcher import Runner
from stores.events import AgentEvent, EventFile
from stores.slot_ledger import SlotLedger
from tests.scheduling import QUIET, Bench, cron, every
from turngraph.clock import to_ms
from turngraph.errors import ModelError
from turngraph.models.model import ModelRequest
from turngraph.scheduled.beat import BeatResult
from turngraph.scheduled.job_run import Slot


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "home")


async def test_a_job_runs_at_its_slot_and_leaves_a_line_in_the_run_log(bench: Bench) -> None:
    bench.add("news", every(60))
    await bench.tick(seconds=59)
    assert bench.outcomes("news") == []
    await bench.tick(seconds=1)
    assert bench.outcomes("news") == ["done"]
    (run,) = bench.store.logs.read("news")
    assert (run["status"], run["summary"]) == ("ok", "done")
    assert bench.job("news").state["lastStatus"] == "ok"
    assert "runningAtMs" not in bench.job("news").state


async def test_ticks_within_one_slot_run_it_once(bench: Bench) -> None:
    bench.add("news", every(60))
    await bench.tick(seconds=60)
    for _ in range(5):
        await bench.tick(seconds=1)
    assert len(bench.model.requests) == 1


async def test_a_slot_does_not_run_again_after_a_restart(tmp_path: Path) -> None:
    """known-faults 11.1: 22:00 in Santiago ran, restart at 22:30."""
    bench = Bench(tmp_path / "home", at="2026-03-17T00:59:00")
    job = bench.add("nightly", cron("0 22 * * *", "America/Santiago"))
    await bench.tick(seconds=60)
    assert bench.outcomes("nightly") == ["done"]
    bench.go_to("2026-03-17T01:30:00")
    bench.restart()
    await bench.tick()
    assert bench.outcomes("nightly") == ["done"]
    assert job.next_run_ms(bench.now_ms) == bench.now_ms + (23 * 60 + 30) * 60_000


async def test_after_a_restart_in_the_evening_the_next_run_is_the_next_slot(tmp_path: Path) -> None:
    """known-faults 11.3: 06:00 in Kuala Lumpur ran on day 1, restart at 17:20."""
    bench = Bench(tmp_path / "home", at="2026-03-15T21:59:30")
    job = bench.add("early", cron("0 6 * * *", "Asia/Kuala_Lumpur"))
    await bench.tick(seconds=30)
    bench.go_to("2026-03-16T09:20:00")
    bench.restart()
    await bench.tick()
    assert bench.outcomes("early") == ["done"]
    assert job.next_run_ms(bench.now_ms) == to_ms(datetime(2026, 3, 16, 22, tzinfo=UTC))


async def test_a_slot_missed_by_a_short_stop_runs_once_and_is_marked_late(tmp_path: Path) -> None:
    """known-faults 11.2: 08:30 in New York, stopped 08:29:47 to 08:31:05."""
    bench = Bench(tmp_path / "home", at="2026-03-16T12:29:00")
    bench.add("daily", cron("30 8 * * *", "America/New_York"))
    await bench.tick(seconds=47)
    bench.go_to("2026-03-16T12:31:05")
    bench.restart()
    await bench.tick()
    await bench.tick(seconds=1)
    assert bench.outcomes("daily") == ["late"]
    assert bench.store.ledger.read("daily").lines[-1]["lateMs"] == 65_000


@pytest.mark.parametrize(("own", "stop_s"), [({"catchUp": "none"}, 65), ({"maxLateMs": 30_000}, 65)])
async def test_beyond_its_grace_a_missed_slot_is_recorded_and_not_run(
    tmp_path: Path, own: dict[str, object], stop_s: int
) -> None:
    bench = Bench(tmp_path / "home", at="2026-03-16T12:29:00")
    bench.add("daily", cron("30 8 * * *", "America/New_York"), turngraph=own)
    bench.go_to("2026-03-16T12:31:05")
    bench.restart()
    await bench.tick()
    assert bench.outcomes("daily") == ["missed"]
    assert bench.model.requests == []


async def test_after_a_long_stop_only_the_newest_slot_runs_and_the_others_are_one_line(bench: Bench) -> None:
    bench.add("news", every(60))
    bench.clock.advance(timedelta(minutes=30, seconds=5))
    bench.restart()
    await bench.tick()
    assert bench.outcomes("news") == ["missed", "late"]
    missed = next(line for line in bench.store.ledger.read("news").lines if line["event"] == "missed")
    assert missed["count"] == 29


async def test_a_clock_that_is_set_back_runs_no_slot_twice(bench: Bench) -> None:
    bench.add("news", every(60))
    for _ in range(5):
        await bench.tick(seconds=60)
    await bench.tick(seconds=-180)
    for _ in range(2):
        await bench.tick(seconds=60)
    assert len(bench.model.requests) == 5
    await bench.tick(seconds=120)
    assert len(bench.model.requests) == 6


@dataclass
class Held:
    """Keeps jobs from starting until the gate opens."""

    inner: Runner
    gate: asyncio.Event

    async def cron(self, job_id: str, slot: Slot) -> None:
        await self.gate.wait()
        await self.inner.cron(job_id, slot)

    async def heartbeat(self, agent_id: str, reason: str) -> BeatResult:
        return await self.inner.heartbeat(agent_id, reason)

    async def reindex(self, agents: Sequence[str]) -> None:
        await self.inner.reindex(agents)

    async def maintenance(self) -> None:
        await self.inner.maintenance()


async def test_a_job_that_still_runs_is_not_started_again(bench: Bench) -> None:
    held = Held(bench.dispatcher.runner, asyncio.Event())
    bench.dispatcher.runner = held
    bench.add("slow", every(60))
    for _ in range(2):
        bench.clock.advance(timedelta(seconds=60))
        await bench.dispatcher.tick()
        await asyncio.sleep(0.05)
    assert bench.outcomes("slow") == ["skipped"]
    held.gate.set()
    await bench.dispatcher.settled()
    assert bench.outcomes("slow") == ["skipped", "done"]


async def test_an_edit_is_seen_with_the_next_tick_and_its_slots_begin_after_it(bench: Bench) -> None:
    bench.add("news", every(3600))
    await bench.tick(seconds=600)
    document = json.loads(bench.store.path.read_text())
    document["jobs"][0]["schedule"]["everyMs"] = 60_000
    bench.store.path.write_text(json.dumps(document))
    await bench.tick(seconds=1)
    assert bench.outcomes("news") == []
    await bench.tick(seconds=60)
    assert bench.outcomes("news") == ["done"]


async def test_a_job_deleted_while_it_runs_keeps_its_log(bench: Bench) -> None:
    def delete(_: ModelRequest) -> str:
        bench.store.change(lambda loaded: {"news": None})
        return "too late"

    bench.add("news", every(60))
    bench.model.enqueue(delete)
    await bench.tick(seconds=60)
    assert bench.store.load().jobs == ()
    assert bench.store.logs.read("news")[0]["summary"] == "too late"
    assert bench.outcomes("news") == ["done"]


async def test_a_one_shot_runs_once_and_is_deleted(bench: Bench) -> None:
    bench.add("once", {"kind": "at", "at": "2026-03-16T12:01:00Z"}, deleteAfterRun=True)
    await bench.tick(seconds=61)
    assert bench.store.load().jobs == ()
    await bench.tick(seconds=61)
    assert len(bench.model.requests) == 1


async def test_a_one_shot_that_fails_for_a_while_is_tried_again_as_a_slot_of_its_own(bench: Bench) -> None:
    failure = ModelError("rate limit", kind="rate")
    bench.add("once", {"kind": "at", "at": "2026-03-16T12:01:00Z"})
    bench.model.enqueue(*[failure] * 8)
    await bench.tick(seconds=60)
    assert bench.job("once").state["lastStatus"] == "error"
    failed = len(bench.model.requests)
    bench.model._answers.clear()
    await bench.tick(seconds=29)
    assert len(bench.model.requests) == failed
    await bench.tick(seconds=5)
    claims = [line for line in bench.store.ledger.read("once").lines if line["event"] == "claimed"]
    assert [line.get("reason") for line in claims] == [None, "retry 1"]
    assert bench.job("once").state["lastStatus"] == "ok"
    assert not bench.job("once").enabled


async def test_a_recurring_job_backs_off_after_failures(bench: Bench) -> None:
    bench.add("news", every(10))
    bench.model.enqueue(*[ModelError("bad key", kind="auth")] * 4)
    await bench.tick(seconds=10)
    bench.model._answers.clear()
    assert bench.job("news").own["notBeforeMs"] == bench.now_ms + 30_000
    await bench.tick(seconds=10)
    await bench.tick(seconds=10)
    assert bench.outcomes("news") == ["done", "skipped", "skipped"]
    await bench.tick(seconds=10)
    assert bench.outcomes("news")[-1] == "done"
    assert "notBeforeMs" not in bench.job("news").own


async def test_a_schedule_that_cannot_be_read_disables_the_job_the_third_time_and_says_so(bench: Bench) -> None:
    bench.add("mars", {"kind": "cron", "expr": "0 9 * * *", "tz": "Mars/Base"})
    for _ in range(4):
        await bench.tick(seconds=61)
    assert not bench.job("mars").enabled
    (event,) = EventFile(bench.home.home.events_file("main")).waiting("event")
    assert "Mars/Base" in event.text


async def test_isolated_runs_have_sessions_of_their_own(bench: Bench) -> None:
    """known-faults 11.5"""
    await bench.agent.turn("hello")
    before = bench.spoken()
    bench.add("news", every(60))
    for _ in range(3):
        await bench.tick(seconds=60)
    runs = bench.store.logs.read("news")
    assert len({run["sessionId"] for run in runs}) == 3
    assert bench.spoken() == before
    last = bench.model.requests[-1]
    assert sum(message.role == "user" for message in last.messages) == 1


async def test_a_reminder_reaches_the_main_session_at_once(bench: Bench) -> None:
    bench = Bench(bench.root, ("agents.defaults.heartbeat.every=30m", *QUIET[1:]))
    await bench.agent.turn("hello")
    text = {"kind": "systemEvent", "text": "Call the dentist"}
    bench.add("call", every(60), sessionTarget="main", payload=text)
    bench.model.enqueue("You wanted to call the dentist.")
    await bench.tick(seconds=60)
    assert bench.spoken()[-1] == ("assistant", "You wanted to call the dentist.")
    assert "Call the dentist" in bench.model.requests[-1].messages[-1].text
    assert EventFile(bench.home.home.events_file("main")).waiting() == ()


async def test_an_announcement_is_appended_to_the_main_session(bench: Bench) -> None:
    await bench.agent.turn("hello")
    bench.add("news", every(60), delivery={"mode": "announce"})
    bench.model.enqueue("Three new mails.")
    await bench.tick(seconds=60)
    assert bench.spoken()[-1] == ("assistant", "Three new mails.")
    assert bench.store.logs.read("news")[0]["deliveryStatus"] == "delivered"


async def test_what_says_nothing_is_not_delivered(bench: Bench) -> None:
    await bench.agent.turn("hello")
    bench.add("news", every(60), delivery={"mode": "announce"})
    for answer in ("NO_REPLY", "HEARTBEAT_OK"):
        bench.model.enqueue(answer)
        await bench.tick(seconds=60)
    assert [role for role, _ in bench.spoken()] == ["user", "assistant"]


async def test_repeated_failures_are_announced_once_within_the_cooldown(bench: Bench) -> None:
    bench.add("news", every(3600), failureAlert={"after": 2, "cooldownMs": 100_000_000})
    bench.model._then = None
    for _ in range(4):
        bench.model.enqueue(*[ModelError("no such model", kind="missing")] * 3)
        await bench.tick(seconds=3600)
        bench.model._answers.clear()
    texts = [event.text for event in EventFile(bench.home.home.events_file("main")).waiting("event")]
    assert len(texts) == 1
    assert texts[0].startswith('Cron job "news" failed 2 times\nLast error: ')


NO_MODEL = ModelError("no such model", kind="missing")


async def fail(bench: Bench, times: int) -> None:
    for _ in range(times):
        bench.model.enqueue(*[NO_MODEL] * 3)
        await bench.tick(seconds=3600)
        bench.model._answers.clear()


async def test_an_alert_goes_where_the_results_go(bench: Bench) -> None:
    await bench.agent.turn("hello")
    sink = {"kind": "file", "path": "alerts.md"}
    bench.add("news", every(3600), failureAlert={"after": 2}, turngraph={"sink": sink})
    await fail(bench, 2)
    written = (bench.home.home.workspace("main", bench.agent.settings) / "alerts.md").read_text()
    assert written.count('Cron job "news" failed 2 times') == 1
    assert EventFile(bench.home.home.events_file("main")).waiting("event") == ()


async def test_an_alert_that_names_a_session_is_put_into_it(bench: Bench) -> None:
    key = "agent:main:telegram:direct:7"
    bench.add("news", every(3600), failureAlert={"after": 1, "to": key, "mode": "announce"})
    await fail(bench, 1)
    assert bench.spoken(key)[-1][1].startswith('Cron job "news" failed 1 times')


async def test_a_failure_destination_is_told_of_each_failed_run(bench: Bench) -> None:
    await bench.agent.turn("hello")
    bench.add("news", every(3600), delivery={"mode": "none", "failureDestination": {"mode": "announce"}})
    bench.add("calm", every(3600), delivery={"bestEffort": True, "failureDestination": {"mode": "announce"}})
    await fail(bench, 2)
    told = [text for role, text in bench.spoken() if role == "assistant" and "failed" in text]
    assert len(told) == 2
    assert all(text.startswith('Cron job "news" failed: ') for text in told)


async def test_two_dispatchers_on_one_store_do_not_run_a_slot_twice(tmp_path: Path) -> None:
    first = Bench(tmp_path / "home")
    first.add("news", every(60))
    second = Bench(tmp_path / "home")
    await asyncio.gather(first.tick(seconds=60), second.tick(seconds=60))
    assert len(first.model.requests) + len(second.model.requests) == 1


async def test_a_run_that_a_dead_process_left_is_interrupted_and_not_repeated(bench: Bench) -> None:
    bench.add("news", every(60))
    ledger = SlotLedger(bench.store.ledger.folder)
    slot = bench.now_ms + 60_000
    ledger.claim("news", slot, "dead", slot)
    path = ledger.path("news")
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"pid": 2**22 - 3}) + "\n")
    bench.store.update("news", lambda job: job.evolve(state={"runningAtMs": slot}))
    bench.clock.advance(timedelta(seconds=70))
    bench.restart()
    await bench.tick()
    assert bench.outcomes("news") == ["interrupted"]
    assert "runningAtMs" not in bench.job("news").state
    assert "interrupted" in EventFile(bench.home.home.events_file("main")).waiting("event")[0].text


async def test_an_unreadable_store_stops_jobs_until_it_is_repaired(bench: Bench) -> None:
    bench.add("news", every(60))
    good = bench.store.path.read_text()
    bench.store.path.write_text("{")
    await bench.tick(seconds=60)
    assert bench.model.requests == []
    assert bench.store.path.read_text() == "{"
    bench.store.path.write_text(good)
    await bench.tick(seconds=1)
    assert bench.outcomes("news") == ["done"]


async def test_three_hundred_jobs_do_not_slow_a_tick(bench: Bench) -> None:
    def add(_: object) -> dict[str, object]:
        return {f"job{n}": bench.add_raw(f"job{n}", cron(f"{n % 60} {n % 24} * * *")) for n in range(300)}

    bench.store.change(add)  # type: ignore[arg-type]
    await bench.tick(seconds=1)
    started = time.perf_counter()
    for _ in range(20):
        await bench.dispatcher.tick()
    assert (time.perf_counter() - started) / 20 < 0.02


async def test_a_fault_in_a_run_still_gives_its_slot_an_outcome(bench: Bench) -> None:
    bench.add("news", every(60))
    bench.model.enqueue(ZeroDivisionError("a fault of a plugin"))
    await bench.tick(seconds=60)
    assert bench.outcomes("news") == ["done"]
    assert bench.store.logs.read("news")[0]["status"] == "error"
    assert bench.store.ledger.read("news").open == ()


async def test_every_job_that_is_due_runs_when_another_scheduler_asks_however_few_run_at_once(bench: Bench) -> None:
    for name in ("a", "b", "c"):
        bench.add(name, every(60))
    bench.clock.advance(timedelta(seconds=61))
    assert sorted(await bench.dispatcher.run_due_jobs(60_000)) == ["a", "b", "c"]


@dataclass
class Broken(Held):
    """A runner whose heartbeats cannot begin."""

    beats: int = 0

    async def heartbeat(self, agent_id: str, reason: str) -> BeatResult:
        self.beats += 1
        raise OSError("no space left on device")


async def test_a_heartbeat_that_cannot_begin_is_not_tried_again_every_second(tmp_path: Path) -> None:
    sets = ("agents.defaults.heartbeat.every=30m", *QUIET[1:])
    bench = Bench(tmp_path / "home", sets)
    broken = bench.dispatcher.runner = Broken(bench.dispatcher.runner, asyncio.Event())
    EventFile(bench.home.home.events_file("main")).add(AgentEvent("w", "wake", "hook:mail", bench.now_ms))
    for _ in range(50):
        await bench.tick(seconds=1)
    assert broken.beats == 1
    await bench.tick(seconds=30)
    assert broken.beats == 2


async def test_the_kind_of_a_model_error_decides_about_another_try_whatever_its_text(bench: Bench) -> None:
    bench.add("once", {"kind": "at", "at": "2026-03-16T12:01:00Z"})
    bench.model.enqueue(*[ModelError("it went wrong", kind="network")] * 8)
    await bench.tick(seconds=60)
    bench.model._answers.clear()
    assert bench.job("once").enabled
    await bench.tick(seconds=35)
    assert bench.job("once").state["lastStatus"] == "ok"


async def test_a_job_of_an_agent_that_is_gone_fails_with_the_reason(bench: Bench) -> None:
    bench.add("lost", every(60), agentId="nobody")
    await bench.tick(seconds=60)
    (run,) = bench.store.logs.read("lost")
    assert run["status"] == "error"
    assert "no agent 'nobody'" in run["error"]
    assert bench.store.ledger.read("lost").open == ()


async def test_the_run_log_names_model_provider_and_usage(bench: Bench) -> None:
    bench.add("news", every(60))
    bench.model.enqueue({"content": "Three mails.", "usage": {"input": 900, "output": 12, "totalTokens": 912}})
    await bench.tick(seconds=60)
    (run,) = bench.store.logs.read("news")
    assert (run["model"], run["provider"]) == ("scripted:scripted", "scripted")
    assert run["usage"] == {"input_tokens": 900, "output_tokens": 12, "total_tokens": 912}
