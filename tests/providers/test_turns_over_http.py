"""Whole turns through each provider's own package, against a server that checks what it gets as the real one would."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.providers.protocol_server import KEY, Answer, Break, Call, ProtocolServer, Refuse, Wait
from tests.providers.served import ANTHROPIC, GEMINI, OLLAMA, OPENAI, Provider, ServedBench, every_provider
from turngraph.errors import ModelError
from turngraph.models.model import ToolSpec
from turngraph.summary_sections import build_sections
from turngraph.tools.tool import ToolContext, ToolResult

AT_ONCE = {"retry-after": "0"}
streamed_or_whole = pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "whole"])


@dataclass
class LookUp:
    """A tool that tells what it was asked."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    spec = ToolSpec(
        "look_up",
        "Look a word up.",
        {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    )

    def file_argument(self, arguments: Any) -> None:
        return None

    async def execute(self, arguments: Any, context: ToolContext) -> ToolResult:
        self.asked.append(dict(arguments))
        if arguments["word"] == "broken":
            return ToolResult([{"type": "text", "text": "no such word"}], is_error=True)
        return ToolResult([{"type": "text", "text": f"NaN means {arguments['word']}"}])


def look_up(word: str, **more: Any) -> Call:
    return Call("look_up", {"word": word}, **more)


def reasons(outcome: Any) -> list[str]:
    return [decision.why for _, decision in outcome.trace.decisions if decision.node == "prompt:model"]


@every_provider
@streamed_or_whole
async def test_a_tool_loop_over_several_rounds_is_accepted_and_recorded(
    provider: Provider, streaming: bool, tmp_path: Path
) -> None:
    script = (
        Answer("Let me look.", (look_up("日本語"), look_up("broken"))),
        Answer(calls=(look_up("👩‍👩‍👧"),)),
        "They mean 日本語 and 👩‍👩‍👧.",
    )
    tool = LookUp()
    with ProtocolServer(provider.protocol(), *script, then="Yes.") as server:
        bench = ServedBench(tmp_path, provider, server, streaming=streaming, tools=[tool])
        outcome = await bench.turn("what do they mean?")
        again = await bench.turn("sure?")
    assert server.refusals == []
    assert outcome.reply is not None and outcome.reply.text == "They mean 日本語 and 👩‍👩‍👧."
    assert again.reply is not None and again.reply.text == "Yes."
    assert [asked["word"] for asked in tool.asked] == ["日本語", "broken", "👩‍👩‍👧"]
    assert [role for role, _ in bench.spoken()] == [
        *("user", "assistant", "toolResult", "toolResult", "assistant", "toolResult", "assistant"),
        *("user", "assistant"),
    ]
    stops = [e.raw["message"].get("stopReason") for e in bench.transcript().entries() if e.type == "message"]
    assert [stop for stop in stops if stop] == ["toolUse", "toolUse", "stop", "stop"]
    sent = json.dumps(server.requests[-1], ensure_ascii=False)
    assert "NaN means 日本語" in sent and "no such word" in sent


@every_provider
async def test_the_usage_that_the_provider_reports_is_recorded_without_counting_the_cache_twice(
    provider: Provider, tmp_path: Path
) -> None:
    with ProtocolServer(provider.protocol(), Answer("Hello.", cache_read=5)) as server:
        bench = ServedBench(tmp_path, provider, server)
        await bench.turn("hi")
    answer = [e.raw["message"] for e in bench.transcript().entries() if e.type == "message"][-1]
    usage = answer["usage"]
    assert usage["cacheRead"] == 5
    assert usage["input"] + usage["cacheRead"] == server.largest_prompt
    assert usage["totalTokens"] == server.largest_prompt + usage["output"]
    assert (answer["provider"], answer["api"]) == (provider.name, bench.served.facts.api)


@every_provider
@streamed_or_whole
async def test_after_a_rate_limit_the_turn_waits_as_long_as_it_was_told(
    provider: Provider, streaming: bool, tmp_path: Path
) -> None:
    told = Refuse(429, "slow down", headers={"retry-after": "0.05"})
    with ProtocolServer(provider.protocol(), told, told, "Now.") as server:
        bench = ServedBench(tmp_path, provider, server, streaming=streaming)
        outcome = await bench.turn("hi")
    assert outcome.reply is not None and outcome.reply.text == "Now."
    assert len(server.requests) == 3
    assert [why for why in reasons(outcome) if "retry" in why] == [
        "retry 1 of 3 in 0.05 s after: rate",
        "retry 2 of 3 in 0.05 s after: rate",
    ]
    assert [text for _, text in bench.spoken()] == ["hi", "Now."]


