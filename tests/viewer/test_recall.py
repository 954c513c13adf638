"""Searches of a turn in the report: which hit was used later in the turn, and its score parts."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import assistant, call, result, user
from tests.viewer.replayed import KEY, played
from turngraph.viewer.turn_data import PageRules

ROLLOUT = "The rollout to the harbour hosts waits for Mira's word. 港口主机等米拉点头。"
LUNCH = "Lunch is at noon in the small kitchen behind the stairs."


def hits_when_answered(folder: Path, text: str) -> dict[str, dict[str, Any]]:
    """The hits of a search by path, in the report of a turn that answers ``text`` after it."""
    hits = [
        {"path": "memory/rollout.md", "startLine": 3, "score": 0.8, "snippet": ROLLOUT},
        {"path": "memory/lunch.md", "startLine": 1, "score": 0.4, "snippet": LUNCH},
    ]
    messages = [
        user("When do we roll out?"),
        assistant(call("s1", name="memory_search", query="roll out"), stop="toolUse"),
        result("s1", orjson.dumps({"results": hits, "mode": "hybrid"}).decode(), name="memory_search"),
        assistant(text),
    ]
    page = played(folder, messages).report(KEY, 1, PageRules())
    found = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    (search,) = orjson.loads(html.unescape(found.group(1)))["searches"]
    assert search["query"] == "roll out"
    return {hit["path"]: hit for hit in search["hits"]}


@pytest.mark.parametrize(
    "text", ["It waits for Mira's word, so not today: the rollout to the harbour hosts waits", "See memory/rollout.md."]
)
def test_a_hit_that_is_quoted_or_named_later_counts_as_used(tmp_path: Path, text: str) -> None:
    hits = hits_when_answered(tmp_path, text)
    assert hits["memory/rollout.md"]["used"]
    assert not hits["memory/lunch.md"]["used"]


def test_a_hit_that_nothing_speaks_of_later_is_not_used(tmp_path: Path) -> None:
    assert not any(hit["used"] for hit in hits_when_answered(tmp_path, "I could not tell.").values())
