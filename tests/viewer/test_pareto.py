"""The picture of a sweep: points at one place share a label, and the line joins the front."""

from __future__ import annotations

from turngraph.replay.whatif import Point, pareto
from turngraph.viewer.pareto import pareto_page

ROW = {"promptTokensSum": 10, "compactions": 0, "flushes": 0, "trimmedChars": 0, "clearedChars": 0}


def page_of(*places: tuple[float, float]) -> str:
    points = pareto([Point(f"setting {n}", usd, seen, ROW) for n, (usd, seen) in enumerate(places)])
    return pareto_page(points, [{"transcript": "a.jsonl", **ROW}])


def test_points_at_one_place_share_a_label() -> None:
    html = page_of((1.0, 0.8), (1.0, 0.8), (2.0, 0.9))
    assert ">1, 2</text>" in html
    assert ">3</text>" in html
    assert ">2</text>" not in html


def test_a_point_that_another_beats_has_no_label_and_is_not_on_the_line() -> None:
    html = page_of((1.0, 0.9), (2.0, 0.8))
    assert ">2</text>" not in html
    front = html.split('class="front" points="', 1)[1].split('"', 1)[0]
    assert len(front.split()) == 1


def test_equal_costs_are_drawn_too() -> None:
    assert "nan" not in page_of((0.0, 1.0), (0.0, 1.0))
