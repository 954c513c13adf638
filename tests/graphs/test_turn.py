"""Whole turns through the compiled graph on a scripted model."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from graphs.observed import observed
from nodes.state import TurnState
from tests.builders import call
from tests.turns import MAIN, TurnBench, path, whats
from turngraph.errors import ModelError
from turngraph.models.model import ToolSpec
from turngraph.tools.tool import ToolContext, ToolResult

STRAIGHT = [
    *("resolve_session", "load_bootstrap", "load_history", "sanitize", "limit_history", "guard_tools", "prune"),
    *("budget", "prompt", "prompt:assemble", "prompt:model", "persist"),
]


@dataclass
class Echo:
    """A tool that gives back what it got; ``text`` or an exception can stand in its place."""

    name: str = "echo"
    answer: str | BaseException | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    pause: asyncio.Event | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, "Echo.", {"type": "object", "properties": {"path": {"type": "string"}}})

    def file_argument(self, arguments: Any) -> str | None:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        self.calls.append(dict(arguments))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return ToolResult([{"type": "text", "text": self.answer or str(dict(arguments))}])


async def test_a_plain_turn_goes_straight_through(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    outcome = await bench.turn("hello", ["good day"])
    assert outcome.reply is not None
    assert (outcome.reply.kind, outcome.reply.text) == ("text", "good day")
    assert path(outcome.trace) == STRAIGHT
    assert bench.spoken() == [("user", "hello"), ("assistant", "good day")]


async def test_a_second_turn_sees_the_first(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    first = await bench.turn("my name is 小林", ["noted"])
    await bench.turn("what is my name?", ["小林"])
    texts = [message.text for message in bench.model.requests[-1].messages]
    assert texts == ["my name is 小林", "noted", "what is my name?"]
    assert bench.entry()["sessionId"] == first.trace.session_id


async def test_tools_run_and_their_results_go_back_to_the_model(tmp_path: Path) -> None:
    echo = Echo()
    bench = TurnBench(tmp_path, tools=[echo])
    await bench.turn("go", [[call("c1", "echo", path="a")], "done"])
    assert echo.calls == [{"path": "a"}]
    roles = [message.role for message in bench.model.requests[-1].messages]
    assert roles == ["user", "assistant", "toolResult"]


async def test_calls_of_one_answer_are_answered_in_call_order(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, tools=[Echo()])
    await bench.turn("go", [[call("c1", "echo", path="a"), call("c2", "echo", path="b")], "done"])
    results = [m.tool_call_id for m in bench.model.requests[-1].messages if m.role == "toolResult"]
    assert results == ["c1", "c2"]


async def test_an_unknown_tool_and_a_raising_tool_become_error_results(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, tools=[Echo(answer=RuntimeError("no luck"))])
    outcome = await bench.turn("go", [[call("c1", "nope"), call("c2", "echo")], "done"])
    results = [m for m in bench.model.requests[-1].messages if m.role == "toolResult"]
    assert all(message.is_error for message in results)
    assert "Tool nope not found" in results[0].text
    assert "no luck" in results[1].text
    assert outcome.reply is not None and outcome.reply.text == "done"


async def test_a_model_that_calls_tools_for_ever_ends_at_max_model_calls(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, ["maxModelCalls=5"], tools=[Echo()])
    count = iter(range(1000))
    bench.model._then = lambda request: [call(f"c{next(count)}", "echo", path=str(len(request.messages)))]
    outcome = await bench.turn("go")
    assert outcome.reply is not None and outcome.reply.kind == "limit"
    assert len(bench.model.requests) == 5
    assert ("prompt:model", "ended") in whats(outcome.trace)


async def test_an_overflow_compacts_and_answers_with_each_decision_once(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, window=16_000)
    for number in range(6):
        await bench.turn(f"question {number} " + "word " * 900, [f"answer {number} " + "text " * 300])
    overflow = ModelError("prompt is too long: 20000 tokens > 16000 maximum", kind="overflow")
    outcome = await bench.turn("one more", [overflow, "after the compaction"])
    assert outcome.reply is not None and outcome.reply.text == "after the compaction"
    assert "compact" in path(outcome.trace)
    decisions = [decision for _, decision in outcome.trace.decisions]
    assert len({id(decision) for decision in decisions}) == len(decisions)
    assert len(decisions) == len(outcome.state["decisions"])
    users = [text for role, text in bench.spoken() if role == "user" and text == "one more"]
    assert users == ["one more"]


async def test_errors_of_the_model_never_start_a_new_session(tmp_path: Path) -> None:
    """known-faults 1.1"""
    bench = TurnBench(tmp_path)
    first = await bench.turn("t0", ["a0"])
    for number in range(1, 6):
        await bench.turn(f"t{number}", [f"a{number}"])
    for failure in (
        ModelError("400 bad request", kind="bad_request"),
        ModelError("timed out", kind="timeout"),
        ModelError("prompt is too long", kind="overflow"),
    ):
        bench.model._then = failure
        await bench.turn("again", [])
    bench.model._then = None
    last = await bench.turn("still there?", ["yes"])
    assert last.trace.session_id == first.trace.session_id
    texts = [message.text for message in bench.model.requests[-1].messages]
    assert [f"t{number}" for number in range(6)] == [text for text in texts if text in {f"t{n}" for n in range(6)}]
    assert not list(bench.sessions.folder.glob("*.reset.*"))


async def test_a_node_that_raises_leaves_a_trace_that_says_so(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    bench.model.enqueue(ValueError("a bug in a model"))
    with pytest.raises(ValueError, match="a bug in a model"):
        await bench.turn("hello")
    trace = bench.sink.traces[-1]
    assert trace.facts["error"] == "ValueError: a bug in a model"
    assert [run.error for run in trace.nodes if run.node == "prompt:model"] == ["ValueError: a bug in a model"]


async def test_a_cancelled_turn_leaves_a_trace_and_its_user_message(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    started = asyncio.Event()

    class Waiting:
        facts = bench.facts

        async def stream(self, request: Any) -> Any:
            started.set()
            await asyncio.sleep(60)
            yield None

    context = bench.context(Waiting())
    from contextlib import nullcontext

    from graphs.run_turn import run_turn
    from turngraph.inbound import Inbound

    running = asyncio.create_task(
        run_turn(Inbound(text="hello", session_key=MAIN), context, sink=bench.sink, lock=nullcontext())
    )
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.sink.traces[-1].facts["error"] == "cancelled"
    assert bench.spoken() == [("user", "hello")]
    assert bench.sink.spools[-1].closed


async def test_the_orphan_of_a_killed_turn_is_taken_along(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    await bench.turn("first", ["one"])
    store = bench.sessions
    transcript = bench.transcript()
    from stores.transcripts import Transcript
    from turngraph.messages import user_message

    writable = Transcript.open(transcript.path, session_id=transcript.session_id, clock=bench.clock, ids=bench.ids)
    writable.append_message(user_message("lost question", bench.clock.now()))
    await bench.turn("new question", ["both answered"])
    assert [m.text for m in bench.model.requests[-1].messages] == ["first", "one", "lost question\n\nnew question"]
    assert store.get(MAIN)["sessionId"] == transcript.session_id


async def test_an_update_with_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    async def typo(state: Any, runtime: Any) -> dict[str, Any]:
        return {"mesages": ()}

    class Runtime:
        context = TurnBench(tmp_path).context()

    with pytest.raises(KeyError, match="mesages"):
        await observed(typo, schema=TurnState)({}, Runtime())  # type: ignore[arg-type]


async def test_the_system_prompt_is_the_same_from_turn_to_turn(tmp_path: Path) -> None:
    """known-faults 9.3"""
    from datetime import timedelta

    bench = TurnBench(tmp_path)
    await bench.turn("one", ["1"])
    bench.clock.advance(timedelta(minutes=1))
    await bench.turn("two", ["2"])
    assert bench.model.requests[0].system == bench.model.requests[1].system


async def test_a_new_session_thinks_as_the_settings_say_and_keeps_to_it(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, ("thinkingDefault=low",))
    await bench.turn("one", ["1"])
    bench.settings = TurnBench(tmp_path, ("thinkingDefault=high",)).settings
    for text in ("two", "/new three"):
        await bench.turn(text, ["ok"])
    assert [request.thinking for request in bench.model.requests] == ["low", "low", "high"]
    assert bench.transcript().context().thinking_level == "high"


async def test_a_reset_keeps_the_thinking_level_that_was_chosen_for_the_session(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    await bench.turn("one", ["1"])
    bench.sessions.update("agent:main:main", {"thinkingLevel": "medium"})
    await bench.turn("/new two", ["2"])
    assert [request.thinking for request in bench.model.requests] == ["off", "medium"]


async def test_a_level_of_another_program_is_the_highest_that_requests_know(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    await bench.turn("one", ["1"])
    entry = bench.entry()
    line = {"type": "thinking_level_change", "id": "beef0001", "parentId": bench.transcript().branch()[-1].id}
    line |= {"timestamp": "2026-03-16T12:00:00.000Z", "thinkingLevel": "xhigh"}
    with bench.sessions.transcript_of(entry).open("a") as file:
        file.write(json.dumps(line) + "\n")
    await bench.turn("two", ["2"])
    assert bench.model.requests[-1].thinking == "high"
