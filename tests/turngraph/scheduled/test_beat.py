"""Heartbeats as users met them (known-faults 10), with a scripted model and a real home."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from stores.events import AgentEvent, EventFile
from tests.scheduling import MAIN, Bench
from turngraph.errors import ModelError
from turngraph.scheduled.beat import BeatResult, run_beat
from turngraph.scheduled.beat_state import BeatStates, ensure_seed
from turngraph.schedules.heartbeat import rhythm_of

BEATS = ("agents.defaults.heartbeat.every=30m", "serve.reindexEvery=0", "serve.maintenanceEvery=0")
TASKS = "# Heartbeat\n- Check the mail\n"


def bench(root: Path, *sets: str, tasks: str | None = TASKS, at: str = "2026-03-16T12:00:00") -> Bench:
    made = Bench(root / "home", (*BEATS, *sets), at=at)
    workspace = made.home.home.workspace("main", made.agent.settings)
    workspace.mkdir(parents=True)
    if tasks is not None:
        (workspace / "HEARTBEAT.md").write_text(tasks)
    return made


async def beat(made: Bench, answer: str, reason: str = "interval") -> BeatResult:
    made.model.enqueue(answer)
    result = await run_beat(made.agent, reason)
    made.model._answers.clear()
    return result


async def test_one_run_an_interval_and_one_follow_up_for_an_outside_wake(tmp_path: Path) -> None:
    """known-faults 10.1"""
    made = bench(tmp_path, "agents.defaults.heartbeat.anchor=10:00", at="2026-03-16T09:59:00")
    made.model._then = "HEARTBEAT_OK"
    made.restart()
    starts = []
    events = EventFile(made.home.home.events_file("main"))
    for second in range(0, 32 * 60, 5):
        before = len(made.model.requests)
        if second == 90:
            events.add(AgentEvent("w", "wake", "wake", made.now_ms))
        if second in (80, 95, 130):  # the ends of commands that the run of 10:00 had started
            events.add(AgentEvent(f"e{second}", "wake", "exec-event", made.now_ms))
        await made.tick(seconds=5)
        if len(made.model.requests) > before:
            starts.append(made.clock.now().strftime("%H:%M"))
    assert starts[0] == "10:00"
    assert starts[-1] == "10:30"
    assert len(starts) <= 3, "at most one follow-up for the outside wake"
    assert events.wakes() == ()


def test_active_hours_are_planned(tmp_path: Path) -> None:
    """known-faults 10.2"""
    made = bench(
        tmp_path,
        "agents.defaults.heartbeat.every=4h",
        "agents.defaults.heartbeat.anchor=03:21",
        'agents.defaults.heartbeat.activeHours={"start":"08:00","end":"23:00","timezone":"Asia/Shanghai"}',
        at="2026-03-16T16:56:00",
    )
    rhythm = rhythm_of(made.agent.settings, "seed")
    assert rhythm is not None
    due = rhythm.next_after(made.now_ms)
    assert due == made.now_ms + timedelta(hours=10, minutes=25) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("tasks", "runs"), [("\n \n", False), ("# Heartbeat\n", False), ("- Check the mail", True), (None, True)]
)
async def test_an_empty_task_file_saves_the_call(tmp_path: Path, tasks: str | None, runs: bool) -> None:
    """known-faults 10.3"""
    made = bench(tmp_path, tasks=tasks)
    result = await beat(made, "HEARTBEAT_OK")
    assert bool(made.model.requests) is runs
    assert result.status == ("ran" if runs else "skipped")
    if not runs:
        assert result.reason == "empty-heartbeat-file"


ALERT = "Disk is filling up. " * 20


@pytest.mark.parametrize(
    ("answer", "delivered"),
    [
        ("HEARTBEAT_OK", None),
        ("**HEARTBEAT_OK**", None),
        ("HEARTBEAT_OK all quiet", None),
        ("NO_REPLY", None),
        (f"HEARTBEAT_OK {ALERT}", ALERT.strip()),
        ("Disk is at 97 %", "Disk is at 97 %"),
        ("磁盘已满 97 %", "磁盘已满 97 %"),
    ],
)
@pytest.mark.parametrize("reason", ["interval", "manual", "wake", "cron:x", "hook:mail"])
async def test_protocol_words_stay_inside(tmp_path: Path, answer: str, delivered: str | None, reason: str) -> None:
    """known-faults 10.4"""
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last")
    made.model.enqueue("hello")
    await made.agent.turn("hi")
    await beat(made, answer, reason)
    said = [text for role, text in made.spoken() if role == "assistant"][1:]
    assert said == ([] if delivered is None else [delivered])


async def test_quiet_heartbeats_leave_no_trace(tmp_path: Path) -> None:
    """known-faults 10.5"""
    made = bench(tmp_path)
    await made.agent.turn("first")
    entry = dict(made.agent.sessions().get(MAIN))
    for _ in range(20):
        made.clock.advance(timedelta(minutes=30))
        assert (await beat(made, "HEARTBEAT_OK")).reason == "ok-token"
    assert dict(made.agent.sessions().get(MAIN)) == entry
    await made.agent.turn("second")
    texts = [message.text for message in made.model.requests[-1].messages]
    assert not any("HEARTBEAT" in text or "Heartbeat" in text for text in texts)
    assert len(made.spoken()) == 4


async def test_the_trace_has_what_the_transcript_has_not(tmp_path: Path) -> None:
    made = bench(tmp_path)
    result = await beat(made, "HEARTBEAT_OK")
    assert result.trace_id is not None
    assert made.agent.traces().trace(result.trace_id).facts["trigger"] == "heartbeat"


async def test_nobody_there_no_heartbeat(tmp_path: Path) -> None:
    """known-faults 10.6: the user has been silent for 21 days."""
    made = bench(tmp_path, "agents.defaults.heartbeat.idleGate=48h")
    await made.agent.turn("hello")
    made.clock.advance(timedelta(days=21))
    assert (await beat(made, "HEARTBEAT_OK")).reason == "session-idle"
    await made.agent.turn("back again")
    assert (await beat(made, "HEARTBEAT_OK")).status == "ran"


async def test_failures_make_the_pauses_longer_until_the_user_writes(tmp_path: Path) -> None:
    """known-faults 10.6: five failures in a row."""
    made = bench(tmp_path, "agents.defaults.heartbeat.anchor=12:00", at="2026-03-16T11:59:30")
    await made.agent.turn("hello")
    made.restart()
    starts: list[float] = []
    failing = ModelError("no credit", kind="quota")
    for minute in range(0, 20 * 60, 5):
        made.model.enqueue(*[failing] * 5)
        before = BeatStates(made.home.home).of("main").failures
        await made.tick(minutes=5)
        made.model._answers.clear()
        if BeatStates(made.home.home).of("main").failures > before:
            starts.append(minute)
    pauses = [later - earlier for earlier, later in pairwise(starts)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= 60
    assert pauses[-1] <= 6 * 60 + 30
    await made.agent.turn("still there?")
    count = len(made.model.requests)
    await made.tick(minutes=30)
    assert len(made.model.requests) > count


async def test_the_rhythm_survives_restarts(tmp_path: Path) -> None:
    """known-faults 10.7: every 2h from 07:00, restarts at 10:47 and after."""
    sets = ("agents.defaults.heartbeat.every=2h", "agents.defaults.heartbeat.anchor=07:00")
    made = bench(tmp_path, *sets, at="2026-03-16T10:47:00")
    for _ in range(5):
        made.restart()
        await made.tick(minutes=2)
    assert made.model.requests == []
    made.go_to("2026-03-16T11:00:00")
    await made.tick()
    assert len(made.model.requests) == 1


async def test_the_same_alert_is_not_sent_twice_in_a_day(tmp_path: Path) -> None:
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last")
    await made.agent.turn("hello")
    assert (await beat(made, "Disk is at 97 %")).reason == "sent"
    assert (await beat(made, "Disk is at 97 %")).reason == "duplicate"
    made.clock.advance(timedelta(hours=25))
    assert (await beat(made, "Disk is at 97 %")).reason == "sent"


async def test_an_alert_without_a_target_is_only_in_the_trace(tmp_path: Path) -> None:
    made = bench(tmp_path)
    await made.agent.turn("hello")
    result = await beat(made, "Disk is at 97 %")
    assert (result.status, result.reason) == ("ran", "target-none")
    assert len(made.spoken()) == 2


async def test_a_sink_gets_the_alert_beside_the_target(tmp_path: Path) -> None:
    made = bench(tmp_path, 'agents.defaults.heartbeat.sink={"kind":"file","path":"alerts.md"}')
    assert (await beat(made, "Disk is at 97 %")).reason == "sent"
    written = (made.home.home.workspace("main", made.agent.settings) / "alerts.md").read_text()
    assert "Disk is at 97 %" in written


async def test_a_running_turn_comes_first(tmp_path: Path) -> None:
    made = bench(tmp_path)
    await made.agent.turn("hello")
    async with made.agent.sessions().turn(MAIN, timeout_ms=100):
        assert (await beat(made, "HEARTBEAT_OK")).reason == "requests-in-flight"


async def test_outside_its_active_hours_an_agent_is_quiet(tmp_path: Path) -> None:
    hours = 'agents.defaults.heartbeat.activeHours={"start":"20:00","end":"06:00","timezone":"UTC"}'
    assert (await beat(bench(tmp_path, hours), "HEARTBEAT_OK")).reason == "quiet-hours"


async def test_an_isolated_beat_has_a_session_of_its_own(tmp_path: Path) -> None:
    made = bench(tmp_path, "agents.defaults.heartbeat.isolatedSession=true")
    await made.agent.turn("hello")
    await beat(made, "HEARTBEAT_OK")
    assert sum(message.role == "user" for message in made.model.requests[-1].messages) == 1
    assert len(made.spoken()) == 2


async def test_a_light_beat_sees_the_task_file_only(tmp_path: Path) -> None:
    made = bench(tmp_path, "agents.defaults.heartbeat.lightContext=true")
    (made.home.home.workspace("main", made.agent.settings) / "SOUL.md").write_text("Soul of the agent")
    await beat(made, "HEARTBEAT_OK")
    assert "Check the mail" in made.model.requests[-1].system
    assert "Soul of the agent" not in made.model.requests[-1].system


def test_the_seed_of_a_home_stays(tmp_path: Path) -> None:
    made = bench(tmp_path)
    assert ensure_seed(made.home.home, "other") == ensure_seed(made.home.home, "another")


THINKING = {"type": "thinking", "thinking": "97 % is above the limit of 90 %."}


@pytest.mark.parametrize(("included", "expected"), [(True, 2), (False, 1)])
async def test_the_reasoning_goes_out_before_the_alert_when_it_is_asked_for(
    tmp_path: Path, included: bool, expected: int
) -> None:
    wanted = f"agents.defaults.heartbeat.includeReasoning={str(included).lower()}"
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last", wanted)
    await made.agent.turn("hello")
    made.model.enqueue([THINKING, {"type": "text", "text": "Disk is at 97 %"}])
    assert (await run_beat(made.agent)).reason == "sent"
    said = [text for role, text in made.spoken() if role == "assistant"][1:]
    assert len(said) == expected
    assert said[-1] == "Disk is at 97 %"
    assert said[0] == ("Reasoning:\n97 % is above the limit of 90 %." if included else "Disk is at 97 %")


async def test_the_reasoning_of_a_quiet_beat_stays_inside(tmp_path: Path) -> None:
    wanted = ("agents.defaults.heartbeat.target=last", "agents.defaults.heartbeat.includeReasoning=true")
    made = bench(tmp_path, *wanted)
    await made.agent.turn("hello")
    made.model.enqueue([THINKING, {"type": "text", "text": "HEARTBEAT_OK"}])
    assert (await run_beat(made.agent)).reason == "ok-token"
    assert len(made.spoken()) == 2


CALL = {"type": "toolCall", "id": "t1", "name": "nothing_like_it", "arguments": {}}


@pytest.mark.parametrize(("suppressed", "answer", "reason"), [
    (False, "", "sent"), (True, "", "ok-empty"), (False, "HEARTBEAT_OK", "ok-token"), (False, "NO_REPLY", "ok-empty"),
])  # fmt: skip
async def test_a_beat_that_ends_without_a_word_after_a_failed_tool_warns_unless_told_not_to(
    tmp_path: Path, suppressed: bool, answer: str, reason: str
) -> None:
    setting = f"agents.defaults.heartbeat.suppressToolErrorWarnings={str(suppressed).lower()}"
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last", setting)
    await made.agent.turn("hello")
    made.model.enqueue([CALL], answer)
    assert (await run_beat(made.agent)).reason == reason
    said = [text for role, text in made.spoken() if role == "assistant"][1:]
    assert bool(said) is (reason == "sent")
    assert not said or said[0].startswith("The tool nothing_like_it failed: ")


async def test_a_channel_that_shows_ok_is_told_that_nothing_needs_attention(tmp_path: Path) -> None:
    shows = 'channels={"defaults":{"heartbeat":{"showOk":true}}}'
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last", shows)
    await made.agent.turn("hello")
    assert (await beat(made, "HEARTBEAT_OK all quiet")).reason == "ok-token"
    assert made.spoken()[-1] == ("assistant", "HEARTBEAT_OK")


async def test_alerts_can_be_switched_off_while_ok_is_shown(tmp_path: Path) -> None:
    shows = 'channels={"defaults":{"heartbeat":{"showOk":true,"showAlerts":false}}}'
    made = bench(tmp_path, "agents.defaults.heartbeat.target=last", shows)
    await made.agent.turn("hello")
    assert (await beat(made, "Disk is at 97 %")).reason == "alerts-disabled"
    assert len(made.spoken()) == 2


async def test_when_nothing_is_shown_there_is_no_beat(tmp_path: Path) -> None:
    nothing = '{"showOk":false,"showAlerts":false,"useIndicator":false}'
    made = bench(tmp_path, f'channels={{"defaults":{{"heartbeat":{nothing}}}}}')
    assert (await beat(made, "HEARTBEAT_OK")).reason == "alerts-disabled"
    assert made.model.requests == []
