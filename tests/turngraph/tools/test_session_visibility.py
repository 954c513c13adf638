"""Whose transcripts a session sees among its hits (spec/memory.md 4.9)."""

from __future__ import annotations

from typing import Any

import pytest

from turngraph.tools.session_visibility import Visibility, may_see

OWN = "agent:main:main"
ENTRIES: dict[str, dict[str, Any]] = {
    OWN: {"sessionId": "own"},
    "agent:main:subagent:x": {"sessionId": "spawned", "spawnedBy": OWN},
    "agent:main:telegram:direct:lin": {"sessionId": "other"},
}


@pytest.mark.parametrize(
    ("visibility", "seen"),
    [
        ("self", ["own"]),
        ("tree", ["own", "spawned"]),
        ("agent", ["own", "spawned", "other", "unknown"]),
        ("all", ["own", "spawned", "other", "unknown"]),
    ],
)
def test_each_visibility_shows_its_sessions(visibility: Visibility, seen: list[str]) -> None:
    asked = ["own", "spawned", "other", "unknown"]
    assert [own for own in asked if may_see(visibility, OWN, f"sessions/{own}.jsonl", ENTRIES)] == seen


def test_an_archive_of_the_own_session_is_its_own() -> None:
    assert may_see("self", OWN, "sessions/own.jsonl.reset.2026-03-16T09-40-00.000Z", ENTRIES)
