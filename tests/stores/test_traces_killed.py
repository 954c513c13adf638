"""kill -9 while traces are appended and merged: nothing that was acknowledged is lost, nothing is read twice."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stores.traces import TraceReader, TraceStore

APPENDING = """
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from stores.traces import TraceStore
from turngraph.decisions import NodeRun, Origin, Segment, TurnTrace

store = TraceStore(Path(sys.argv[1]))
prefix, count, day = sys.argv[2], int(sys.argv[3]), datetime.fromisoformat(sys.argv[4])
text = "x" * 2_000
for number in range(count):
    nodes = tuple(NodeRun(i, f"node{i}", day, 1.0, why=text) for i in range(20))
    segment = Segment("system section", "system", f"{prefix} {number}", 3, Origin("system"))
    id_ = f"{prefix}-{number}"
    store.append(TurnTrace(id_, "main", "agent:main:main", "s", number, day, day, {}, nodes, (), (segment,)))
    print(f"{prefix}-{number}", flush=True)
"""

MERGING = """
import sys
from datetime import date
from pathlib import Path
from stores.traces import TraceStore
import pyarrow.parquet
print("ready", flush=True)
TraceStore(Path(sys.argv[1])).merge_finished_days(date.fromisoformat(sys.argv[2]))
print("merged", flush=True)
"""

DAY = datetime(2026, 3, 16, 12, tzinfo=UTC)


def start(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_an_acknowledged_trace_survives_the_kill_of_its_writer(tmp_path: Path, seed: int) -> None:
    acknowledged: set[str] = set()
    for turn in range(2):
        with start(APPENDING, tmp_path, f"p{turn}", 100_000, DAY.isoformat()) as process:
            assert process.stdout is not None
            acknowledged.add(process.stdout.readline().decode().strip())
            threading.Timer(random.Random(seed * 10 + turn).uniform(0.02, 0.3), process.kill).start()
            acknowledged |= {line.decode().strip() for line in process.stdout if line.endswith(b"\n")}
    found = [trace.trace_id for trace in TraceReader(tmp_path).turns()]
    assert acknowledged <= set(found)
    assert len(found) == len(set(found)) <= len(acknowledged) + 2


@pytest.mark.slow
def test_two_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    writers = [start(APPENDING, tmp_path, name, 60, DAY.isoformat()) for name in ("a", "b")]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert len(TraceReader(tmp_path).turns()) == 120


@pytest.mark.slow
def test_a_merge_that_is_killed_anywhere_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with start(APPENDING, tmp_path, "a", 300, DAY.isoformat()) as writer:
        writer.communicate()
    wanted = {f"a-{number}" for number in range(300)}
    reader = TraceReader(tmp_path)
    merged = False
    for attempt in range(7):
        with start(MERGING, tmp_path, "2026-03-17") as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.03 * attempt)
            process.kill()
            merged = process.stdout.readline() == b"merged\n"
        found = [trace.trace_id for trace in reader.turns()]
        assert (set(found), len(found)) == (wanted, 300)
        if merged:
            break
    TraceStore(tmp_path).merge_finished_days(DAY.date().replace(day=17))
    traces = reader.turns()
    assert {trace.trace_id for trace in traces} == wanted
    assert all(len(trace.nodes) == 20 and len(trace.segments) == 1 for trace in traces)
    assert not list((tmp_path / "open").rglob("*.jsonl*"))
    assert not list((tmp_path / "merged").rglob("*.tmp"))


@pytest.mark.slow
def test_a_reader_misses_nothing_while_a_merge_runs(tmp_path: Path) -> None:
    with start(APPENDING, tmp_path, "a", 100, DAY.isoformat()) as writer:
        writer.communicate()
    reader = TraceReader(tmp_path)
    with start(MERGING, tmp_path, "2026-03-17") as process:
        while process.poll() is None:
            assert len(reader.turns()) == 100
    assert len(reader.turns()) == 100
