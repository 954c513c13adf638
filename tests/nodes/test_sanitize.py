"""Repairs of a history, case by case: known-faults section 3 and the rules of spec/context.md 4."""

from __future__ import annotations

import re

import pytest

from nodes.history.provider_policy import resolve_policy
from nodes.history.to_model import to_model
from nodes.history.validators import problems
from nodes.limit_history import limit_and_settle
from nodes.sanitize import model_snapshot, prepare_request, repair_history, sanitize_history
from tests.builders import assistant, call, result, summary, thinking, user
from turngraph.messages import MISSING_RESULT_TEXT, Message

NOW_MS = 1_772_000_000_000.0
ANTHROPIC = resolve_policy("anthropic", "anthropic-messages", "claude-sonnet-4-5")
OPENAI = resolve_policy("openai", "openai-responses", "gpt-5")
GOOGLE = resolve_policy("google", "google-generative-ai", "gemini-2.5-pro")
MISTRAL = resolve_policy("openrouter", "openai-completions", "mistralai/mistral-large")


def roles(messages: tuple[Message, ...]) -> list[str]:
    return [message.role for message in messages]


def test_a_result_that_lost_its_call_goes_and_the_rest_stays_the_same() -> None:
    kept = (user("go on"), assistant(call("c2"), stop="toolUse"), result("c2"))
    sanitised = sanitize_history((result("old", entry="e0"), *kept), OPENAI, NOW_MS)
    assert [message.text for message in sanitised.messages] == [message.text for message in kept]
    assert any("1 orphans dropped" in decision.why and "e0" in decision.entry_ids for decision in sanitised.decisions)


def test_a_call_without_result_gets_one_before_the_next_user_turn() -> None:
    sanitised = sanitize_history((user("go"), assistant(call("c3"), stop="toolUse"), user("hm")), ANTHROPIC, NOW_MS)
    assert roles(sanitised.messages) == ["user", "assistant", "toolResult", "user"]
    assert sanitised.messages[2].text == MISSING_RESULT_TEXT
    assert sanitised.messages[2].is_error


def test_the_history_limit_leaves_a_valid_list() -> None:
    turns = [
        (user(f"u{n}"), assistant(call(f"c{n}"), stop="toolUse"), result(f"c{n}"), assistant(f"a{n}"))
        for n in range(1, 5)
    ]
    history = tuple(message for turn in turns for message in turn)
    limited = limit_and_settle(repair_history(history, ANTHROPIC, NOW_MS).messages, 2, ANTHROPIC, NOW_MS)
    assert limited.messages[0].text == "u3"
    assert problems(limited.messages, "anthropic") == ()


def test_the_window_of_the_limit_grows_by_half_before_it_is_cut_back() -> None:
    """known-faults 3.2: its three user turns at limit 2, kept by the batched window, and one turn later."""
    history = (
        *(user("u1"), assistant(call("call_1"), stop="toolUse"), result("call_1"), assistant("a1")),
        *(user("u2"), assistant(call("call_2"), stop="toolUse"), result("call_2"), assistant("a2")),
        user("u3"),
    )
    limited = limit_and_settle(repair_history(history, ANTHROPIC, NOW_MS).messages, 2, ANTHROPIC, NOW_MS)
    assert limited.messages[0].text == "u1"
    assert problems(limited.messages, "anthropic") == ()
    longer = repair_history((*history, assistant("a3"), user("u4")), ANTHROPIC, NOW_MS).messages
    later = limit_and_settle(longer, 2, ANTHROPIC, NOW_MS)
    assert [message.text for message in later.messages] == ["u3", "a3", "u4"]
    assert problems(later.messages, "anthropic") == ()


def test_two_assistant_turns_in_a_row_keep_the_calls_of_both() -> None:
    """known-faults 3.4"""
    calls = (assistant("x", call("c1"), stop="toolUse"), assistant("y", call("c2"), stop="toolUse"))
    history = (summary("S"), user("a"), user("b"), *calls, result("c1"), result("c2"), assistant("p"), assistant("q"))
    prepared = prepare_request(sanitize_history(history, ANTHROPIC, NOW_MS).messages, ANTHROPIC, NOW_MS).messages
    assert roles(prepared) == ["user", "assistant", "toolResult", "assistant", "toolResult", "assistant"]
    assert [c.id for message in prepared for c in message.tool_calls] == ["c1", "c2"]
    assert [message.text for message in prepared[1::2]] == ["x", "y", "p\nq"]


def test_two_user_messages_become_one_turn_with_both_texts() -> None:
    sanitised = sanitize_history((user("Tell me about X"), user("?")), ANTHROPIC, NOW_MS)
    assert [message.text for message in sanitised.messages] == ["Tell me about X\n?"]


