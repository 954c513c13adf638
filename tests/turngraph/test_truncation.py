from __future__ import annotations

import pytest

from tests.builders import result
from turngraph.text import weighted_chars
from turngraph.truncation import (
    MIDDLE_MARKER,
    fair_shares,
    has_important_tail,
    live_limits,
    result_chars,
    truncate_result,
    truncate_text,
)


@pytest.mark.parametrize("unit", ["word ", "日本語", "👩‍👩‍👧", "مرحبا ", "e\u0301", "line\n"])
@pytest.mark.parametrize("limit", [0, 10, 80, 500, 5_000])
def test_a_cut_is_never_above_its_limit(unit: str, limit: int) -> None:
    assert weighted_chars(truncate_text(unit * 4_000, limit)) <= limit


def test_the_notice_tells_how_many_characters_are_missing() -> None:
    cut = truncate_text("x" * 10_000, 3_000)
    kept, notice = cut.split("[... ")
    assert notice == f"{10_000 - len(kept)} more characters truncated; rerun with narrower args if needed]"


@pytest.mark.parametrize("end", ["Error: boom", "总计 12", '{"a": 1\n}', "exit code 3"])
def test_an_end_that_says_how_it_went_is_kept(end: str) -> None:
    cut = truncate_text("log line\n" * 5_000 + end, 8_000)
    assert MIDDLE_MARKER in cut
    assert end in cut


def test_an_ordinary_end_is_not_kept() -> None:
    assert MIDDLE_MARKER not in truncate_text("log line\n" * 5_000, 8_000)
    assert not has_important_tail("the errors happened")


def test_small_blocks_stay_whole_beside_a_large_one() -> None:
    blocks = [{"type": "text", "text": "x" * 9_000}, {"type": "text", "text": "tiny"}]
    cut = truncate_result(result("c1", blocks), 1_000)
    assert cut.blocks[1] is blocks[1]
    assert result_chars(cut) <= 1_000


def test_shares_never_exceed_the_total() -> None:
    assert fair_shares([5, 5, 5], 7) == [2, 2, 3]
    assert fair_shares([], 7) == []


@pytest.mark.parametrize(
    ("window", "per_result"), [(8_000, 9_600), (32_000, 16_000), (128_000, 32_000), (1_000_000, 64_000)]
)
def test_the_shown_cap_grows_with_the_window(window: int, per_result: int) -> None:
    assert live_limits(window).per_result == per_result
    assert live_limits(window, 5_000).per_result == 5_000
