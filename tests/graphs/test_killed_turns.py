"""Turns killed with -9 at random moments: the next turn works and nothing that was acknowledged is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turngraph import open_home
from turngraph.models.scripted import ScriptedModel

SCRIPT = Path(__file__).with_name("killed_turns.py")


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_no_kill_loses_or_doubles_a_question(tmp_path: Path, rounds: int) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(rounds), "7"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel())
    transcript = agent.transcript("agent:main:main", full=True)
    assert transcript.report.broken_lines == ()
    messages = [transcript.message(entry) for entry in transcript.branch() if entry.type == "message"]
    asked = "\n".join(message.text for message in messages if message.role == "user")
    for line in report["acknowledged"]:
        question = f"question {line.split()[0]}"
        assert asked.split("\n").count(question) == 1, question
    assert messages[-1].text == f"answer {rounds + 1}"
    assert len({entry["sessionId"] for entry in agent.sessions().entries().values()}) == 1
    traces = list(agent.traces().turns(session_key="agent:main:main", limit=200))
    interrupted = [trace for trace in traces if trace.facts["error"] == "interrupted"]
    assert len(interrupted) <= report["killed"]
    assert not list((tmp_path / "traces" / "live").glob("*.jsonl"))
