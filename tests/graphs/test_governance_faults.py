"""known-faults 4 and 9 in whole turns: what the model is sent, and what the user is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from stores.events import AgentEvent, EventFile
from tests.turns import TurnBench
from turngraph.models.model import ModelRequest

HOUR_TTL = (
    "contextPruning.mode=cache-ttl",
    "contextPruning.ttl=1h",
    "contextPruning.eligible=always",
    "compaction.memoryFlush.enabled=false",
)


def asks(number: int) -> dict[str, object]:
    call = {"type": "toolCall", "id": f"c{number}", "name": "read", "arguments": {"path": "log.txt"}}
    return {"content": [call], "stopReason": "toolUse"}


async def with_old_results(root: Path, *sets: str, **facts: str) -> TurnBench:
    """A session in which five old results of 9,600 characters fill 60 % of the window."""
    from turngraph.tools.read import ReadTool

    bench = TurnBench(root, sets, window=20_000, tools=[ReadTool()], **facts)  # type: ignore[arg-type]
    bench.home.workspace("main", bench.settings).mkdir(exist_ok=True)
    (bench.home.workspace("main", bench.settings) / "log.txt").write_text("log line 1\n" * 870)
    await bench.turn("look", [*(asks(number) for number in range(5)), "one"])
    for reply in ("two", "three"):
        await bench.turn("and?", [reply])
    return bench


def shown(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages if message.role == "toolResult"]


async def test_the_first_request_of_a_new_process_is_pruned_five_hours_later(tmp_path: Path) -> None:
    """known-faults 4.4"""
    bench = await with_old_results(tmp_path, *HOUR_TTL)
    bench.clock.advance(timedelta(hours=5))
    await bench.turn("good morning", ["hi"])
    results = shown(bench.model.requests[-1])
    assert len(results) == 5
    assert all("[Tool result trimmed: kept first 1500 chars" in text for text in results)


@pytest.mark.parametrize(("pressure", "says"), [("false", "TTL not reached"), ("0.4", "pressureRatio 0.4")])
async def test_the_status_says_why_a_busy_chat_is_pruned_or_not(tmp_path: Path, pressure: str, says: str) -> None:
    """known-faults 4.5"""
    bench = await with_old_results(tmp_path, *HOUR_TTL)
    bench.settings = TurnBench(tmp_path, (*HOUR_TTL, f"contextPruning.pressureRatio={pressure}")).settings
    bench.clock.advance(timedelta(seconds=30))
    outcome = await bench.turn("/status")
    assert outcome.reply is not None
    [line] = [line for line in outcome.reply.text.splitlines() if line.startswith("Pruning ")]
    assert says in line


async def test_two_providers_see_the_same_projection_or_the_reason(tmp_path: Path) -> None:
    """known-faults 4.6"""
    always, auto = HOUR_TTL, (*HOUR_TTL[:2], HOUR_TTL[3])
    seen = []
    for number, (provider, sets) in enumerate([("anthropic", auto), ("ollama", always), ("ollama", auto)]):
        bench = await with_old_results(tmp_path / str(number), *sets, provider=provider)
        bench.clock.advance(timedelta(hours=5))
        await bench.turn("good morning", ["hi"])
        seen.append(shown(bench.model.requests[-1]))
    assert seen[0] == seen[1] != seen[2]
    reasons = [decision.why for _, decision in bench.sink.traces[-1].decisions if decision.node == "prune"]
    assert any("contextPruning.eligible" in why for why in reasons)


async def test_a_prompt_larger_than_the_window_names_the_ways_out_and_a_larger_window_works(tmp_path: Path) -> None:
    """known-faults 4.3"""
    bench = TurnBench(tmp_path, window=8_000)
    workspace = bench.home.workspace("main", bench.settings)
    workspace.mkdir(exist_ok=True)
    for name in ("AGENTS.md", "SOUL.md", "TOOLS.md"):
        (workspace / name).write_text("word " * 3_900)
    outcome = await bench.turn("hello", ["never sent"])
    assert outcome.reply is not None and outcome.reply.kind == "error"
    assert all(way in outcome.reply.text for way in ("/compact", "/new", "larger window", "smaller"))
    larger = TurnBench(tmp_path, window=200_000)
    later = await larger.turn("hello again", ["hi"])
    assert later.reply is not None and later.reply.text == "hi"


async def test_a_truncated_file_is_announced_in_each_session_and_stays_whole_on_disk(tmp_path: Path) -> None:
    """known-faults 9.1"""
    bench = TurnBench(tmp_path, ("bootstrapMaxChars=12000",))
    workspace = bench.home.workspace("main", bench.settings)
    workspace.mkdir(exist_ok=True)
    memory = "m" * 14_296
    (workspace / "MEMORY.md").write_text(memory)
    for text in ("hello", "/new and again"):
        await bench.turn(text, ["hi"])
        assert "of 14296)" in bench.model.requests[-1].system
        [cut] = [d for _, d in bench.sink.traces[-1].decisions if d.path == "MEMORY.md" and d.what == "truncated"]
        assert (cut.chars_before, (cut.chars_after or 0) <= 12_000) == (14_296, True)
    assert (workspace / "MEMORY.md").read_text() == memory


async def test_a_reaction_and_a_usage_update_leave_the_system_prompt_alone(tmp_path: Path) -> None:
    """known-faults 9.3"""
    bench = TurnBench(tmp_path)
    await bench.turn("one", ["1"])
    EventFile(bench.home.events_file("main")).add(AgentEvent("e1", "event", "👍 on the last answer", 1))
    bench.sessions.update("agent:main:main", {"totalTokens": 12_345, "totalTokensFresh": True})
    bench.clock.advance(timedelta(minutes=1))
    await bench.turn("two", ["2"])
    first, second = bench.model.requests[-2:]
    assert first.system == second.system
    assert "👍" in second.messages[-1].text
