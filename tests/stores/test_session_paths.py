from __future__ import annotations

from pathlib import Path

import pytest

from stores.session_paths import transcript_candidates, transcript_name, transcript_path
from turngraph.errors import StoreError

ID = "6f1c2f9e-3b7a-4c1d-9e2f-0a1b2c3d4e5f"
OTHER = "0b9d7d0e-58b3-4f0e-8b7b-7f3a9ce1d2aa"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agents" / "main" / "sessions"
    made.mkdir(parents=True)
    return made


def test_a_link_that_leads_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("x")
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    assert transcript_path(folder, "s1", {"sessionFile": "link.jsonl"}) == folder / "s1.jsonl"


def test_a_transcript_of_another_agent_of_this_home_is_accepted(folder: Path, tmp_path: Path) -> None:
    sibling = tmp_path / "agents" / "work" / "sessions" / "s1.jsonl"
    assert transcript_path(folder, "s1", {"sessionFile": str(sibling)}) == sibling
    strange = tmp_path / "agents" / "Work!" / "sessions" / "s1.jsonl"
    assert transcript_path(folder, "s1", {"sessionFile": str(strange)}) == folder / "s1.jsonl"


def test_a_copied_home_finds_its_transcripts_under_their_old_absolute_paths(folder: Path) -> None:
    name = f"{ID}-topic-7.jsonl"
    old = f"/home/ann/.openclaw/agents/main/sessions/{name}"
    assert transcript_path(folder, ID, {"sessionFile": old}) == folder / f"{ID}.jsonl"
    (folder / name).touch()
    assert transcript_path(folder, ID, {"sessionFile": old}) == folder / name


def test_the_file_of_another_session_comes_last(folder: Path) -> None:
    found = transcript_candidates(folder, ID, {"sessionFile": f"{OTHER}.jsonl"})
    assert [path.name for path in found] == [f"{ID}.jsonl", f"{OTHER}.jsonl"]


def test_topics_of_any_script_give_plain_file_names() -> None:
    assert transcript_name("s1", "日本") == "s1-topic-%E6%97%A5%E6%9C%AC.jsonl"
    assert transcript_name("s1", "") == "s1-topic-.jsonl"


def test_a_session_id_cannot_lead_elsewhere() -> None:
    for bad in ("../x", "", ".hidden", "会话", "a" * 129):
        with pytest.raises(StoreError):
            transcript_name(bad)
