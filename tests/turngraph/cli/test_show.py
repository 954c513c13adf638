"""`sessions show` tells what is visible, what it cost, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stores.transcripts import Transcript
from tests.builders import assistant, user
from turngraph.cli.show import show, transcript_facts
from turngraph.clock import RandomIds, SystemClock
from turngraph.errors import NotFound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    transcript = Transcript.open(tmp_path / "s.jsonl", session_id="s", clock=SystemClock(), ids=RandomIds())
    for number in range(40):
        transcript.append_message(user(f"问题 {number} " + "x" * 4000))
        last = transcript.append_message(assistant(f"答案 {number}"))
    transcript.append_compaction("S", last.id, 900)
    transcript.append_message(user("go on"))
    return transcript.path


def test_a_tail_read_tells_how_little_was_read(path: Path) -> None:
    before = path.read_bytes()
    facts = transcript_facts(path, "s")
    assert facts["mode"] == "tail"
    assert facts["bytesRead"] < facts["bytesTotal"] == len(before)
    assert (facts["visibleMessages"], facts["brokenLines"], facts["allBranchesRead"]) == (3, [], False)
    assert facts["tokens"] > 3
    assert path.read_bytes() == before


def test_a_full_read_tells_every_branch(path: Path) -> None:
    transcript = Transcript.open(path, session_id="s", clock=SystemClock(), ids=RandomIds(), full=True)
    transcript.move_leaf(transcript.entries()[3].id)
    facts = transcript_facts(path, "s", full=True)
    assert facts["mode"] == "full"
    assert [branch["active"] for branch in facts["branches"]] == [False, True]


def test_damage_is_told_with_line_numbers(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[-3] = b"{broken"
    path.write_bytes(b"\n".join(lines))
    assert transcript_facts(path, "s")["brokenLines"] == [82]
    show(str(path))
    assert "left out 1 broken line (line 82)" in capsys.readouterr().out


def test_json_is_one_object(path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    show(str(path), json=True)
    assert json.loads(capfdbinary.readouterr().out)["sessionId"] == "s"


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="sessions list"):
        transcript_facts(tmp_path / "no.jsonl", "s")