@pytest.mark.parametrize(("provider", "api"), [("openrouter", "openai-completions"), ("unheard-of", None)])
def test_alternation_holds_for_every_provider_not_known_to_be_tolerant(provider: str, api: str | None) -> None:
    policy = resolve_policy(provider, api, "some-model")
    history = (
        summary("what was"),
        user("one"),
        user("two"),
        assistant("thinking aloud"),
        assistant("calling", call("c1"), stop="toolUse"),
        result("c1"),
    )
    prepared = prepare_request(sanitize_history(history, policy, NOW_MS).messages, policy, NOW_MS).messages
    assert roles(prepared) == ["user", "assistant", "toolResult"]
    assert [word in prepared[0].text for word in ("what was", "one", "two")] == [True] * 3
    assert prepared[1].text == "thinking aloud\ncalling"
    assert [c.id for c in prepared[1].tool_calls] == ["c1"]


@pytest.mark.parametrize("call_id", ["exec1774786568428215", "     functions.read:37", "调用_1", "a"])
def test_tool_call_ids_fit_the_mistral_family_on_every_route(call_id: str) -> None:
    history = (user("go"), assistant(call(call_id), stop="toolUse"), result(call_id), assistant("done"))
    first = sanitize_history(history, MISTRAL, NOW_MS).messages
    next_turn = sanitize_history((*history, user("more")), MISTRAL, NOW_MS).messages
    new_id = first[1].tool_calls[0].id
    assert re.fullmatch(r"[A-Za-z0-9]{9}", new_id)
    assert first[2].tool_call_id == new_id == next_turn[1].tool_calls[0].id


def test_ids_with_foreign_characters_are_mapped_and_the_original_stays() -> None:
    call_id = "     functions.read:37"
    history = (user("go"), assistant(call(call_id), stop="toolUse"), result(call_id))
    sanitised = sanitize_history(history, ANTHROPIC, NOW_MS).messages
    assert re.fullmatch(r"[A-Za-z0-9_-]+", sanitised[1].tool_calls[0].id)
    assert sanitised[2].tool_call_id == sanitised[1].tool_calls[0].id
    assert history[1].tool_calls[0].id == call_id


def test_kimi_keeps_its_own_ids() -> None:
    policy = resolve_policy("moonshot", "openai-completions", "kimi-k2")
    history = (user("go"), assistant(call("functions.read:0"), stop="toolUse"), result("functions.read:0"))
    assert sanitize_history(history, policy, NOW_MS).messages[1].tool_calls[0].id == "functions.read:0"


def test_the_newest_answer_keeps_its_signed_thinking() -> None:
    history = (
        user("a"),
        assistant(thinking("old", "sig"), "one"),
        user("b"),
        assistant(thinking("new", "sig"), "two"),
    )
    sanitised = sanitize_history(history, ANTHROPIC, NOW_MS).messages
    assert [block["type"] for block in sanitised[1].blocks] == ["text"]
    assert [block["type"] for block in sanitised[3].blocks] == ["thinking", "text"]


def test_a_late_result_is_claimed_by_its_call() -> None:
    history = (user("a"), assistant(call("c1"), stop="toolUse"), user("wait"), result("c1", "late"), assistant("ok"))
    sanitised = sanitize_history(history, ANTHROPIC, NOW_MS).messages
    assert roles(sanitised) == ["user", "assistant", "toolResult", "user", "assistant"]
    assert sanitised[2].text == "late"


def test_an_aborted_turn_loses_the_calls_that_were_never_answered_but_not_its_text() -> None:
    history = (user("a"), assistant("half a sen", call("c1"), call("c2"), stop="aborted"), result("c1"), user("again"))
    sanitised = sanitize_history(history, ANTHROPIC, NOW_MS).messages
    assert sanitised[1].text == "half a sen"
    assert [c.id for c in sanitised[1].tool_calls] == ["c1"]
    assert problems(sanitised, "anthropic") == ()


def test_blank_and_silent_messages_go() -> None:
    history = (user("a"), assistant("NO_REPLY"), user("  \n"), assistant("b"), user("c"))
    assert [m.text for m in sanitize_history(history, OPENAI, NOW_MS).messages] == ["a", "b", "c"]


def test_result_blocks_inside_a_user_message_become_results() -> None:
    blocks = [{"type": "toolResult", "toolUseId": "c1", "content": "found"}, {"type": "text", "text": "and now?"}]
    history = (user("a"), assistant(call("c1"), stop="toolUse"), user(blocks))
    sanitised = sanitize_history(history, ANTHROPIC, NOW_MS).messages
    assert [(m.role, m.text) for m in sanitised[2:]] == [("toolResult", "found"), ("user", "and now?")]


