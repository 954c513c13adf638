"""Processes killed with -9 at random moments of turns that flush and compact: nothing is lost, nothing done twice."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from stores.transcript_entries import Entry
from tests.graphs.killed_compactions import KEY
from turngraph import open_home
from turngraph.models.scripted import ScriptedModel

SCRIPT = Path(__file__).with_name("killed_compactions.py")
MOMENTS = ("ready", "memory_flush_start", "memory_flush_end", "auto_compaction_start", "auto_compaction_end")
ROUNDS = 30
LONGEST_WAIT_S = 0.1  # behind the moment: longer than each phase takes


def run_turn(home: Path, number: int, kill_behind: str = "", wait_s: float = 0.0) -> tuple[list[str], bool]:
    """Run one turn in a process of its own; return what it told, and whether it was killed."""
    command = [sys.executable, str(SCRIPT), str(home), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = []
        for line in process.stdout:
            told.append(line.strip())
            if told[-1] == kill_behind:
                time.sleep(wait_s)
                process.kill()
                kill_behind = ""
    return told, process.returncode != 0


@pytest.mark.slow  # the phases one by one: tests/nodes/test_compaction_kill.py
def test_the_next_turn_goes_on_from_what_is_on_disk(tmp_path: Path) -> None:
    chance = random.Random(11)
    acknowledged: list[int] = []
    killed_behind: Counter[str] = Counter()
    number = 0
    while sum(killed_behind.values()) < ROUNDS:
        number += 1
        moment = chance.choice(MOMENTS)
        told, killed = run_turn(tmp_path, number, moment, chance.uniform(0.0, LONGEST_WAIT_S))
        killed_behind[moment] += killed
        acknowledged += [number] if any(line == "message_end user" for line in told) else []
    told, _ = run_turn(tmp_path, number + 1)
    assert "message_end assistant" in told
    print(dict(killed_behind))
    assert all(killed_behind[moment] for moment in MOMENTS)

    agent = open_home(tmp_path, env={}).agent(model=ScriptedModel())
    transcript = agent.transcript(KEY, full=True)
    branch = transcript.branch()
    assert transcript.report.broken_lines == ()
    messages = [transcript.message(entry) for entry in branch if entry.type == "message"]
    lines = Counter(line for message in messages if message.role == "user" for line in message.text.split("\n"))
    assert [number for number in acknowledged if lines[f"question {number}"] != 1] == []
    assert messages[-1].text.startswith(f"answer {number + 1} ")

    compactions = [index for index, entry in enumerate(branch) if entry.type == "compaction"]
    assert agent.sessions().get(KEY).get("compactionCount", 0) == len(compactions)
    assert all(_spoken(branch[a + 1 : b]) for a, b in pairwise(compactions))
    notes = "".join(path.read_text() for path in (tmp_path / "workspace" / "memory").glob("*.md")).split("\n")
    assert [line for line, times in Counter(filter(None, notes)).items() if times > 1] == []


def _spoken(entries: tuple[Entry, ...]) -> bool:
    return any(entry.type == "message" for entry in entries)
