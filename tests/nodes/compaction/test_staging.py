from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.compaction.staging import (
    SummaryCall,
    chunk_by_tokens,
    max_chunk_tokens,
    prune_for_share,
    split_by_share,
    summarise_in_stages,
    tool_groups,
)
from tests.builders import assistant, call, result, user
from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.tokens import EstimateCounter

COUNTER = EstimateCounter()
PAIR = [user("go"), assistant("x" * 400, call("t1"), stop="toolUse"), result("t1", "r" * 1600), user("next" * 50)]


def stages(messages: list[Message], summarise: object, **options: object) -> str:
    given_options = {"previous_summary": None, "window_tokens": 10_000, "chunk_tokens": 1_000, "counter": COUNTER}
    return asyncio.run(summarise_in_stages(messages, summarise, **(given_options | options)))  # type: ignore[arg-type]


@given(st.lists(st.sampled_from(PAIR), max_size=12), st.integers(1, 800), st.integers(1, 5))
def test_chunks_in_order_are_the_history(messages: list[Message], limit: int, parts: int) -> None:
    for chunks in (chunk_by_tokens(messages, limit, COUNTER), split_by_share(messages, parts, COUNTER)):
        assert [m for chunk in chunks for m in chunk] == messages
        assert all(chunks)


def test_a_call_and_its_results_are_one_group() -> None:
    messages = [user("go"), assistant(call("a"), call("b")), result("a"), result("b"), result("stray"), user("x")]
    assert [len(group) for group in tool_groups(messages)] == [1, 3, 1, 1]


def test_small_windows_still_have_chunks_of_512_tokens() -> None:
    assert max_chunk_tokens([user("x" * 40_000)], 8_000, COUNTER) == 512


def test_dropped_and_kept_are_the_history_and_pairs_stay_together() -> None:
    messages = [*PAIR, *PAIR]
    pruned = prune_for_share(messages, 1_200, 0.5, COUNTER)
    assert [*pruned.dropped, *pruned.kept] == messages
    assert pruned.kept[0].role != "toolResult"


def test_partial_summaries_say_which_is_the_oldest_and_when_it_was() -> None:
    seen: list[SummaryCall] = []

    async def summarise(request: SummaryCall) -> str:
        seen.append(request)
        return f"S{len(seen)}"

    turns = [user("x" * 1200, at=60 * i) if i % 2 == 0 else assistant("y" * 1200, at=60 * i) for i in range(6)]
    stages(turns, summarise, previous_summary="OLD")
    merge = seen[-1]
    assert merge.merge and merge.previous_summary == "OLD"
    first, last = merge.messages[0].text, merge.messages[-1].text
    assert first.startswith("[Partial summary 1 of 2, oldest, 2026-02-25 ")
    assert "2 of 2, most recent" in last


@pytest.mark.parametrize("kind", ["rate", "timeout", "quota"])
def test_failures_that_another_model_can_mend_are_raised_at_once(kind: str) -> None:
    calls = 0

    async def summarise(request: SummaryCall) -> str:
        nonlocal calls
        calls += 1
        raise ModelError("busy", kind=kind)  # type: ignore[arg-type]

    with pytest.raises(ModelError):
        stages([user("x" * 40_000)], summarise)
    assert calls == 1


def test_a_large_result_is_left_out_with_its_call() -> None:
    seen: list[SummaryCall] = []

    async def summarise(request: SummaryCall) -> str:
        if any(m.role == "toolResult" for m in request.messages):
            raise ModelError("too long", kind="overflow")
        seen.append(request)
        return "S"

    summary = stages([user("go"), assistant(call("t")), result("t", "r" * 40_000), user("next")], summarise)
    assert summary == "S\n\n[Large toolResult (~10K tokens) omitted from summary]"
    assert {m.role for request in seen for m in request.messages} == {"user"}