def test_a_mistral_history_answers_a_result_before_the_user_speaks_again() -> None:
    history = (user("a"), assistant(call("c1"), stop="toolUse"), result("c1"), user("stop"))
    sanitised = sanitize_history(history, MISTRAL, NOW_MS).messages
    assert roles(sanitised) == ["user", "assistant", "toolResult", "assistant", "user"]
    assert problems(sanitised, "mistral") == ()


def test_a_history_that_begins_with_an_answer_is_opened_by_a_user_turn() -> None:
    sanitised = sanitize_history((assistant("hello"), user("hi")), GOOGLE, NOW_MS).messages
    assert sanitised[0].text == "(session bootstrap)"
    assert sanitised[0].origin is not None and sanitised[0].origin.kind == "synthetic"


def test_a_clean_history_comes_back_as_the_same_tuple() -> None:
    history = (
        user("a"),
        assistant("b", usage={"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}),
    )
    for policy in (ANTHROPIC, OPENAI, GOOGLE, MISTRAL):
        sanitised = sanitize_history(history, policy, NOW_MS)
        assert sanitised.messages is history
        assert sanitised.decisions == ()


def test_every_repair_names_the_entries_it_touched() -> None:
    history = (user("a", entry="e1"), user("b", entry="e2"), assistant("NO_REPLY", entry="e3"))
    decisions = sanitize_history(history, ANTHROPIC, NOW_MS).decisions
    assert {(d.what, d.entry_ids) for d in decisions} >= {("repaired", ("e1", "e2")), ("dropped", ("e3",))}
    assert all(d.node == "sanitize" and d.count_before is not None for d in decisions)


def test_names_of_tools_are_resolved_on_the_way_out() -> None:
    history = (user("a"), assistant(call("c1", "functions.Bash", cmd="ls"), stop="toolUse"), result("c1", name="exec"))
    prepared = prepare_request(history, ANTHROPIC, NOW_MS, ["exec", "read"]).messages
    assert prepared[1].tool_calls[0].name == "exec"


def test_shell_runs_and_notes_reach_the_model_as_user_text_and_excluded_ones_do_not() -> None:
    shell = Message({"role": "bashExecution", "command": "ls", "output": "", "exitCode": 2, "timestamp": 1})
    secret = Message({"role": "bashExecution", "command": "x", "output": "y", "excludeFromContext": True})
    sent = to_model((shell, secret, user("hi")))
    assert [message.text for message in sent] == ["Ran `ls`\n(no output)\n\nCommand exited with code 2", "hi"]


def test_a_model_is_recorded_when_it_changes_and_not_again() -> None:
    first = model_snapshot(None, "openai", "openai-responses", "gpt-5", NOW_MS)
    assert first is not None
    assert model_snapshot(first, "openai", "openai-responses", "gpt-5", NOW_MS) is None
    assert model_snapshot(first, "openai", "openai-responses", "gpt-5.1", NOW_MS) is not None


def test_native_ids_of_anthropic_stay_with_anthropic_and_go_elsewhere() -> None:
    native = "toolu_01U3EnSjz8C8u2QtHNnD8M9C"
    history = (user("go"), assistant(call(native, "read", path="a")), result(native, "text"))
    assert sanitize_history(history, ANTHROPIC, NOW_MS).messages[1].tool_calls[0].id == native
    assert sanitize_history(history, GOOGLE, NOW_MS).messages[1].tool_calls[0].id == native.replace("_", "")


def test_what_no_model_is_sent_leaves_no_decision() -> None:
    raw = {**result("c1", "text").raw, "details": {"lines": 1}}
    history = (user("go"), assistant(call("c1", "read", path="a"), usage={"input_tokens": 3}), Message(raw))
    repaired = sanitize_history(history, ANTHROPIC, NOW_MS)
    assert repaired.messages[1].usage is not None and repaired.messages[1].usage["input"] == 3
    assert "details" not in repaired.messages[2].raw
    assert repaired.decisions == ()


def test_a_history_that_is_prepared_again_gives_the_same_objects() -> None:
    history = (user("go"), assistant(call("c 1", "read", path="a")), result("c 1", "text"), user("on"), user("and on"))
    once, again = (prepare_request(history, MISTRAL, NOW_MS).messages for _ in range(2))
    kept = [message for message in once if message.role != "assistant" or message.tool_calls]
    assert len(kept) == 4
    assert all(any(message is other for other in again) for message in kept)
