"""Trigger, cut point and chunks go by one counter, and it knows that Japanese has more tokens than letters / 4."""

from __future__ import annotations

import pytest

from nodes.budget import compaction_is_due
from nodes.compaction.cut_point import find_cut_point, steps_of
from nodes.compaction.staging import chunk_by_tokens
from stores.transcript_entries import entry_of
from tests.builders import user
from turngraph.tokens import Counter, EstimateCounter, TiktokenCounter

SENTENCE = "このメッセージは日本語で書かれています"
COUNTERS: list[Counter] = [EstimateCounter(), TiktokenCounter()]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_japanese_is_not_undercounted(counter: Counter) -> None:
    """known-faults 5.8."""
    tokens = counter.text(SENTENCE * 2_000)
    assert tokens >= (26_000 * 0.9 if counter.name.startswith("tiktoken") else 38_000 * 0.75)
    assert compaction_is_due(tokens, 32_000, 8_000)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_cut_and_chunks_follow_the_counter(counter: Counter) -> None:
    messages = [user(SENTENCE * 20) for _ in range(20)]
    size = counter.message(messages[0])
    raws = [
        {"type": "message", "id": f"e{i}", "parentId": None, "message": dict(m.raw)} for i, m in enumerate(messages)
    ]
    cut = find_cut_point(steps_of([entry_of(raw) for raw in raws]), 5 * size, counter)
    assert cut.first_kept == 15
    assert [len(chunk) for chunk in chunk_by_tokens(messages, int(5 * size * 1.2) + 1, counter)] == [5, 5, 5, 5]