async def test_the_delay_that_google_puts_into_the_error_is_kept(tmp_path: Path) -> None:
    with ProtocolServer(
        GEMINI.protocol(), Refuse(429, "Quota exceeded for requests per minute", "retry 0.05s"), "Now."
    ) as server:
        outcome = await ServedBench(tmp_path, GEMINI, server).turn("hi")
    assert outcome.reply is not None and outcome.reply.text == "Now."
    assert any("in 0.05 s after: rate" in why for why in reasons(outcome))


@every_provider
@pytest.mark.parametrize("status", [500, 503, 529])
async def test_a_server_error_is_tried_again(provider: Provider, status: int, tmp_path: Path) -> None:
    with ProtocolServer(provider.protocol(), Refuse(status, "internal error", headers=AT_ONCE), "There.") as server:
        bench = ServedBench(tmp_path, provider, server)
        outcome = await bench.turn("hi")
    assert outcome.reply is not None and outcome.reply.text == "There."
    assert len(server.requests) == 2
    assert any("after: server" in why for why in reasons(outcome))


@every_provider
@pytest.mark.parametrize(("status", "kind"), [(400, "bad_request"), (401, "auth"), (403, "auth"), (404, "missing")])
async def test_what_a_retry_cannot_mend_is_not_tried_again(
    provider: Provider, status: int, kind: str, tmp_path: Path
) -> None:
    refusal = Refuse(status, "this cannot be answered", headers=AT_ONCE)
    with ProtocolServer(provider.protocol(), refusal, then="never") as server:
        bench = ServedBench(tmp_path, provider, server)
        outcome = await bench.turn("hi")
    assert len(server.requests) == 1
    assert outcome.reply is not None and outcome.reply.kind == "error"
    assert any(f"({kind})" in why for why in reasons(outcome)), reasons(outcome)


@every_provider
@pytest.mark.parametrize("quietly", [False, True], ids=["reset", "quietly"])
@pytest.mark.slow
async def test_an_answer_that_breaks_off_is_asked_for_again_and_only_the_whole_one_is_kept(
    provider: Provider, quietly: bool, tmp_path: Path
) -> None:
    half = Break(Answer("This sentence never comes to its end, for the line breaks."), 3, quietly)
    with ProtocolServer(provider.protocol(), half, "This one does.") as server:
        bench = ServedBench(tmp_path, provider, server)
        outcome = await bench.turn("hi")
    assert outcome.reply is not None and outcome.reply.text == "This one does."
    assert [text for _, text in bench.spoken()] == ["hi", "This one does."]
    assert any("after: network" in why for why in reasons(outcome)), reasons(outcome)


@every_provider
@pytest.mark.slow
async def test_a_tool_call_that_breaks_off_is_never_run(provider: Provider, tmp_path: Path) -> None:
    tool = LookUp()
    half = Break(
        Answer(calls=(look_up("a long word that takes several pieces"),)), 2 if provider is not GEMINI else 0, True
    )
    with ProtocolServer(provider.protocol(), half, "Never mind.") as server:
        bench = ServedBench(tmp_path, provider, server, tools=[tool])
        outcome = await bench.turn("hi")
    assert tool.asked == []
    assert outcome.reply is not None and outcome.reply.text == "Never mind."


@every_provider
async def test_the_overflow_error_of_each_provider_leads_to_a_compaction_and_an_answer(
    provider: Provider, tmp_path: Path
) -> None:
    sets = ["agents.defaults.compaction.keepRecentTokens=500", "agents.defaults.compaction.memoryFlush.enabled=false"]
    with ProtocolServer(provider.protocol()) as server:
        bench = ServedBench(tmp_path, provider, server, sets=sets, window=16_000)
        for number in range(6):
            await bench.turn(f"message number {number} " + "word " * 900)
        server.window = 7_000  # smaller than we believe, so that the provider refuses what we send
        server.then = lambda body: build_sections(asks="message number") if _is_summary(body) else "At last."
        outcome = await bench.turn("the new message")
    assert server.refusals, "the provider never refused"
    assert outcome.reply is not None and outcome.reply.text == "At last."
    assert [text for role, text in bench.spoken() if role == "user"].count("the new message") == 1
    assert any("(overflow)" in why for why in reasons(outcome)), reasons(outcome)
    assert bench.entry()["compactionCount"] >= 1


