"""Texts of heartbeats: tokens in every place, task files, prompts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.heartbeat_text import TOKEN, beat_prompt, is_effectively_empty, strip_token


@pytest.mark.parametrize("text", ["HEARTBEAT_OKAY then", "fineHEARTBEAT_OK", "x_HEARTBEAT_OK", "HEARTBEAT_OK2 done"])
def test_a_token_glued_to_a_word_is_text(text: str) -> None:
    assert strip_token(text, "message").text == text


@pytest.mark.parametrize("text", ["日本語HEARTBEAT_OK", "HEARTBEAT_OK日本語"])
def test_a_token_beside_another_script_is_a_token(text: str) -> None:
    assert strip_token(text, "message").text == "日本語"


@pytest.mark.parametrize(("text", "left"), [("fine HEARTBEAT_OK .", "fine."), ("fine HEARTBEAT_OK 👍", "fine👍")])
def test_what_follows_the_token_is_joined_to_the_rest(text: str, left: str) -> None:
    assert strip_token(text, "message").text == left


@given(st.text(max_size=400))
def test_what_is_left_has_no_token_at_its_ends(text: str) -> None:
    left = strip_token(f"{TOKEN} {text} {TOKEN}", "message", 0).text
    assert strip_token(left, "message", 0).text == left.strip() or not left


@given(st.text(alphabet=st.characters(exclude_characters="_"), max_size=400))
def test_a_text_without_token_stays(text: str) -> None:
    assert strip_token(text, "message").found is False


@pytest.mark.parametrize(
    ("content", "empty"),
    [("", True), ("# 心跳\n- [ ]\n", True), ("<!-- a\nb -->\n```\n```", True), ("#tag", False), ("- 检查邮箱", False)],
)
def test_empty_task_files(content: str, empty: bool) -> None:
    assert is_effectively_empty(content) is empty


def test_a_prompt_names_the_file_and_ends_with_the_time() -> None:
    text = beat_prompt([], configured=None, heartbeat_file="/w/HEARTBEAT.md", time_line="now", can_deliver=True)
    assert "/w/HEARTBEAT.md" in text
    assert text.endswith("\nnow")


def test_reminders_come_before_the_tasks_and_ends_of_commands_before_both() -> None:
    def prompt(*events: str) -> str:
        return beat_prompt(events, configured="own", heartbeat_file="", time_line="now", can_deliver=True)

    assert "Call Ana" in prompt("Call Ana", TOKEN)
    assert "Call Ana" not in prompt("Call Ana", "exec finished: build")
    assert prompt(TOKEN).startswith("own\n")
