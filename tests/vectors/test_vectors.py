"""The shared vectors, when they lie beside the checkout (or where TURNGRAPH_VECTORS names)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vectors.runner import load_cases, load_deviations, run_cases, unused_deviations

FOLDER = Path(os.environ.get("TURNGRAPH_VECTORS", Path(__file__).parents[3] / "shared" / "vectors"))
TOPICS = ("sessions", "context", "memory", "compaction", "scheduling")


@pytest.mark.parametrize("topic", TOPICS)
def test_every_case_matches_or_is_listed_with_its_reason(topic: str) -> None:
    path = FOLDER / f"{topic}.json"
    if not path.is_file():
        pytest.skip(f"{topic}.json is not beside this checkout; set TURNGRAPH_VECTORS")
    deviations = load_deviations()
    outcomes = list(run_cases(load_cases(path), deviations))
    unlisted = [f"{o.case.function}: {o.case.name}: {o.problem}" for o in outcomes if o.problem and not o.deviation]
    assert not unlisted, "\n".join(unlisted)
    assert not unused_deviations(outcomes, deviations)
