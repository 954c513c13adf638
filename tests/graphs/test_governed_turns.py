"""Governance in whole turns: what is pruned stays pruned, loops are noticed, every request is acceptable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from nodes.history.validators import problems
from nodes.projections import PROJECTION_TYPE
from tests.builders import call
from tests.turns import TurnBench
from turngraph.models.model import ModelRequest, ToolSpec
from turngraph.tools.tool import ToolContext, ToolResult

PRUNING = ("contextPruning.mode=cache-ttl", "contextPruning.eligible=always", "contextPruning.keepLastAssistants=1")


@dataclass
class Log:
    """A tool that prints a log of a given size."""

    chars: int

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec("log", "Print the log.", {"type": "object", "properties": {"of": {"type": "string"}}})

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult([{"type": "text", "text": "log line\n" * (self.chars // 9)}])


def asks(call_id: str) -> dict[str, Any]:
    return {"content": [call(call_id, "log", of="a")], "stopReason": "toolUse"}


def shown(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages if message.role == "toolResult"]


async def test_what_is_pruned_after_a_pause_is_sent_with_the_same_bytes_from_then_on(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, PRUNING, window=10_000, tools=(Log(15_000),))
    await bench.turn("one", [asks("c1"), "done"])
    assert len(shown(bench.model.requests[-1])[0]) > 10_000
    bench.clock.advance(timedelta(minutes=10))
    await bench.turn("two", ["ok"])
    trimmed = shown(bench.model.requests[-1])[0]
    assert "[Tool result trimmed: kept first 1500 chars" in trimmed
    bench.clock.advance(timedelta(seconds=30))
    await bench.turn("three", ["ok"])
    assert shown(bench.model.requests[-1]) == [trimmed]
    recorded = [e for e in bench.transcript().entries() if e.raw.get("customType") == PROJECTION_TYPE]
    assert len(recorded) == 1
    reasons = [decision.why for _, decision in bench.sink.traces[-1].decisions if decision.node == "prune"]
    assert any("TTL not reached" in why for why in reasons)


async def test_a_model_in_a_loop_reads_a_warning_behind_the_result(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, tools=(Log(90),))
    await bench.turn("go", [*(asks(f"c{n}") for n in range(12)), "enough"])
    results = shown(bench.model.requests[-1])
    assert [n for n, text in enumerate(results) if "without anything new" in text] == [10]
    assert any(decision.what == "warned" for _, decision in bench.sink.traces[-1].decisions)


async def test_calls_of_a_tool_that_does_not_exist_are_stopped(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    await bench.turn("go", [*(asks(f"c{n}") for n in range(11)), "enough"])
    assert "Blocked: log" in shown(bench.model.requests[-1])[-1]


async def test_every_request_of_a_turn_is_acceptable_to_its_provider(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, tools=(Log(5_000),), provider="mistral", api="openai-completions")
    await bench.turn("one", [asks("call_1|fc_1"), "done"])
    await bench.turn("two", [asks("call_1|fc_1"), asks(""), "done"])
    assert bench.model.requests
    for request in bench.model.requests:
        assert problems(request.messages, "mistral", complete=True) == ()


async def test_results_cut_to_fit_are_shown_with_the_same_bytes_in_the_next_turn(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path, window=10_000, tools=(Log(9_000),))
    await bench.turn("one", [*(asks(f"c-{n}") for n in range(6)), "done"])
    decisions = [decision for _, decision in bench.sink.traces[-1].decisions]
    assert any("all tool results together" in decision.why for decision in decisions)
    before = shown(bench.model.requests[-1])
    await bench.turn("two", ["ok"])
    assert shown(bench.model.requests[-1])[: len(before)] == before


async def test_the_model_that_answers_a_session_is_recorded_once(tmp_path: Path) -> None:
    bench = TurnBench(tmp_path)
    for text in ("one", "two"):
        await bench.turn(text, ["ok"])
    recorded = [e.raw["data"] for e in bench.transcript().entries() if e.raw.get("customType") == "model-snapshot"]
    facts = bench.model.facts
    assert [(data["provider"], data["modelId"]) for data in recorded] == [(facts.provider, facts.model_id)]
