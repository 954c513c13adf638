from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.silent import SilentGate, is_silent


def streamed(*pieces: str) -> tuple[list[str], str]:
    gate = SilentGate()
    return [gate.pass_on(piece) for piece in pieces], gate.finish()


def test_a_streamed_silent_reply_shows_nothing() -> None:
    assert streamed("NO", "_REP", "LY", "\n") == ([""] * 4, "")


def test_an_ordinary_beginning_passes_at_once() -> None:
    assert streamed("No", " problem") == (["No", " problem"], "")


def test_what_was_held_is_shown_when_the_text_goes_on() -> None:
    assert streamed("NO", "_REPLY", " needed") == (["", "", "NO_REPLY needed"], "")


def test_a_held_beginning_that_is_no_token_is_shown_at_the_end() -> None:
    assert streamed("NO") == ([""], "NO")


@given(st.lists(st.text("NO_REPLYno \n", max_size=4), max_size=8))
def test_the_gate_loses_nothing_but_a_silent_reply(pieces: list[str]) -> None:
    shown, rest = streamed(*pieces)
    text = "".join(pieces)
    assert "".join(shown) + rest == ("" if is_silent(text) else text)


@pytest.mark.parametrize("text", ["no_reply", " NO_REPLY\n", "No_Reply"])
def test_the_token_counts_in_any_case(text: str) -> None:
    assert is_silent(text)
