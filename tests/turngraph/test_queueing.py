"""What becomes of messages that come in while a turn runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from turngraph import open_home
from turngraph.api import Agent
from turngraph.inbound import Inbound
from turngraph.models.model import Finished, ModelFacts, ModelRequest
from turngraph.models.scripted import ScriptedModel
from turngraph.queueing import Waiting, next_turns


class Gate:
    """A model whose first answer waits until it is let go."""

    def __init__(self, answers: list[str]) -> None:
        self.inner = ScriptedModel(answers, then="later")
        self.facts = ModelFacts("scripted", "gate")
        self.open = asyncio.Event()
        self.asked = asyncio.Event()

    async def stream(self, request: ModelRequest) -> Any:
        first = not self.asked.is_set()
        self.asked.set()
        if first:
            await self.open.wait()
        async for event in self.inner.stream(request):
            if isinstance(event, Finished) or not first:
                yield event


def _agent(tmp_path: Path, mode: str, gate: Gate, *more: str) -> Agent:
    sets = [f"messages.queue.mode={mode}", "messages.queue.debounceMs=0", *more]
    return open_home(tmp_path, sets=sets, env={}).agent(model=gate)


def _users(gate: Gate) -> list[list[str]]:
    return [[m.text for m in request.messages if m.role == "user"] for request in gate.inner.requests]


async def _three(agent: Agent, gate: Gate) -> list[Any]:
    first = asyncio.create_task(agent.receive("one"))
    await gate.asked.wait()
    others = [asyncio.create_task(agent.receive(text)) for text in ("two", "three")]
    await asyncio.sleep(0.05)
    gate.open.set()
    return await asyncio.gather(first, *others)


async def test_collect_answers_all_that_waited_in_one_turn(tmp_path: Path) -> None:
    gate = Gate(["first", "both"])
    results = await _three(_agent(tmp_path, "collect", gate), gate)
    assert [result.text for result in results] == ["first", "both", "both"]
    assert _users(gate)[-1] == ["one", "two\n\nthree"]


async def test_followup_gives_each_message_a_turn_of_its_own(tmp_path: Path) -> None:
    gate = Gate(["first", "second", "third"])
    await _three(_agent(tmp_path, "followup", gate), gate)
    assert _users(gate)[-1] == ["one", "two", "three"]
    assert len(gate.inner.requests) == 3


async def test_steering_messages_join_the_running_turn(tmp_path: Path) -> None:
    gate = Gate(["first", "after two", "after three"])
    results = await _three(_agent(tmp_path, "steer", gate), gate)
    assert {result.text for result in results} == {"after three"}
    assert len({result.trace.trace_id for result in results}) == 1


async def test_an_interrupting_message_ends_the_turn_and_loses_nothing(tmp_path: Path) -> None:
    gate = Gate(["never said"])
    agent = _agent(tmp_path, "interrupt", gate)
    first = asyncio.create_task(agent.receive("one"))
    await gate.asked.wait()
    second = await agent.receive("two")
    assert second is not None
    assert (await first) is not None
    assert "one" in _users(gate)[-1][-1]
    assert "two" in _users(gate)[-1][-1]


async def test_messages_of_other_sessions_run_side_by_side(tmp_path: Path) -> None:
    gate = Gate(["first"])
    agent = _agent(tmp_path, "collect", gate)
    first = asyncio.create_task(agent.receive("one"))
    await gate.asked.wait()
    other = await asyncio.wait_for(agent.receive("hello", session_key="agent:main:other"), 20)
    assert other is not None
    gate.open.set()
    await first


async def test_a_compaction_ends_the_running_turn_and_is_not_joined_with_what_waits(tmp_path: Path) -> None:
    gate = Gate(["never said"])
    agent = _agent(tmp_path, "collect", gate)
    first = asyncio.create_task(agent.receive("one"))
    await gate.asked.wait()
    waiting = asyncio.create_task(agent.receive("two"))
    await asyncio.sleep(0.01)
    await asyncio.wait_for(agent.receive("/compact the plan"), 20)
    gate.open.set()
    await asyncio.gather(first, waiting)
    replies = [trace.facts["reply"] for trace in agent.traces().turns()]
    assert replies.count("command") == 1
    assert all("/compact" not in text for asked in _users(gate) for text in asked)
    assert _users(gate)[-1] == ["one\n\ntwo"]


async def test_a_command_that_shows_waits_for_its_turn_and_does_not_steer(tmp_path: Path) -> None:
    gate = Gate(["first"])
    agent = _agent(tmp_path, "steer", gate)
    first = asyncio.create_task(agent.receive("one"))
    await gate.asked.wait()
    status = asyncio.create_task(agent.receive("/status"))
    await asyncio.sleep(0.01)
    gate.open.set()
    result = await status
    assert (await first) is not None
    assert result is not None and result.kind == "command" and result.text.startswith("Session ")
    assert _users(gate) == [["one"]]


def test_a_command_has_a_turn_of_its_own_and_no_note_in_front_of_it() -> None:
    waiting = Waiting(tuple(Inbound(text=text) for text in ("/compact", "a", "b", "/status", "c")), dropped=("old",))
    turns = next_turns(waiting, "collect", lambda message: message.text.startswith("/"))
    assert [turn.text.rpartition("]\n\n")[2] for turn in turns] == ["/compact", "a\n\nb", "/status", "c"]
    assert turns[0].text == "/compact" and "- old" in turns[1].text


@pytest.mark.parametrize(
    ("drop", "kept", "said"),
    [("old", ["b", "c"], ""), ("new", ["a", "b"], ""), ("summarize", ["b", "c"], "- a")],
)
def test_a_full_queue_drops_as_the_settings_say(drop: Any, kept: list[str], said: str) -> None:
    waiting = Waiting()
    for text in "abc":
        waiting = waiting.add(Inbound(text=text), 2, drop)
    assert [message.text for message in waiting.messages] == kept
    turns = next_turns(waiting, "followup")
    assert said in turns[0].text
