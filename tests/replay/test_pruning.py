from pathlib import Path

import pytest

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.config import load_settings
from turngraph.replay.run import ReplayRun, replay_file

LONG = "build log line 4711 of the harbour service\n" * 900
SETS = ("contextPruning.mode=cache-ttl", "contextPruning.ttl=1s", "contextPruning.eligible=always")


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    messages = []
    for number in range(8):
        messages += [
            user(f"step {number}"),
            assistant(call(f"c{number}", path=f"log{number}"), stop="toolUse", model="claude-sonnet-4-5"),
            result(f"c{number}", LONG),
            assistant(f"read log {number}", model="claude-sonnet-4-5"),
        ]
    return write_transcript(tmp_path / "session.jsonl", messages)


def play(path: Path, *sets: str) -> ReplayRun:
    settings = load_settings(path.parent / "none", sets=sets, env={}).agent()
    return replay_file(path, settings, out=None, window_tokens=64_000)


def test_each_pruning_is_weighed_with_the_calls_that_came_after_it(transcript: Path) -> None:
    run = play(transcript, *SETS)
    weighed = [one for turn in run.turns for one in turn.trace.facts.get("pruning", ())]
    assert weighed
    assert run.summary["pruning"]["prunings"] == len(weighed)
    assert all(one["removed_tokens"] > 0 and one["later_calls"] > 0 for one in weighed)
    assert weighed[0]["later_calls"] > weighed[-1]["later_calls"]


def test_without_pruning_there_is_nothing_to_weigh(transcript: Path) -> None:
    run = play(transcript, "contextPruning.mode=off")
    assert run.summary["pruning"] == {"prunings": 0, "paid": 0, "savedUsd": 0, "spentUsd": 0}
