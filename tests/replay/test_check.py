from pathlib import Path

import pytest

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.config import load_settings
from turngraph.errors import NotFound
from turngraph.replay.check import IDENTICAL, compare, read_baseline
from turngraph.replay.run import ReplayRun, replay_file

LONG = "build log line 4711 of the harbour service\n" * 900


def play(path: Path, out: Path | None, *sets: str) -> ReplayRun:
    settings = load_settings(path.parent / "none", sets=sets, env={}).agent()
    return replay_file(path, settings, out=out, window_tokens=16_000)


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    messages = []
    for number in range(4):
        messages += [
            user(f"step {number}"),
            assistant(call(f"c{number}", path=f"log{number}"), stop="toolUse"),
            result(f"c{number}", LONG),
            assistant(f"read log {number}"),
        ]
    return write_transcript(tmp_path / "session.jsonl", messages)


def test_a_replay_equals_its_own_earlier_output(transcript: Path, tmp_path: Path) -> None:
    play(transcript, tmp_path / "out" / "session")
    again = play(transcript, None)
    checked = compare(read_baseline(tmp_path / "out", "session"), [turn.trace for turn in again.turns])
    assert checked.sentence == "0 of 4 turns changed"
    assert set(checked.verdicts([turn.trace for turn in again.turns]).values()) == {IDENTICAL}


def test_a_changed_setting_names_the_first_node_that_differs(transcript: Path, tmp_path: Path) -> None:
    play(transcript, tmp_path / "out" / "session")
    other = play(transcript, None, "contextLimits.toolResultMaxChars=2000")
    checked = compare(read_baseline(tmp_path / "out", "session"), [turn.trace for turn in other.turns])
    first = checked.differences[0]
    assert (first.turn, first.node) == (1, "prompt:assemble")
    assert first.before != first.now
    assert first.verdict == "differs at prompt:assemble"


def test_one_entry_more_in_the_working_copy_is_no_difference_of_later_nodes(transcript: Path, tmp_path: Path) -> None:
    play(transcript, tmp_path / "out" / "session")
    other = play(transcript, None, "contextPruning.mode=cache-ttl", "contextPruning.eligible=always")
    checked = compare(read_baseline(tmp_path / "out", "session"), [turn.trace for turn in other.turns])
    assert {difference.node for difference in checked.differences} == {"prune"}, "they have other ids and more bytes"


def test_a_missing_baseline_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no replay of session"):
        read_baseline(tmp_path, "session")


def test_the_output_folder_has_traces_summary_and_table_of_turns(transcript: Path, tmp_path: Path) -> None:
    from pyarrow import parquet

    run = play(transcript, tmp_path / "out" / "session")
    assert run.folder is not None
    rows = parquet.read_table(run.folder / "turns.parquet").to_pylist()
    assert [row["number"] for row in rows] == [1, 2, 3, 4]
    assert all(row["usd"] is None for row in rows)  # no price is known for claude-test
    assert (run.folder / "summary.json").read_text().count('"survival"') >= 1
