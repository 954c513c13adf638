"""Whose transcripts a session sees among its hits (spec/memory.md 4.9)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from turngraph import open_home
from turngraph.clock import SystemClock
from turngraph.tools.memory_tools import memory_tools
from turngraph.tools.session_visibility import Visibility, sight
from turngraph.tools.tool import ToolContext

OWN = "agent:main:main"
ENTRIES: dict[str, dict[str, Any]] = {
    OWN: {"sessionId": "own"},
    "agent:main:subagent:x": {"sessionId": "spawned", "spawnedBy": OWN},
    "agent:main:telegram:direct:lin": {"sessionId": "other"},
}


@pytest.mark.parametrize(("visibility", "seen"), [("self", ["own"]), ("tree", ["own", "spawned"])])
def test_a_narrow_sight_shows_its_sessions(visibility: Visibility, seen: list[str]) -> None:
    sees = sight(visibility, OWN, ENTRIES)
    assert sees is not None
    asked = ["own", "spawned", "other", "unknown"]
    assert [own for own in asked if sees(f"sessions/{own}.jsonl")] == seen


@pytest.mark.parametrize("visibility", ["agent", "all"])
def test_a_wide_sight_shows_everything(visibility: Visibility) -> None:
    assert sight(visibility, OWN, ENTRIES) is None


def test_an_archive_of_the_own_session_is_its_own() -> None:
    sees = sight("self", OWN, ENTRIES)
    assert sees is not None
    assert sees("sessions/own.jsonl.reset.2026-03-16T09-40-00.000Z")
    assert not sees("sessions/sessions.json")


def test_better_hits_of_sessions_out_of_sight_push_no_other_hit_out(tmp_path: Path) -> None:
    folder = tmp_path / "agents/main/sessions"
    folder.mkdir(parents=True)
    (folder / "sessions.json").write_text(json.dumps({OWN: {"sessionId": "own"}}))
    for name, text in [
        ("own", "one walrus among many other animals"),
        *((f"s{n}", "walrus walrus") for n in range(30)),
    ]:
        said = {"type": "message", "id": "m", "parentId": None, "message": {"role": "user", "content": text}}
        (folder / f"{name}.jsonl").write_text(json.dumps(said) + "\n")
    (tmp_path / "turngraph.json5").write_text(
        "{tools: {sessions: {visibility: 'self'}}, agents: {defaults: {memorySearch: {provider: 'none',"
        " sources: ['memory', 'sessions'], experimental: {sessionMemory: true}}}}}"
    )
    agent = open_home(tmp_path, env={}).agent()
    search = memory_tools(agent.memory, agent.settings, session_key=OWN)[0]
    context = ToolContext(tmp_path, tmp_path, SystemClock(), asyncio.Event())
    answer = json.loads(asyncio.run(search.execute({"query": "walrus"}, context)).content[0]["text"])
    assert [hit["path"] for hit in answer["results"]] == ["sessions/own.jsonl"]
    agent.memory.close()
