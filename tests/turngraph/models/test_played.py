"""Models that play a file: scripts and transcripts, by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turngraph import open_home
from turngraph.errors import ModelError


def script(tmp_path: Path, *answers: object) -> str:
    file = tmp_path / "answers.jsonl"
    file.write_text("\n".join(json.dumps(answer) for answer in answers), encoding="utf-8")
    return f"scripted:{file}"


def test_a_script_answers_turn_by_turn_and_may_call_tools(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "t1", "name": "write", "arguments": {"path": "a.md", "content": "茶"}}
    agent = open_home(tmp_path / "home").agent(model=script(tmp_path, "你好", {"content": [call]}, "written"))
    assert agent.run("hello").text == "你好"
    assert agent.run("write it down").text == "written"
    assert (tmp_path / "home/workspace/a.md").read_text(encoding="utf-8") == "茶"


def test_a_transcript_is_played_answer_by_answer_past_its_broken_lines(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    one = {"role": "assistant", "content": [{"type": "text", "text": "one"}], "stopReason": "stop"}
    said = [{"role": "user", "content": "x"}, one]
    lines = [json.dumps({"type": "session", "id": "s"}), *(json.dumps({"type": "message", "message": m}) for m in said)]
    file.write_text("\n".join([*lines, '{"type":"mess', "", lines[-1].replace("one", "two")]), encoding="utf-8")
    agent = open_home(tmp_path / "home").agent(model=f"replay:{file}")
    assert [agent.run("a").text, agent.run("b").text] == ["one", "two"]


def test_what_cannot_be_played_is_named(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "odd.jsonl").write_text('"fine"\n[1]\n')
    for name, told in {
        f"replay:{tmp_path / 'empty.jsonl'}": "holds no answer to play",
        f"scripted:{tmp_path / 'odd.jsonl'}": "line 2: an answer is a JSON text or object",
        f"scripted:{tmp_path / 'none.jsonl'}": "cannot be played: No such file",
    }.items():
        with pytest.raises(ModelError, match=told):
            home.agent(model=name).run("hello")
