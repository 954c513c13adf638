"""Several processes may append to one transcript, and a big one is read for what it shows."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.transcripts import VISIBLE_MESSAGES, generate
from stores.transcripts import Transcript
from tests.builders import user
from turngraph.clock import RandomIds, SystemClock

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from stores.transcripts import Transcript
from turngraph.clock import RandomIds, SystemClock
from turngraph.messages import Message

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
transcript = Transcript.open(path, session_id="s", clock=SystemClock(), ids=RandomIds())
for number in range(count):
    transcript.append_message(Message({"role": "user", "content": f"{name} {number}"}))
"""
MEASURE = """
import resource, sys, time
from pathlib import Path
from stores.transcripts import Transcript
from turngraph.clock import RandomIds, SystemClock

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started = time.perf_counter()
transcript = Transcript.open(Path(sys.argv[1]), session_id="s", clock=SystemClock(), ids=RandomIds())
count = len(transcript.context().messages)
took = time.perf_counter() - started
print(count, took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, transcript.report.bytes_read)
"""


def opened(path: Path) -> Transcript:
    return Transcript.open(path, session_id="s", clock=SystemClock(), ids=RandomIds())


def test_entries_of_three_processes_form_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, "25"], env=environment) for name in "abc"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    transcript = opened(path)
    spoken = [message.text for message in transcript.context().messages]
    assert len(spoken) == 75
    for name in "abc":
        assert [text for text in spoken if text.startswith(name)] == [f"{name} {number}" for number in range(25)]
    assert path.read_bytes().count(b'"type":"session"') == 1
    assert transcript.report.repairs == ()
    assert not path.with_name("s.jsonl.lock").exists()


def test_a_tail_read_parses_what_is_visible_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    generate(path, 4_000)
    transcript = opened(path)
    assert len(transcript.context().messages) == VISIBLE_MESSAGES + 1
    assert len(transcript.entries()) == VISIBLE_MESSAGES + 1
    assert transcript.report.mode == "tail"
    assert transcript.report.bytes_read < transcript.report.bytes_total / 2
    assert transcript.context().thinking_level == "medium"


def test_appending_does_not_read_a_big_file_again(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    generate(path, 4_000)
    transcript = opened(path)
    transcript.append_message(user("hi"))
    assert not transcript.is_complete
    assert transcript.context().messages[-1].text == "hi"


@pytest.mark.slow
def test_fifty_megabytes_are_ready_in_three_seconds_and_150_megabytes(tmp_path: Path) -> None:
    """known-faults 2.4: the last compaction lies some hundred kilobytes before the end."""
    path = tmp_path / "s.jsonl"
    generate(path, 38_000)
    assert path.stat().st_size > 48_000_000
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    count, took_s, extra_mb, read_bytes = (float(part) for part in done.stdout.split())
    assert count == VISIBLE_MESSAGES + 1
    assert took_s < 3
    assert extra_mb < 150
    assert read_bytes < 2_000_000


@pytest.mark.slow
def test_the_tail_of_a_hundred_thousand_entries_costs_what_that_of_a_thousand_costs(tmp_path: Path) -> None:
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    generate(small, 1_000)
    generate(large, 100_000)
    best = {small: float("inf"), large: float("inf")}
    for _ in range(15):  # taken in turn, so that a busy machine slows both
        for path in best:
            started = time.perf_counter()
            opened(path).context()
            best[path] = min(best[path], time.perf_counter() - started)
    assert best[large] <= 1.3 * best[small]
