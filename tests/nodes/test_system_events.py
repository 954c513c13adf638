"""What has happened between two turns goes with the next message, once."""

from __future__ import annotations

from pathlib import Path

from stores.events import AgentEvent, EventFile
from tests.turns import MAIN, TurnBench
from turngraph.errors import ModelError
from turngraph.inbound import Inbound


def queue(bench: TurnBench, text: str, key: str | None = None) -> EventFile:
    events = EventFile(bench.home.events_file("main"))
    events.add(AgentEvent(text, "event", text, 1, session_key=key))
    return events


async def test_an_event_goes_with_the_next_message_and_with_no_later_one(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home")
    events = queue(bench, "Cron job news failed 3 times")
    await bench.turn("hello", ["hi"])
    assert "failed 3 times" in bench.model.requests[-1].messages[-1].text
    await bench.turn("again", ["hi"])
    assert not any("failed 3 times" in message.text for message in bench.model.requests[-1].messages)
    assert events.waiting() == ()


async def test_a_turn_without_an_answer_loses_no_event(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home")
    events = queue(bench, "Cron job news failed")
    await bench.turn("hello", [ModelError("no such model", kind="missing")])
    await bench.turn("hello", ["hi"])
    assert "Cron job news failed" in bench.model.requests[-1].messages[-1].text
    assert events.waiting() == ()


async def test_events_of_another_session_and_runs_without_a_user_leave_them_waiting(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path / "home")
    events = queue(bench, "for another", "agent:main:other")
    queue(bench, "for this")
    await bench.turn(Inbound(text="job", session_key=MAIN, kind="cron"), ["done"])
    assert len(events.waiting()) == 2
    await bench.turn("hello", ["hi"])
    assert [event.text for event in events.waiting()] == ["for another"]
