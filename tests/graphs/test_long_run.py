"""A long conversation in English and Chinese at a 16k window: bounded, flushed once a compaction, nothing lost."""

from __future__ import annotations

import re
import resource
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders import call
from tests.turns import TurnBench
from turngraph.messages import compact_json
from turngraph.models.model import ModelRequest
from turngraph.models.scripted import ScriptedModel
from turngraph.summary_sections import build_sections
from turngraph.tokens import total
from turngraph.tools.read import ReadTool

WINDOW = 16_000
WORDS = ["plan", "deploy", "index", "memory", "会议", "纪要", "数据库", "迁移", "提醒", "明天"]


def text_of(turn: int) -> str:
    words = " ".join(WORDS[(turn * 7 + i) % len(WORDS)] for i in range(60))
    return f"turn {turn}: {words}" if turn % 2 else f"第 {turn} 轮：{words}，请继续处理这些事情。"


def answer(request: ModelRequest) -> Any:
    if request.purpose == "flush":
        return "NO_REPLY"
    if request.purpose == "summary":
        asks = re.findall(r"\[User\]: (.*)", request.messages[-1].text)
        return build_sections(asks=asks[-1] if asks else "none")
    last = request.messages[-1]
    if last.role == "user" and len(last.text) % 3 == 0:
        return {"content": [call(f"call{len(request.messages)}x{len(last.text)}", "read", path="notes.md")]}
    return "完成 done " + "y" * 500


async def run_turns(bench: TurnBench, turns: range) -> tuple[int, int, int]:
    """Run turns; return flushes, compactions, and the largest request in tokens."""
    flushes = compactions = largest = 0
    for turn in turns:
        bench.model = ScriptedModel(then=answer, facts=bench.facts)
        outcome = await bench.turn(text_of(turn))
        assert outcome.reply is not None and outcome.reply.kind == "text"
        for _, decision in outcome.trace.decisions:
            flushes += decision.what == "flushed"
            compactions += decision.what == "summarised"
            assert decision.what != "failed", decision
        for request in bench.model.requests:
            tools = sum(bench.counter.text(compact_json(dict(tool.parameters))) for tool in request.tools)
            tokens = bench.counter.text(request.system) + tools + total(bench.counter, request.messages)
            largest = max(largest, tokens)
        bench.sink.traces.clear()
        bench.sink.spools.clear()
    return flushes, compactions, largest


def lost(bench: TurnBench, turns: int) -> list[int]:
    """Return the turns whose text does not stand in the transcript exactly once."""
    spoken = Counter(text for role, text in bench.spoken() if role == "user")
    return [turn for turn in range(turns) if spoken[text_of(turn)] != 1]


def bench_at(root: Path) -> TurnBench:
    bench = TurnBench(root, window=WINDOW, tools=[ReadTool()])
    (root / "workspace").mkdir(exist_ok=True)
    (root / "workspace" / "notes.md").write_text("note line\n" * 120, encoding="utf-8")
    return bench


async def test_one_flush_a_compaction_and_nothing_lost(tmp_path: Path) -> None:
    bench = bench_at(tmp_path)
    flushes, compactions, largest = await run_turns(bench, range(80))
    assert compactions >= 3 and compactions <= flushes <= compactions + 1
    assert largest <= WINDOW
    assert lost(bench, 80) == []


@pytest.mark.slow
async def test_two_thousand_turns_stay_bounded(tmp_path: Path) -> None:
    bench = bench_at(tmp_path)
    await run_turns(bench, range(200))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flushes, compactions, largest = await run_turns(bench, range(200, 2_000))
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    print(f"{flushes=} {compactions=} {largest=} tokens, {grown_mb=:.1f}")
    assert abs(flushes - compactions) <= 1
    assert largest <= WINDOW
    assert grown_mb < 60
    assert lost(bench, 2_000) == []
