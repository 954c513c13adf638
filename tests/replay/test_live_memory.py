"""With live memory a search finds what the session knew by then, and nothing that came later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.config import load_settings
from turngraph.replay.run import ReplayRun, replay_file

NOTE = "- The night shift answers on extension 5518; 夜班分机 5518。\n"


def replayed(tmp_path: Path, *, query: str, sets: tuple[str, ...] = (), **options: Any) -> ReplayRun:
    messages = [
        user("The gate code is 7741, remember it. 门的密码是 7741"),
        assistant("Noted."),
        user("What was it again?"),
        assistant(call("s1", name="memory_search", query=query), stop="toolUse"),
        result("s1", '{"results": [], "mode": "recorded"}', name="memory_search"),
        assistant("I do not know."),
        user("The gate code changed to 9902. 门的密码改成 9902"),
        assistant("Noted."),
    ]
    workspace = tmp_path / "notes"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory" / "2026-03-01.md").write_text(NOTE, encoding="utf-8")
    settings = load_settings(tmp_path / "home", sets=sets, env={}).agent("main")
    path = write_transcript(tmp_path / "s.jsonl", messages)
    return replay_file(path, settings, out=tmp_path / "out", workspace=workspace, **options)


def answer(run: ReplayRun) -> Any:
    """What the search gave, as the model saw it."""
    seen = next(m for m in run.turns[1].calls[-1].request.messages if m.role == "toolResult")
    return orjson.loads(seen.text)


def found(run: ReplayRun) -> str:
    return "\n".join(hit["snippet"] for hit in answer(run)["results"])


@pytest.mark.parametrize("query", ["gate code", "门的密码"])
def test_a_live_search_finds_what_was_said_before_and_not_what_came_later(tmp_path: Path, query: str) -> None:
    text = found(replayed(tmp_path, query=query, live_memory=True))
    assert "7741" in text
    assert "9902" not in text
    assert "again" not in text, "the turn that asks is no earlier entry"


def test_a_live_search_finds_the_notes_of_the_working_copy(tmp_path: Path) -> None:
    hits = answer(replayed(tmp_path, query="night shift extension", live_memory=True))["results"]
    assert (hits[0]["path"], hits[0]["startLine"]) == ("memory/2026-03-01.md", 1)


def test_without_it_the_record_answers(tmp_path: Path) -> None:
    assert answer(replayed(tmp_path, query="gate code")) == {"results": [], "mode": "recorded"}


def test_settings_that_name_folders_elsewhere_do_not_lead_out_of_the_working_copy(tmp_path: Path) -> None:
    outside = tmp_path / "real"
    (outside / "memory").mkdir(parents=True)
    (outside / "memory" / "2026-03-02.md").write_text("The gate code was 1111.\n")
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    sets = (f"workspace={outside}", f"session.store={outside}/sessions.json", "compaction.keepRecentTokens=1000")
    run = replayed(tmp_path, query="gate code", sets=sets, live_memory=True)
    assert "1111" not in found(run)
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before
