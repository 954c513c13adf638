"""The write guard (spec/context.md 5.1, known-faults 4.1)."""

from __future__ import annotations

from nodes.write_guard import BLOCKED_RESULT, WriteRules, flush_pending, guard_write
from tests.builders import assistant, call, result, user
from turngraph.messages import MISSING_RESULT_TEXT
from turngraph.truncation import result_chars

NOW_MS = 1_772_000_000_000.0
RULES = WriteRules()


def test_a_huge_result_is_stored_within_the_limit_with_both_ends_and_a_notice() -> None:
    text = "first line\n" + "x" * 400_000 + "\nError: exit code 3"
    guarded = guard_write(result("c1", text), {"c1": "read"}, RULES, NOW_MS)
    stored = guarded.writes[0]
    assert result_chars(stored) <= 64_000
    assert stored.text.startswith("first line\n")
    assert "Error: exit code 3" in stored.text
    assert "more characters truncated" in stored.text.splitlines()[-1]
    assert guarded.decisions[0].chars_before == len(text)


def test_the_cap_comes_after_the_hooks() -> None:
    rules = WriteRules(cap_chars=2_000, on_write=lambda m: m.evolve(content=[{"type": "text", "text": "y" * 9_000}]))
    assert result_chars(guard_write(result("c1"), {}, rules, NOW_MS).writes[0]) <= 2_000


def test_details_are_cut_to_their_limit() -> None:
    details = {"status": "ok", "log": "l" * 20_000}
    stored = guard_write(result("c1", details=details), {}, RULES, NOW_MS).writes[0]
    assert stored.raw["details"] == {"status": "ok", "truncated": True}


def test_a_blocked_result_leaves_a_placeholder_so_that_its_call_is_answered() -> None:
    rules = WriteRules(on_write=lambda message: None if message.role == "toolResult" else message)
    guarded = guard_write(result("c1", "secret"), {"c1": "read"}, rules, NOW_MS)
    assert [message.text for message in guarded.writes] == [BLOCKED_RESULT]
    assert guarded.writes[0].tool_call_id == "c1"
    assert dict(guarded.pending) == {}


def test_an_interrupting_user_gets_the_missing_results_in_front() -> None:
    pending = guard_write(assistant(call("c1"), call("c2", "exec"), stop="toolUse"), {}, RULES, NOW_MS).pending
    guarded = guard_write(user("stop"), pending, RULES, NOW_MS)
    assert [(m.role, m.text) for m in guarded.writes] == [
        ("toolResult", MISSING_RESULT_TEXT),
        ("toolResult", MISSING_RESULT_TEXT),
        ("user", "stop"),
    ]
    assert [m.tool_name for m in guarded.writes[:2]] == ["read", "exec"]


def test_calls_of_an_aborted_answer_are_not_waited_for() -> None:
    assert dict(guard_write(assistant(call("c1"), stop="aborted"), {}, RULES, NOW_MS).pending) == {}


def test_without_synthetic_results_the_pending_calls_are_forgotten() -> None:
    flushed = flush_pending({"c1": "read"}, WriteRules(synthetic_results=False), NOW_MS)
    assert flushed.writes == ()
    assert flushed.decisions[0].what == "skipped"


def test_an_answer_of_unusable_calls_is_not_written() -> None:
    guarded = guard_write(assistant({"type": "toolCall", "id": "", "name": "read"}), {}, RULES, NOW_MS)
    assert guarded.writes == ()
    assert guarded.decisions[0].what == "dropped"


def test_a_user_message_is_marked_with_the_provenance_of_the_run_unless_it_has_one() -> None:
    rules = WriteRules(provenance={"kind": "inter_session"})
    own = user("a", provenance={"kind": "external_user"})
    assert guard_write(own, {}, rules, NOW_MS).writes[0] is own
    assert guard_write(user("b"), {}, rules, NOW_MS).writes[0].raw["provenance"] == {"kind": "inter_session"}