def _is_summary(body: dict[str, Any]) -> bool:
    return "<conversation>" in json.dumps(body)


@every_provider
async def test_an_answer_that_takes_longer_than_the_turn_may_is_given_up(provider: Provider, tmp_path: Path) -> None:
    with ProtocolServer(provider.protocol(), Wait(1.0, Answer("Too late."))) as server:
        bench = ServedBench(tmp_path, provider, server)
        deadline = asyncio.get_running_loop().time() + 0.3
        outcome = await bench.turn("hi", deadline=deadline)
    assert outcome.reply is not None and outcome.reply.kind == "error"
    assert any("(timeout)" in why for why in reasons(outcome))


@pytest.mark.parametrize("provider", [OPENAI.as_param, ANTHROPIC.as_param])
@streamed_or_whole
@pytest.mark.parametrize("raw", ['{"word": "cut of', "not json at all", '["a", "list"]'], ids=["cut", "text", "list"])
async def test_a_malformed_tool_call_is_told_to_the_model_and_not_run(
    provider: Provider, streaming: bool, raw: str, tmp_path: Path
) -> None:
    if provider is ANTHROPIC and not streaming:
        pytest.skip("a whole answer of Anthropic holds an object")
    unreadable = raw.startswith("[") and not streaming  # langchain-openai itself refuses it: it is asked for again
    tool = LookUp()
    script = (Answer(calls=(Call("look_up", raw=raw),)), Answer(calls=(look_up("right"),)), "Right.")
    with ProtocolServer(provider.protocol(), *script) as server:
        bench = ServedBench(tmp_path, provider, server, tools=[tool], streaming=streaming)
        outcome = await bench.turn("look it up")
    assert server.refusals == []
    assert tool.asked == [{"word": "right"}]
    assert outcome.reply is not None and outcome.reply.text == "Right."
    assert unreadable != ("Missing argument: word" in json.dumps(server.requests[1]))
    assert unreadable == any("retry 1" in why for why in reasons(outcome))


@every_provider
async def test_a_fallback_of_another_provider_gets_the_history_in_its_own_form(
    provider: Provider, tmp_path: Path
) -> None:
    other = ANTHROPIC if provider is OPENAI else OPENAI
    with (
        ProtocolServer(provider.protocol(), Answer(calls=(look_up("one"),)), "First.") as server,
        ProtocolServer(other.protocol(), "From the other.") as second,
    ):
        bench = ServedBench(tmp_path / "a", provider, server, tools=[LookUp()])
        fallback = ServedBench(tmp_path / "b", other, second).served
        await bench.turn("look it up")
        server.then = Refuse(401, "who are you?")
        outcome = await bench.turn("and again", fallbacks=(fallback,))
    assert second.refusals == []
    assert outcome.reply is not None and outcome.reply.text == "From the other."
    assert any(f"trying {fallback.facts.name}" in why for why in reasons(outcome))


@pytest.mark.parametrize("provider", [p.as_param for p in (OPENAI, ANTHROPIC, GEMINI, OLLAMA)])
def test_turns_from_plain_code_have_an_event_loop_each(provider: Provider, tmp_path: Path) -> None:
    with ProtocolServer(provider.protocol(), then="Fine.") as server:
        bench = ServedBench(tmp_path, provider, server)
        replies = [asyncio.run(bench.turn(text)).reply for text in ("one", "two", "three")]
    assert [reply and reply.text for reply in replies] == ["Fine."] * 3


@every_provider
async def test_no_key_appears_in_replies_errors_traces_or_digests(
    provider: Provider, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    echo = Refuse(401, f"Incorrect API key provided: {KEY}")
    with ProtocolServer(provider.protocol(), echo, echo) as server:
        bench = ServedBench(tmp_path, provider, server)
        outcome = await bench.turn("hi")
        with pytest.raises(ModelError) as raised:
            await _ask(bench)
    shown = [repr(outcome), repr(bench.sink.traces), repr(bench.sink.spools), repr(raised.value), str(raised.value)]
    shown += [repr(raised.value.__cause__), repr(raised.value.__context__), repr(bench.served), *capfd.readouterr()]
    shown += [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert "Incorrect API key" in str(raised.value)
    assert not any(KEY in text for text in shown)
    assert KEY not in bench.settings.model_dump_json()


async def _ask(bench: ServedBench) -> None:
    from turngraph.messages import user_message
    from turngraph.models.model import ModelRequest

    request = ModelRequest(system="", messages=(user_message("hi", bench.clock.now()),))
    async for _ in bench.served.stream(request):
        pass
