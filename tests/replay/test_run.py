"""A replay is a pure function of transcript and settings; only durations differ between two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.config import load_settings
from turngraph.replay.run import replay_file

DURATIONS = ("duration_ms", "ms")  # the only fields of an output that may differ
SETS = ("compaction.keepRecentTokens=1000",)


def long_session(folder: Path, turns: int = 20) -> Path:
    messages = []
    for number in range(turns):
        messages += [
            user(f"turn {number}: what stands in src/part{number}.py? 第{number}件事"),
            assistant(call(f"c{number}", path=f"src/part{number}.py"), stop="toolUse"),
            result(f"c{number}", f"limit_{number} = {number * 17}\n" * 500),
            assistant(f"limit_{number} is {number * 17}. " + f"Reason {number} holds. " * 150),
        ]
    return write_transcript(folder / "long.jsonl", messages)


def without_durations(folder: Path) -> dict[str, object]:
    """Everything in an output folder by file name: rows of tables with durations left out, other files as bytes."""
    found: dict[str, object] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            found[name] = table.drop_columns([c for c in DURATIONS if c in table.column_names]).to_pylist()
        else:
            found[name] = path.read_bytes()
    return found


def test_two_replays_give_the_same_output_but_for_durations(tmp_path: Path) -> None:
    transcript = long_session(tmp_path)
    before = transcript.read_bytes()
    settings = load_settings(tmp_path / "home", sets=SETS, env={}).agent("main")
    outputs = []
    for out in (tmp_path / "one", tmp_path / "elsewhere" / "two"):
        replay_file(transcript, settings, out=out, window_tokens=16_000)
        outputs.append(without_durations(out))
    assert outputs[0].keys() == outputs[1].keys() >= {"traces/turns.parquet", "traces/nodes.parquet", "summary.json"}
    for name in outputs[0]:
        assert outputs[0][name] == outputs[1][name], name
    assert json.loads((tmp_path / "one" / "summary.json").read_bytes())["compactions"] > 0
    assert transcript.read_bytes() == before


def test_a_duration_is_measured_for_every_node(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "home", env={}).agent("main")
    replay_file(long_session(tmp_path, turns=2), settings, out=tmp_path / "out")
    assert all(
        row["duration_ms"] > 0 for row in pq.read_table(tmp_path / "out" / "traces" / "nodes.parquet").to_pylist()
    )
