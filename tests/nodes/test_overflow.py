from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.overflow import Recovery, is_overflow, next_recovery, plan_recovery, read_overflow_text
from nodes.shrink import shrink, shrink_results
from nodes.state import Attempts
from tests.builders import assistant, call, result, user
from tests.turn_home import make_home, scripted
from turngraph.config import default_settings
from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.truncation import live_limits, result_chars

OVERFLOW = ModelError("prompt is too long: 213,462 tokens > 200000 maximum", kind="overflow")


def plan(error: ModelError, attempts: Attempts, messages: list[Message] | None = None, window: int = 8_000) -> Recovery:
    settings = default_settings()
    return plan_recovery(error, attempts, messages=messages or [], window_tokens=window, settings=settings)


def test_the_kind_of_the_error_decides_before_its_text() -> None:
    text = "prompt is too long"
    assert is_overflow(ModelError(text, kind="bad_request"))
    assert is_overflow(ModelError("anything", kind="overflow"))
    assert not is_overflow(ModelError(text, kind="rate"))
    assert not is_overflow(ModelError(text, kind="auth"))


@pytest.mark.parametrize(
    "text",
    [
        "上下文窗口已满",
        "输入过长，请缩短",
        "Range of input length should be [1, 30720]",
        "input (90000 tokens) is longer than the model's context length (8192 tokens)",
        "The context window has run out of space",
        "total tokens 140,000 exceed the limit",
        "exceeds maximum allowed input length of 8192",
        "prompt has 9000 tokens, but the configured context size is 8192",
        "tokens in request more than max tokens allowed",
    ],
)
def test_texts_of_the_newer_lists_are_overflows(text: str) -> None:
    assert read_overflow_text(text).is_overflow


@pytest.mark.parametrize(
    "text",
    [
        "rate limit: 30000 tokens per minute (TPM), prompt is too long",
        "Too many requests: maximum context length",
        "Your credit balance is too low; input exceeds limit",
        "context window is too small, the minimum is 16000",
        "The prompt template exceeds nothing",
        "",
    ],
)
def test_exclusions_come_first(text: str) -> None:
    assert not read_overflow_text(text).is_likely


def test_compaction_then_shrinking_then_a_tighter_compaction_then_advice() -> None:
    large = [user("go"), assistant(call("t")), result("t", "r" * 20_000)]
    first = plan(OVERFLOW, Attempts(), large)
    assert first.route == "compact due" and first.attempts.observed_tokens == 213_462
    second = plan(OVERFLOW, first.attempts.bump(compactions=1), large)
    assert second.route == "shrink due"
    third = plan(OVERFLOW, second.attempts.bump(shrunk=True), large)
    assert third.route == "compact due" and third.attempts.compactions == 1
    fourth = plan(OVERFLOW, third.attempts.bump(compactions=2), large)
    assert fourth.route == "answered"
    assert all(way in fourth.reply_text for way in ("/compact", "/new", "larger window", "smaller workspace files"))
    assert fourth.decisions[0].what == "failed"


def test_after_a_failed_compaction_only_shrinking_is_left() -> None:
    failed = Attempts(overflows=1, failed="summary failed")
    assert next_recovery(failed, shrinkable=True, off=False).route == "shrink due"
    assert next_recovery(failed, shrinkable=False, off=False).route == "answered"


@given(st.booleans(), st.booleans(), st.booleans())
def test_recovery_is_bounded(shrinkable: bool, compacts: bool, off: bool) -> None:
    attempts = Attempts()
    for calls in range(1, 10):
        attempts = attempts.bump(overflows=attempts.overflows + 1)
        while True:
            step = next_recovery(attempts, shrinkable=shrinkable, off=off)
            if step.route == "compact due" and not compacts:
                attempts = attempts.bump(failed="summary failed")
                continue
            break
        if step.route == "answered":
            assert calls <= 4
            return
        shrunk = step.route == "shrink due"
        attempts = attempts.bump(shrunk=attempts.shrunk or shrunk, compactions=attempts.compactions + (not shrunk))
    raise AssertionError("the turn never ends")


def test_a_time_out_with_a_nearly_full_window_is_taken_for_an_overflow_twice() -> None:
    timeout = ModelError("no answer", kind="timeout")
    full = [user("x"), assistant("y", usage={"input": 5_000, "output": 1, "cacheRead": 900, "cacheWrite": 0})]
    first = plan(timeout, Attempts(), full)
    assert first.route == "compact due" and first.attempts.compaction_trigger == "timeout_recovery"
    second = plan(timeout, first.attempts, full)
    assert second.attempts.timeouts == 2
    assert plan(timeout, second.attempts, full).route == "answered"
    half = [user("x"), assistant("y", usage={"input": 5_000, "output": 1})]
    assert plan(timeout, Attempts(), half).route == "answered"


def test_other_errors_are_told_as_they_are() -> None:
    told = plan(ModelError("no key for anthropic; set ANTHROPIC_API_KEY", kind="auth"), Attempts())
    assert told.route == "answered" and told.reply_text.startswith("no key for anthropic")


def test_what_a_user_wrote_is_never_read_as_an_error() -> None:
    words = [user("prompt is too long: 9 tokens > 8 maximum"), assistant("context_length_exceeded")]
    assert plan(ModelError("boom", kind="server"), Attempts(), words).route == "answered"


def shrinking(home: Any, **changes: Any) -> dict[str, Any]:
    return asyncio.run(shrink(home.state(**changes), home.runtime))


def test_large_results_are_rewritten_on_a_new_branch(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(window=8_000))
    ids = home.say(user("go"), assistant(call("t1")), result("t1", "r" * 30_000), user("next"))
    before = home.transcript.path.read_bytes()
    update = shrinking(home, user_entry_id=ids[3])
    messages = home.transcript.context().messages
    assert [m.role for m in messages] == ["user", "assistant", "toolResult", "user"]
    assert result_chars(messages[2]) <= live_limits(8_000).per_result
    assert home.transcript.path.read_bytes().startswith(before)
    assert update["attempts"].shrunk and update["user_entry_id"] == home.transcript.leaf_id != ids[3]
    assert update["decisions"][0].chars_before == 30_000


def test_nothing_is_rewritten_when_nothing_is_too_large(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    home.say(user("go"), assistant(call("t1")), result("t1", "r"))
    before = home.transcript.path.read_bytes()
    update = shrinking(home)
    assert update["decisions"][0].what == "skipped" and update["attempts"].shrunk
    assert home.transcript.path.read_bytes() == before


def test_together_results_keep_the_aggregate_and_small_ones_stay_whole() -> None:
    results = {f"e{i}": result(f"t{i}", "r" * 9_000) for i in range(8)} | {"small": result("s", "ok")}
    shorter = shrink_results(results, 8_000)
    assert "small" not in shorter
    after = sum(result_chars(shorter.get(entry_id, message)) for entry_id, message in results.items())
    assert after <= live_limits(8_000).aggregate
