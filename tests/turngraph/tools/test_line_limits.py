"""Cuts by lines and bytes: whole lines, within both limits, nothing lost that fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.tools.line_limits import (
    Cut,
    decode_marked,
    first_lines,
    last_lines,
    mask_invalid,
    split_lines,
    tail_bytes,
    truncation_facts,
    utf8_bytes,
)

lines = st.lists(st.text(alphabet="ab語é👩\u200d \r", max_size=8), max_size=12)


@pytest.mark.parametrize(
    ("text", "expected"), [("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\r\n\nb", ["a\r", "", "b"])]
)
def test_a_final_line_end_makes_no_further_line(text: str, expected: list[str]) -> None:
    assert split_lines(text) == expected


def test_facts_have_the_fields_that_pi_has() -> None:
    assert list(truncation_facts(Cut("語", 1, "bytes"), 9, 99)) == [
        "truncated",
        "truncatedBy",
        "totalLines",
        "totalBytes",
        "outputLines",
        "outputBytes",
        "firstLineExceedsLimit",
        "lastLinePartial",
        "maxLines",
        "maxBytes",
    ]


@given(lines, st.integers(1, 6), st.integers(0, 40))
def test_the_beginning_is_whole_lines_and_as_many_as_fit(lines: list[str], max_lines: int, max_bytes: int) -> None:
    cut = first_lines(lines, max_lines, max_bytes)
    assert cut.text == "\n".join(lines[: cut.lines])
    assert cut.lines <= max_lines
    assert utf8_bytes(cut.text) <= max_bytes
    if cut.cut_by is None:
        assert cut.lines == len(lines)
    elif cut.cut_by == "bytes":
        assert utf8_bytes("\n".join(lines[: cut.lines + 1])) > max_bytes
    else:
        assert cut.lines == max_lines < len(lines)


@given(lines, st.integers(1, 6), st.integers(0, 40))
def test_the_end_is_whole_lines_or_the_end_of_one(lines: list[str], max_lines: int, max_bytes: int) -> None:
    cut = last_lines(lines, max_lines, max_bytes)
    assert utf8_bytes(cut.text) <= max_bytes
    assert cut.lines <= max_lines
    whole = "\n".join(lines)
    assert whole.endswith(cut.text)
    if not cut.last_line_partial:
        assert cut.text == "\n".join(lines[len(lines) - cut.lines :])


@given(st.text(alphabet="a語é👩\u200d👧", max_size=20), st.integers(-1, 60))
def test_the_end_of_a_text_fits_and_splits_no_character(text: str, limit: int) -> None:
    ending = tail_bytes(text, limit)
    assert text.endswith(ending)
    assert utf8_bytes(ending) <= max(0, limit) or ending == text
    assert tail_bytes("x👩\u200d👧", 8) == ""
    assert tail_bytes("x👩\u200d👧", 11) == "👩\u200d👧"


@given(st.binary(max_size=40))
def test_every_byte_that_is_no_text_is_counted(data: bytes) -> None:
    text, invalid = mask_invalid(decode_marked(data))
    assert text.count("\ufffd") >= invalid
    assert (invalid == 0) == (data.decode("utf-8", "replace").encode() == data)
