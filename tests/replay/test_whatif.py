import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builders import assistant, call, result, user
from tests.recorded import write_transcript
from turngraph.errors import ConfigError
from turngraph.replay.whatif import Cell, Point, cell_key, pareto, points_of, read_grid, run_cell, run_grid, write_sweep

GRID = """{
  window: [16000, 32000],
  "contextPruning.mode": ["off", "cache-ttl"],
  "compaction.keepRecentTokens": [2000, 4000, 8000],
  "contextLimits.toolResultMaxChars": [2000, 8000],
}"""


def three_transcripts(folder: Path, turns: int = 3) -> list[Path]:
    made = []
    for name in ("a", "b", "c"):
        messages = []
        for number in range(turns):
            messages += [
                user(f"{name} {number} look at /srv/{name}/{number}.py"),
                assistant(call(f"c{number}", path=f"/srv/{name}/{number}.py"), stop="toolUse"),
                result(f"c{number}", f"value_{name}_{number} = 1\n" * 400),
                assistant(f"it has value_{name}_{max(0, number - 1)}"),
            ]
        made.append(write_transcript(folder / f"{name}.jsonl", messages))
    return made


def grid_file(tmp_path: Path, text: str = GRID) -> Path:
    path = tmp_path / "grid.json5"
    path.write_text(text)
    return path


def test_a_grid_is_the_product_of_its_axes(tmp_path: Path) -> None:
    combinations, axes = read_grid(grid_file(tmp_path))
    assert len(combinations) == 24
    assert len(axes) == 4
    assert combinations[0] == (
        ("contextPruning.mode=off", "compaction.keepRecentTokens=2000", "contextLimits.toolResultMaxChars=2000"),
        16_000,
    )


@pytest.mark.parametrize("text", ["[1]", "{a: 1}", "{a: []}", "{"])
def test_a_grid_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read_grid(grid_file(tmp_path, text))


def test_a_wrong_setting_is_found_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        run_grid(three_transcripts(tmp_path, 1), [(("compaction.keepRecntTokens=1",), 16_000)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_done_cell_is_not_run_again(tmp_path: Path) -> None:
    path = three_transcripts(tmp_path, 1)[0]
    first = run_cell(str(path), [], str(tmp_path / "out"), 16_000)
    again = run_cell(str(path), [], str(tmp_path / "out"), 16_000)
    assert not first["resumed"]
    assert again == {**first, "resumed": True}


def test_another_setting_or_transcript_is_another_cell(tmp_path: Path) -> None:
    a, b, _ = three_transcripts(tmp_path, 1)
    cells = [Cell(a, ()), Cell(b, ()), Cell(a, ("compaction.mode=off",)), Cell(a, (), 16_000)]
    assert len({cell_key(cell) for cell in cells}) == 4


def test_the_front_holds_what_nothing_beats() -> None:
    points = [
        Point("cheap", 1, 0.5, {}),
        Point("good", 3, 0.9, {}),
        Point("worse", 4, 0.9, {}),
        Point("bad", 2, 0.4, {}),
    ]
    assert [point.settings for point in pareto(points) if point.front] == ["cheap", "good"]


@pytest.mark.slow
def test_a_killed_grid_goes_on_where_it_was_and_ends_with_the_page(tmp_path: Path) -> None:
    transcripts = three_transcripts(tmp_path)
    grid, out = grid_file(tmp_path), tmp_path / "sweep"
    command = [
        *(sys.executable, "-m", "turngraph.cli.main", "replay", *map(str, transcripts)),
        *("--grid", str(grid), "--out", str(out), "--workers", "2"),
    ]
    env = {**os.environ, "TURNGRAPH_HOME": str(tmp_path / "home")}
    running = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 240
    while len(list((out / "cells").glob("[!.]*/measures.json"))) < 20 and time.monotonic() < until:
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    done = {path.parent.name: path.stat().st_mtime_ns for path in (out / "cells").glob("[!.]*/measures.json")}
    assert 20 <= len(done) < 72
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=400)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("(done before)") == len(done)
    assert all((out / "cells" / name / "measures.json").stat().st_mtime_ns == at for name, at in done.items())
    assert not list((out / "cells").glob(".*"))
    assert (out / "sweep.parquet").exists()
    assert "polyline" in (out / "pareto.html").read_text()


def test_rows_become_points_and_a_table(tmp_path: Path) -> None:
    from pyarrow import parquet

    transcripts = three_transcripts(tmp_path, 2)
    combinations = [((), 16_000), (("contextLimits.toolResultMaxChars=500",), 16_000)]
    rows = run_grid(transcripts, combinations, tmp_path / "out", workers=1)
    points = points_of(rows)
    assert len(rows) == 6
    assert len(points) == 2
    assert points[1].usd < points[0].usd
    assert parquet.read_table(write_sweep(rows, tmp_path / "out")).num_rows == 6
