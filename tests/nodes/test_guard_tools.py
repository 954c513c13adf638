"""The prompt-time guard: caps, the route check and the last resort (spec/context.md 1 and 5, known-faults 4.2)."""

from __future__ import annotations

import pytest

from nodes.guard_tools import (
    COMPACTED_NOTICE,
    ELIDED_NOTICE,
    Window,
    cap_results,
    check_route,
    fit_results,
    govern,
    guard_results,
)
from tests.builders import assistant, call, result, user
from turngraph.messages import Message
from turngraph.tokens import EstimateCounter
from turngraph.truncation import result_chars

IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}


def one_answer(*sizes: int) -> tuple[Message, ...]:
    calls = [call(f"c{n}") for n in range(len(sizes))]
    results = [result(f"c{n}", "x" * size, entry=f"e{n}") for n, size in enumerate(sizes)]
    return (user("go"), assistant(*calls, stop="toolUse"), *results)


def test_several_medium_results_count_together_and_the_smallest_stays_whole() -> None:
    history = one_answer(38_662, 155_016, 136_693)
    used_besides = 154_000 - (38_662 + 155_016 + 136_693) // 4
    window = Window(200_000, reserve_tokens=16_384, overhead_tokens=used_besides)
    governed = govern(history, window, EstimateCounter())
    assert governed.route == "fits"
    assert [m.tool_call_id for m in governed.messages[2:]] == ["c0", "c1", "c2"]
    assert governed.messages[2] is history[2]
    assert [result_chars(m) for m in governed.messages[3:]] <= [64_000, 64_000]
    assert governed.decisions[0].entry_ids == ("e1", "e2")


def test_results_of_the_newest_answer_are_cut_to_one_level() -> None:
    fitted = fit_results(one_answer(38_662, 155_016, 136_693), 150_000).messages
    sizes = [result_chars(message) for message in fitted[2:]]
    assert sizes[0] == 38_662
    assert sum(sizes) <= 150_000
    assert abs(sizes[1] - sizes[2]) < 100


def test_older_results_give_way_first_and_are_elided_when_that_is_not_enough() -> None:
    history = (*one_answer(5_000, 5_000), assistant("so"), user("more"), *one_answer(3_000)[1:])
    fitted = fit_results(history, 3_500).messages
    assert [message.text == ELIDED_NOTICE for message in fitted if message.role == "toolResult"] == [True, True, False]
    assert fitted[-1] is history[-1]


@pytest.mark.parametrize(
    ("tokens", "reducible", "route"),
    [
        (100_000, 0, "fits"),
        (160_000, 0, "compact_only"),
        (160_000, 10_000, "compact_then_truncate"),
        (160_000, 400_000, "truncate_tool_results_only"),
    ],
)
def test_the_route_follows_the_estimate_and_what_results_could_free(tokens: int, reducible: int, route: str) -> None:
    assert check_route(tokens, 200_000, 16_384, reducible).route == route


def test_the_reserve_never_takes_more_than_a_quarter_of_the_window() -> None:
    assert check_route(1, 8_000, 50_000, 0).budget_tokens == 6_000


def test_a_request_that_shorter_results_make_fit_is_made_to_fit() -> None:
    history = one_answer(16_000, 16_000, 16_000)
    governed = govern(history, Window(16_000, reserve_tokens=4_000), EstimateCounter())
    assert governed.check.route == "truncate_tool_results_only"
    assert governed.route == "fits"
    assert all(result_chars(message) < 16_000 for message in governed.messages[2:])


def test_user_text_alone_is_left_to_compaction() -> None:
    history = (user("u" * 60_000),)
    governed = govern(history, Window(8_000), EstimateCounter(), last_resort=True)
    assert governed.route == "compact_only"
    assert governed.messages is history


def test_the_last_resort_clears_the_oldest_results_first() -> None:
    history = tuple(m for n in range(6) for m in (assistant(call(f"c{n}")), result(f"c{n}", "z" * 600)))
    guarded = guard_results((user("q"), *history), 1_200).messages
    cleared = [message.text == COMPACTED_NOTICE for message in guarded if message.role == "toolResult"]
    assert cleared == sorted(cleared, reverse=True)
    assert any(cleared) and not all(cleared)


def test_images_that_fit_stay_and_the_others_are_counted() -> None:
    message = result("c1", [{"type": "text", "text": "shots"}, *[IMAGE] * 5])
    guarded = guard_results((message,), 40_000).messages[0]
    assert [block["type"] for block in guarded.blocks].count("image") == 2
    assert "3 of 5 images omitted" in guarded.text


def test_chinese_output_is_capped_by_its_weight() -> None:
    capped = cap_results((result("c1", "日志" * 10_000),), 16_000).messages[0]
    assert len(capped.text) < 4_100
    assert result_chars(capped) <= 16_000


def test_what_fits_comes_back_as_the_same_tuple() -> None:
    history = one_answer(100)
    governed = govern(history, Window(200_000), EstimateCounter())
    assert governed.messages is history
    assert governed.decisions == ()
