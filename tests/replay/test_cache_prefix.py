"""What two requests share, and why they stop sharing (turngraph.replay.cache_prefix)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.builders import assistant, user
from turngraph.clock import SystemClock
from turngraph.config import load_settings
from turngraph.decisions import Decision, Origin, TurnTrace
from turngraph.messages import Message
from turngraph.models.model import ModelRequest, ToolSpec
from turngraph.replay.cache_prefix import Prefix, common_prefixes, stability
from turngraph.replay.calls import ModelCall
from turngraph.replay.driver import replay_session
from turngraph.replay.samples import sample_sessions, write_sample_home
from turngraph.replay.source import read_session
from turngraph.tokens import EstimateCounter, default_counter

NOON = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
COUNTER = EstimateCounter()


def said(message: Message, entry_id: str) -> Message:
    return Message(message.raw, Origin("entry", entry_id=entry_id))


FIRST, ANSWER, SECOND = said(user("first " * 20), "a"), said(assistant("answer " * 20), "b"), said(user("second"), "c")


def request(*messages: Message, system: str = "You are here.", tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest(system=system, messages=messages, tools=tools)


def trace(turn: int, *decisions: Decision) -> TurnTrace:
    return TurnTrace("t", "main", "k", "s", turn, NOON, NOON, {}, (), tuple((0, d) for d in decisions), ())


def compared(
    before: ModelRequest, now: ModelRequest, *decisions: Decision, earlier: tuple[Decision, ...] = ()
) -> Prefix:
    calls = [ModelCall(1, NOON, before, ANSWER), ModelCall(2, NOON, now, ANSWER)]
    (prefix,) = common_prefixes(calls, [trace(1, *earlier), trace(2, *decisions)], COUNTER)
    return prefix


def test_a_request_that_goes_on_from_the_one_before_has_no_break() -> None:
    prefix = compared(request(FIRST), request(FIRST, ANSWER, SECOND))
    assert prefix.broken_at is None
    assert prefix.shared_tokens == prefix.before_tokens < prefix.now_tokens


def test_a_changed_message_ends_the_prefix_and_its_decision_explains_it() -> None:
    shorter = FIRST.evolve(content="first first")
    trimmed = Decision("prune", "trimmed", "1 old tool results trimmed", ("a",))
    other = Decision("prune", "trimmed", "2 old tool results trimmed", ("z",))
    prefix = compared(request(FIRST, ANSWER), request(shorter, ANSWER, SECOND), other, trimmed)
    assert (prefix.broken_at, prefix.entry_ids) == ("message 0", ("a",))
    assert prefix.why == ("prune: 1 old tool results trimmed",)
    assert COUNTER.text("You are here.") < prefix.shared_tokens < prefix.before_tokens


def test_a_break_that_nothing_explains_is_told() -> None:
    prefix = compared(request(FIRST, ANSWER), request(FIRST.evolve(content="other"), ANSWER))
    assert not prefix.is_explained
    assert stability([prefix])["unexplained"] == 1


def test_a_repair_that_was_made_before_explains_nothing() -> None:
    again = Decision("sanitize", "repaired", "tool-call ids of 2 messages rewritten", ("a",))
    before = Decision("sanitize", "repaired", "tool-call ids of 1 messages rewritten", ("a",))
    changed = request(FIRST.evolve(content="other"), ANSWER)
    assert not compared(request(FIRST, ANSWER), changed, again, earlier=(before,)).is_explained
    assert compared(request(FIRST, ANSWER), changed, again).is_explained


def test_a_message_that_takes_in_one_more_is_explained() -> None:
    joined = "1 user messages joined to the one before"
    before = Decision("sanitize", "repaired", joined, ("a", "b"), count_before=3, count_after=2)
    now = Decision("sanitize", "repaired", joined, ("a", "b", "c"), count_before=4, count_after=2)
    changed = request(FIRST.evolve(content="first and second"), ANSWER)
    assert compared(request(FIRST, ANSWER), changed, now, earlier=(before,)).is_explained
    assert not compared(request(FIRST, ANSWER), changed, before, earlier=(before,)).is_explained


def test_a_compaction_explains_a_history_that_begins_otherwise() -> None:
    folded = Decision("compact", "summarised", "threshold: 2 messages folded", ("x",))
    assert compared(request(FIRST, ANSWER), request(SECOND), folded).is_explained


def test_tools_and_system_text_are_compared_before_the_messages() -> None:
    tool = ToolSpec("read", "Read a file.", {"type": "object"})
    loaded = Decision("load_bootstrap", "injected", "1 bootstrap files")
    assert compared(request(FIRST), request(FIRST, tools=(tool,)), loaded).broken_at == "tools"
    assert compared(request(FIRST), request(FIRST, system="Other."), loaded).why == (
        "load_bootstrap: 1 bootstrap files",
    )


@pytest.mark.slow
@pytest.mark.parametrize("window_tokens", [16_000, 32_000])
def test_every_break_in_the_sample_sessions_has_a_decision(tmp_path: Path, window_tokens: int) -> None:
    home = tmp_path / "home"
    write_sample_home(home)
    settings = load_settings(home, env={}).agent("main")
    for number, sample in enumerate(sample_sessions(home)):
        session = read_session(home / "agents/main/sessions" / sample.file, SystemClock())
        turns = replay_session(
            session, tmp_path / str(number), settings, session_key=sample.session_key, window_tokens=window_tokens
        )
        calls = [call for turn in turns for call in turn.calls]
        prefixes = common_prefixes(calls, [turn.trace for turn in turns], default_counter())
        assert [prefix for prefix in prefixes if not prefix.is_explained] == []
        assert stability(prefixes)["sharedShare"] > 0.75
