"""Text from outside in a prompt (spec/context.md 3.2, known-faults 13.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from turngraph.untrusted import prompt_literal, untrusted_block


def test_a_path_in_any_script_stays_as_it_is() -> None:
    assert prompt_literal("正常路径/مجلد/フォルダ") == "正常路径/مجلد/フォルダ"


@given(st.text())
def test_a_literal_is_one_line(text: str) -> None:
    assert len(prompt_literal(text).splitlines()) <= 1


@given(st.text())
def test_no_quoted_text_can_close_its_fence(text: str) -> None:
    block = untrusted_block("Note", text)
    assert block == "" or (block.count("</untrusted-text>") == 1 and block.endswith("\n</untrusted-text>"))


def test_the_cut_counts_characters_as_written_and_splits_none() -> None:
    assert "\n日本\n" in untrusted_block("Note", "日本語", 2)
