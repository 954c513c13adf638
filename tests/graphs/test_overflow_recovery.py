"""Turns whose prompt is refused: the loop edges back to the prompt, and their bounds (spec/compaction.md 6)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.turns import TurnBench, path
from turngraph.errors import ModelError
from turngraph.models.model import ModelRequest
from turngraph.models.scripted import ScriptedModel
from turngraph.summary_sections import build_sections
from turngraph.tools.read import ReadTool

OVERFLOW = ModelError("prompt is too long: 21,000 tokens > 16000 maximum", kind="overflow")
GOOD = build_sections(asks="message number")
SMALL_TAIL = ("agents.defaults.compaction.keepRecentTokens=500",)


async def talked(root: Path, turns: int = 6, window: int = 16_000, sets: tuple[str, ...] = SMALL_TAIL) -> TurnBench:
    bench = TurnBench(root, sets, window=window, tools=[ReadTool()])
    for number in range(turns):
        await bench.turn(f"message number {number} " + "x" * 600, ["answer " + "y" * 600])
    return bench


def replying(bench: TurnBench, *answers: Any, window: int = 16_000) -> ScriptedModel:
    """A model that summarises when asked to and otherwise gives the answers in order."""
    left = list(answers)
    facts = replace(bench.facts, context_window=window)

    def answer(request: ModelRequest) -> Any:
        if request.purpose == "summary":
            return GOOD
        if request.purpose == "flush":
            return "NO_REPLY"
        return left.pop(0)

    return ScriptedModel(then=answer, facts=facts)


async def test_a_message_that_overflows_twice_is_stored_once(tmp_path: Path) -> None:
    """known-faults 2.3."""
    bench = await talked(tmp_path)
    bench.model = replying(bench, OVERFLOW, OVERFLOW, "at last")
    outcome = await bench.turn("the new message")
    assert outcome.reply is not None and outcome.reply.text == "at last"
    assert [text for role, text in bench.spoken() if role == "user"].count("the new message") == 1
    assert path(outcome.trace).count("compact") == 2
    assert bench.entry()["compactionCount"] == 2


class HangsOnSummaries(ScriptedModel):
    """Never ends a summary; otherwise as scripted."""

    summaries = 0

    async def stream(self, request: ModelRequest) -> Any:
        if request.purpose == "summary":
            self.summaries += 1
            await asyncio.Event().wait()
        async for event in super().stream(request):
            yield event


async def test_a_summariser_that_hangs_leaves_a_session_that_answers_the_next_message(tmp_path: Path) -> None:
    """known-faults 5.2: at most three attempts a turn, each with its outcome."""
    bench = await talked(tmp_path, sets=(*SMALL_TAIL, "agents.defaults.compaction.timeoutSeconds=1"))
    bench.model = HangsOnSummaries([OVERFLOW, OVERFLOW, OVERFLOW], then=OVERFLOW, facts=bench.facts)
    outcome = await bench.turn("the new message")
    failed = [d.data for _, d in outcome.trace.decisions if d.node == "compact" and d.what == "failed"]
    assert 1 <= bench.model.summaries == len([data for data in failed if data.get("code") == "timeout"]) <= 3
    assert outcome.reply is not None and outcome.reply.kind == "error"
    bench.model = replying(bench, "here I am")
    later = await bench.turn("the next message")
    assert later.reply is not None and later.reply.text == "here I am"


async def test_after_a_compaction_the_size_is_an_estimate_until_the_next_answer_reports_it(tmp_path: Path) -> None:
    """known-faults 5.7: 181k of 200k, compacted to about 10k."""
    bench = TurnBench(tmp_path, ("agents.defaults.compaction.keepRecentTokens=4000",), window=200_000)
    for number in range(4):
        bench.model = replying(bench, "y" * 90_000, window=200_000)
        await bench.turn(f"message number {number} " + "x" * 90_000)
    seen: list[Any] = []

    def answer(request: ModelRequest) -> Any:
        if request.purpose != "turn":
            return GOOD if request.purpose == "summary" else "NO_REPLY"
        seen.append(dict(bench.entry()))
        usage = {"input": 9_876, "output": 20, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 9_896}
        return {"content": "done", "usage": usage}

    bench.model = ScriptedModel(then=answer, facts=bench.facts)
    await bench.turn("one more")
    assert seen[0]["compactionCount"] == 1 and seen[0]["totalTokensFresh"] is False
    assert seen[0]["totalTokens"] < 60_000
    after = bench.entry()
    assert (after["totalTokens"], after["totalTokensFresh"], after["compactionCount"]) == (9_876, True, 1)


async def test_when_nothing_helps_the_user_is_told_what_to_do_and_the_session_stays(tmp_path: Path) -> None:
    """known-faults 1.1 and 4.3."""
    bench = await talked(tmp_path)
    before = bench.entry()["sessionId"]
    bench.model = replying(bench, *[OVERFLOW] * 9)
    outcome = await bench.turn("the new message")
    assert outcome.reply is not None and outcome.reply.kind == "error"
    assert all(way in outcome.reply.text for way in ("/compact", "/new", "larger window"))
    assert bench.entry()["sessionId"] == before
    assert len([node for node in path(outcome.trace) if node == "prompt:model"]) <= 4
    bench.model = replying(bench, "fine")
    later = await bench.turn("again")
    assert later.reply is not None and later.reply.text == "fine"


async def test_a_time_out_with_a_nearly_full_window_compacts_and_tries_again(tmp_path: Path) -> None:
    bench = await talked(tmp_path)
    usage = {"input": 7_900, "output": 5, "cacheRead": 3_000, "cacheWrite": 0, "totalTokens": 10_905}
    await bench.turn("one more", [{"content": "ok", "usage": usage}])
    timeout = ModelError("no answer within 60 s", kind="timeout")
    bench.model = replying(bench, timeout, "made it")
    outcome = await bench.turn("the slow one", live=False)
    assert outcome.reply is not None and outcome.reply.text == "made it"
    assert [d.data["trigger"] for _, d in outcome.trace.decisions if d.what == "summarised"] == ["timeout_recovery"]


async def test_off_reports_the_overflow_and_touches_nothing(tmp_path: Path) -> None:
    """known-faults 5.9."""
    bench = await talked(tmp_path, sets=("agents.defaults.compaction.mode=off",))
    outcome = await bench.turn("the new message", [OVERFLOW])
    assert outcome.reply is not None and "compaction.mode is off" in outcome.reply.text
    assert "compact" not in path(outcome.trace) and "memory_flush" not in path(outcome.trace)


async def test_without_the_threshold_only_what_cannot_fit_is_compacted(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, (*SMALL_TAIL, "agents.defaults.compaction.enabled=false"), window=16_000)
    compacted_at = []
    for number in range(12):  # 1,800 tokens a turn: past the threshold of 12,000 after the seventh
        bench.model = replying(bench, "answer " + "y" * 3_600)
        outcome = await bench.turn(f"message number {number} " + "x" * 3_600)
        assert outcome.reply is not None and outcome.reply.kind == "text"
        compacted_at += [number for _, d in outcome.trace.decisions if d.what == "summarised"]
        triggers = [d.data["trigger"] for _, d in outcome.trace.decisions if d.what == "summarised"]
        assert triggers in ([], ["overflow"])
    assert compacted_at and compacted_at[0] >= 8


async def test_the_command_compacts_and_answers(tmp_path: Path) -> None:
    bench = await talked(tmp_path, turns=12)
    outcome = await bench.turn("/compact the deploy", [GOOD] * 8)
    assert outcome.reply is not None and outcome.reply.kind == "command"
    assert outcome.reply.text.startswith("⚙️ Compacted (")
    assert "the deploy" in bench.model.requests[-1].messages[0].text
    assert "prompt" not in path(outcome.trace)


async def test_workspace_rules_stand_in_the_requests_of_the_turn_after_a_compaction_and_then_go(tmp_path: Path) -> None:
    """Design decision 10."""
    bench = await talked(tmp_path, turns=12)
    (tmp_path / "workspace" / "AGENTS.md").write_text("## Red Lines\nnever push\n", encoding="utf-8")
    await bench.turn("/compact", [GOOD] * 8)
    await bench.turn("next", ["ok"])
    assert "[Post-compaction context refresh]" in bench.model.requests[-1].system
    assert bench.model.requests[-1].stable_system_chars < bench.model.requests[-1].system.index("[Post-compaction")
    await bench.turn("after that", ["ok"])
    assert "[Post-compaction context refresh]" not in bench.model.requests[-1].system


async def test_a_silent_reply_is_not_shown_while_it_streams(tmp_path: Path) -> None:
    """spec/compaction.md 1.6."""
    bench = TurnBench(tmp_path)
    outcome = await bench.turn("psst", ["NO_REPLY"])
    shown = [data["text"] for event, data in bench.sink.spools[-1].events if event == "message_update"]
    assert shown == [] and outcome.reply is not None and outcome.reply.kind == "silent"
    await bench.turn("hello", ["NO REPLY is not what I mean"])
    shown = [data["text"] for event, data in bench.sink.spools[-1].events if event == "message_update"]
    assert "".join(shown) == "NO REPLY is not what I mean"


async def test_a_prompt_that_the_provider_cut_without_a_word_is_compacted_and_sent_again(tmp_path: Path) -> None:
    """spec/compaction.md 2.8: silent overflow."""
    bench = await talked(tmp_path)
    usage = {"input": 20_000, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 20_005}
    bench.model = replying(bench, {"content": "I forgot what you said", "usage": usage}, "with everything in sight")
    outcome = await bench.turn("the new message")
    assert outcome.reply is not None and outcome.reply.text == "with everything in sight"
    assert "I forgot what you said" not in [text for _, text in bench.spoken()]
    assert path(outcome.trace).count("compact") == 1


async def test_a_message_that_never_fits_is_answered_once_and_the_next_one_goes_through(tmp_path: Path) -> None:
    """Unanswered, it would stand in front of every later message and make each of them too long as well."""
    bench = await talked(tmp_path, turns=2)
    bench.model = replying(bench, "here I am")
    failed = await bench.turn("message number two " + "z" * 200_000)
    assert failed.reply is not None and failed.reply.kind == "error"
    assert bench.spoken()[-1] == ("assistant", "")
    later = await bench.turn("are you there?")
    assert later.reply is not None and later.reply.text == "here I am"
    assert [text for role, text in bench.spoken() if role == "user"][-1] == "are you there?"
    assert later.trace.facts["prompt_tokens"] < 16_000
