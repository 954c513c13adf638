"""Recorded sessions spoken again over HTTP at a 16k window: not one request may be refused."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.providers.protocol_server import Answer, Body, Call, ProtocolServer
from tests.providers.served import Provider, ServedBench, every_provider
from turngraph.clock import SystemClock
from turngraph.messages import Message
from turngraph.replay.recorded_tools import recorded_tools
from turngraph.replay.source import RecordedTurn, read_session
from turngraph.summary_sections import build_sections
from turngraph.tokens import default_counter

WINDOW = 16_000
# The summaries here are canned; whether a summary is good enough is tested elsewhere.
PLAIN_SUMMARIES = ("agents.defaults.compaction.qualityGuard.enabled=false",)
FLUSH = "This run is a memory flush"
REAL = Path("../shared/data/transcripts/coding-session-v1.jsonl")
SAMPLES = Path(str(files("turngraph").joinpath("data/samples/home/agents/main/sessions")))
SMALL = pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name[:8], marks=[] if "topic" in path.name else pytest.mark.slow)
        for path in sorted(SAMPLES.glob("*.jsonl*"))
        if path.stat().st_size < 200_000
    ],
)
STREAMED_OR_WHOLE = pytest.mark.parametrize(
    "streaming", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["streamed", "whole"]
)


class Recorded:
    """Answers a turn with what was recorded, a summary request with a summary, a flush with silence."""

    def __init__(self) -> None:
        self.answers: list[Message] = []
        self.summaries = self.flushes = 0

    def __call__(self, body: Body) -> Answer:
        asked = json.dumps(body)
        if "<conversation>" in asked:
            self.summaries += 1
            return Answer(build_sections(asks="go on with the work"))
        if FLUSH in asked:
            self.flushes += 1
            return Answer("NO_REPLY")
        return _answer(self.answers.pop(0)) if self.answers else Answer("That was all.")


def _answer(message: Message) -> Answer:
    calls = tuple(Call(call.name, dict(call.arguments), call.id) for call in message.tool_calls)
    thinking = next((block for block in message.blocks if block.get("type") == "thinking"), {})
    return Answer(message.text, calls, thinking.get("thinking", ""), "c2lnbmF0dXJl" if thinking else "")


async def speak(
    path: Path, provider: Provider, root: Path, streaming: bool
) -> tuple[ProtocolServer, ServedBench, Recorded]:
    """Run every turn of a recorded session against a server of ``provider``."""
    session = read_session(path, SystemClock())
    names = {call.name for turn in session.turns for answer in turn.answers for call in answer.tool_calls}
    recorded = Recorded()
    with ProtocolServer(provider.protocol(), window=WINDOW, then=recorded, counter=default_counter()) as server:
        bench = ServedBench(
            root,
            provider,
            server,
            sets=PLAIN_SUMMARIES,
            window=WINDOW,
            streaming=streaming,
            counter=default_counter(),
        )
        for turn in session.turns:
            recorded.answers = _of_turn(turn)
            bench.clock.at = max(bench.clock.at, turn.at)
            tools = recorded_tools(names, turn.results)
            outcome = await bench.turn(turn.user.text or "(media)", tools=tools)
            assert outcome.reply is not None and outcome.reply.kind != "error", (turn.number, outcome.reply)
    return server, bench, recorded


def _of_turn(turn: RecordedTurn) -> list[Message]:
    """Leave out answers that say nothing: a provider does not end an answer so."""
    return [answer for answer in turn.answers if answer.text or answer.tool_calls]


def figures(server: ProtocolServer, bench: ServedBench, recorded: Recorded) -> dict[str, Any]:
    return {
        "requests": len(server.requests),
        "refusals": len(server.refusals),
        "largest prompt": server.largest_prompt,
        "compactions": bench.entry().get("compactionCount", 0),
        "summaries": recorded.summaries,
        "flushes": recorded.flushes,
    }


async def speak_unrefused(provider: Provider, path: Path, streaming: bool, tmp_path: Path) -> ServedBench:
    server, bench, recorded = await speak(path, provider, tmp_path, streaming)
    print(provider.name, path.name[:8], "streamed" if streaming else "whole", figures(server, bench, recorded))
    assert server.refusals == []
    assert server.largest_prompt < WINDOW
    return bench


@every_provider
@SMALL
@STREAMED_OR_WHOLE
async def test_a_demo_session_is_spoken_without_one_refusal(
    provider: Provider, path: Path, streaming: bool, tmp_path: Path
) -> None:
    await speak_unrefused(provider, path, streaming, tmp_path)


@every_provider
@STREAMED_OR_WHOLE
@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(REAL, id="coding", marks=pytest.mark.skipif(not REAL.exists(), reason=f"{REAL} is absent")),
        pytest.param(next(SAMPLES.glob("0b7c2f0e*")), id="demo"),
    ],
)
async def test_a_long_session_is_spoken_without_one_refusal(
    provider: Provider, path: Path, streaming: bool, tmp_path: Path
) -> None:
    bench = await speak_unrefused(provider, path, streaming, tmp_path)
    assert bench.entry()["compactionCount"] >= 2
