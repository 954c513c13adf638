"""The waterfall of a turn (spec/seeing.md 2.1)."""

from __future__ import annotations

from datetime import UTC, datetime

from turngraph.decisions import Decision, NodeRun, Origin, Segment, TurnTrace
from turngraph.waterfall import waterfall

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def segment(kind: str, tokens: int, name: str | None = None, role: str = "system", path: str | None = None) -> Segment:
    return Segment(kind, role, "x" * tokens * 4, tokens, Origin("bootstrap", path=path), name=name)  # type: ignore[arg-type]


def trace() -> TurnTrace:
    report = Decision(
        "load_bootstrap", "injected", "1 file", data={"files": [{"path": "SOUL.md", "raw": 900, "injected": 68}]}
    )
    dropped = Decision(
        "limit_history", "limited", "9 user turns, limit 4", ("a", "b"), tokens_before=80, tokens_after=40
    )
    budget = Decision("budget", "routed", "fits", data={"limits": {"compaction": 700, "flush": 600}})
    runs = [
        NodeRun(0, "load_bootstrap", NOW, 1.0),
        NodeRun(1, "limit_history", NOW, 1.0, tokens_in=80, tokens_out=40),
        NodeRun(2, "budget", NOW, 1.0, tokens_in=40, tokens_out=40),
    ]
    segments = (
        segment("system section", 10, "Tooling"),
        segment("bootstrap file", 20, "SOUL.md", path="SOUL.md"),
        segment("tool schema", 5, "read"),
        segment("current message", 7, role="user"),
        segment("history message", 30, role="assistant"),
        segment("history message", 3, role="user"),
        segment("history message", 4, role="user"),
    )
    return TurnTrace(
        "t", "main", "agent:main:main", "s", 3, NOW, NOW, {"window_tokens": 1_000}, tuple(runs),
        ((0, report), (1, dropped), (2, budget)), segments,
    )  # fmt: skip


def test_parts_add_up_to_the_prompt_and_leave_the_head_room() -> None:
    made = waterfall(trace())
    assert [(bar.group, bar.name, bar.tokens, bar.count) for bar in made.bars] == [
        ("system section", "Tooling", 10, 1),
        ("bootstrap file", "SOUL.md", 20, 1),
        ("tool schema", "read", 5, 1),
        ("history message", "assistant", 30, 1),
        ("history message", "user", 7, 2),
        ("current message", "user", 7, 1),
    ]
    assert (made.used_tokens, made.headroom_tokens) == (79, 921)


def test_a_bootstrap_file_shows_its_raw_and_its_injected_size() -> None:
    soul = waterfall(trace()).bars[1]
    assert (soul.raw_chars, soul.injected_chars) == (900, 68)


def test_thresholds_are_marks_lowest_first() -> None:
    assert [mark.tokens for mark in waterfall(trace()).marks] == [600, 700]


def test_only_nodes_that_took_something_away_are_listed_with_their_reasons() -> None:
    changes = waterfall(trace()).changes
    assert [(change.node, change.tokens_in, change.tokens_out) for change in changes] == [("limit_history", 80, 40)]
    assert waterfall(trace()).as_json()["nodes"][0]["decisions"][0]["entryIds"] == ["a", "b"]
