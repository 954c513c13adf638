"""The replay flow against a real server: cells on a pool of processes, and a second run that does nothing again."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.server import PrefectServer
from turngraph.replay.samples import sample_sessions, write_sample_home

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


async def test_cells_run_as_tasks_and_done_cells_are_read(prefect_server: PrefectServer, tmp_path: Path) -> None:
    from flows.replay import replay

    write_sample_home(tmp_path)
    sessions = tmp_path / "agents" / "main" / "sessions"
    source = min((sessions / s.file for s in sample_sessions(tmp_path)), key=lambda path: path.stat().st_size)
    out = tmp_path / "sweep"
    grid = [["contextPruning.mode=off"], ["compaction.mode=off"]]

    first = await replay([str(source)], str(out), grid, return_state=True)
    again = await replay([str(source)], str(out), grid, return_state=True)

    assert first.message == "2 cells, 0 done before"
    assert again.message == "2 cells, 2 done before"
    rows = pq.read_table(out / "sweep.parquet").to_pylist()
    assert [row["settings"] for row in rows] == ["contextPruning.mode=off", "compaction.mode=off"]
    assert len(list((out / "cells").iterdir())) == 2
