"""Single requests over HTTP: any repaired history, thinking with its signatures, images, cache marks, Ollama."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans

from nodes.history.provider_policy import resolve_policy
from nodes.sanitize import prepare_request
from tests.builders import assistant, call, result, user
from tests.nodes.histories import session_histories
from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.gemini_generate import GeminiGenerate
from tests.providers.ollama_chat import OllamaChat
from tests.providers.protocol_server import Answer, Call, ProtocolServer
from tests.providers.served import ANTHROPIC, GEMINI, OLLAMA, Provider, ServedBench, every_provider
from tests.providers.test_turns_over_http import LookUp
from turngraph.messages import Message
from turngraph.models.model import Finished, ModelRequest

NOW_MS = 1_773_000_000_000
RED_DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="


def ask(bench: ServedBench, *messages: Message, **fields: Any) -> Message:
    facts = bench.served.facts
    policy = resolve_policy(facts.provider, facts.api, facts.model_id)
    prepared = prepare_request(messages, policy, NOW_MS).messages
    return asyncio.run(_ask(bench, ModelRequest(fields.pop("system", ""), prepared, **fields)))


async def _ask(bench: ServedBench, request: ModelRequest) -> Message:
    async for event in bench.served.stream(request):
        if isinstance(event, Finished):
            return event.message
    raise AssertionError("no answer")


@every_provider
@pytest.mark.slow
def test_any_history_is_accepted_once_it_is_repaired(provider: Provider, tmp_path: Path) -> None:
    with ProtocolServer(provider.protocol(), window=10_000_000) as server:
        bench = ServedBench(tmp_path, provider, server)

        @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
        @given(session_histories, booleans())
        def check(history: tuple[Message, ...], own: bool) -> None:
            spoken = [message.evolve(provider=provider.name) for message in history] if own else history
            ask(bench, *spoken, user("and now?"), max_output_tokens=1_000)
            assert server.refusals == []

        check()
    assert len(server.requests) >= 100


@every_provider
def test_an_image_in_a_tool_result_reaches_the_provider(provider: Provider, tmp_path: Path) -> None:
    picture = {"type": "image", "data": RED_DOT, "mimeType": "image/png"}
    with ProtocolServer(provider.protocol()) as server:
        bench = ServedBench(tmp_path, provider, server)
        shown = result("t1", [{"type": "text", "text": "a dot"}, picture])
        ask(bench, user("draw"), assistant(call("t1"), call("t2")), shown, result("t2", "no picture"))
    assert server.refusals == []
    assert json.dumps(server.requests[0]).count(RED_DOT) == 1


@pytest.mark.skipif("not __import__('importlib.util').util.find_spec('langchain_anthropic')")
@pytest.mark.parametrize("streaming", [True, False])
async def test_thinking_of_anthropic_goes_back_with_its_signature_in_a_tool_loop(
    streaming: bool, tmp_path: Path
) -> None:
    thought = Answer("", (Call("look_up", {"word": "x"}),), "First I look.", SIGNATURE)
    with ProtocolServer(AnthropicMessages(signatures={SIGNATURE}), thought, "Found.") as server:
        bench = ServedBench(tmp_path, ANTHROPIC, server, tools=[LookUp()], streaming=streaming)
        outcome = await bench.turn("look")
    assert server.refusals == []
    assert outcome.reply is not None and outcome.reply.text == "Found."
    block = {"type": "thinking", "thinking": "First I look.", "signature": SIGNATURE}
    assert server.requests[1]["messages"][1]["content"][0] == block


@pytest.mark.skipif("not __import__('importlib.util').util.find_spec('langchain_google_genai')")
@pytest.mark.parametrize("streaming", [True, False])
async def test_thought_signatures_of_gemini_go_back_with_their_calls(streaming: bool, tmp_path: Path) -> None:
    thought = Answer("", (Call("look_up", {"word": "x"}, signature=SIGNATURE), Call("look_up", {"word": "y"})))
    with ProtocolServer(GeminiGenerate(signatures={SIGNATURE}), thought, "Found.") as server:
        bench = ServedBench(tmp_path, GEMINI, server, tools=[LookUp()], streaming=streaming)
        outcome = await bench.turn("look")
    assert server.refusals == []
    assert outcome.reply is not None and outcome.reply.text == "Found."
    parts = server.requests[1]["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [SIGNATURE, None]


@pytest.mark.skipif("not __import__('importlib.util').util.find_spec('langchain_anthropic')")
async def test_cache_marks_stand_on_the_stable_prefix_and_on_what_ends_the_request(tmp_path: Path) -> None:
    script = (Answer(calls=(Call("look_up", {"word": "x"}),)), "Found.")
    with ProtocolServer(AnthropicMessages(), *script) as server:
        bench = ServedBench(tmp_path, ANTHROPIC, server, tools=[LookUp()])
        await bench.turn("look")
    for body in server.requests:
        assert "cache_control" in body["system"][0]
        assert not any("cache_control" in block for block in body["system"][1:])
        assert "cache_control" in body["messages"][-1]["content"][-1]
    first, second = (body["system"][0]["text"] for body in server.requests)
    assert first == second and len(first) > 500


@pytest.mark.skipif("not __import__('importlib.util').util.find_spec('langchain_ollama')")
async def test_ollama_is_told_the_window_and_answers_with_tools(tmp_path: Path) -> None:
    script = (Answer("I look.", (Call("look_up", {"word": "日本語"}),)), "Found.")
    tool = LookUp()
    with ProtocolServer(OllamaChat(), *script) as server:
        bench = ServedBench(tmp_path, OLLAMA, server, tools=[tool], window=16_000)
        outcome = await bench.turn("look")
    assert server.refusals == []
    assert outcome.reply is not None and outcome.reply.text == "Found."
    assert tool.asked == [{"word": "日本語"}]
    assert [body["options"]["num_ctx"] for body in server.requests] == [16_000, 16_000]
    assert [message["role"] for message in server.requests[1]["messages"]] == ["system", "user", "assistant", "tool"]
    answer = [entry.raw["message"] for entry in bench.transcript().entries() if entry.type == "message"][-1]
    assert answer["usage"]["input"] > 0 and answer["stopReason"] == "stop"
