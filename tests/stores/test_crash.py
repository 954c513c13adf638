"""A killed writer loses at most the entry it was writing, and every file opens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stores.transcripts import Transcript
from tests.builders import assistant, user
from turngraph.clock import FixedClock, RandomIds

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
# For every line it gets it forks a writer, whose output ends with the line "end" once it is dead.
WRITERS = r"""
import itertools, os, sys
from pathlib import Path
from stores.transcripts import Transcript
from turngraph.clock import RandomIds, SystemClock
from turngraph.messages import Message

def write():
    transcript = Transcript.open(Path(sys.argv[1]), session_id="s", clock=SystemClock(), ids=RandomIds())
    for number in itertools.count():
        content = "x" * (number * 997 % 9000)
        entry = transcript.append_message(Message({"role": "user", "content": content}), durable=number % 7 == 0)
        if number % 11 == 10:
            entry = transcript.append_compaction("S", entry.id, 1)
        os.write(1, f"{entry.id}\n".encode())  # one write: a kill between two would leave half a line

for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        os.write(1, f"{os.getpid()}\n".encode())
        write()
    os.waitpid(child, 0)
    print("end", flush=True)
"""


def opened(path: Path) -> Transcript:
    return Transcript.open(path, session_id="s", clock=FixedClock(NOW), ids=RandomIds(), full=True)


def kill_a_writer(server: subprocess.Popen[str], after_s: float) -> list[str]:
    """Let a writer start, kill it some time after its first entry, and return the ids it acknowledged."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\n")
    server.stdin.flush()
    pid = int(server.stdout.readline())
    acknowledged = [server.stdout.readline()]
    time.sleep(after_s)
    os.kill(pid, signal.SIGKILL)
    while (line := server.stdout.readline()) != "end\n":
        acknowledged.append(line)
    return [line.strip() for line in acknowledged]


def kill_writers(path: Path, rounds: int) -> None:
    source = random.Random(2)
    acknowledged: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as server:
        for _ in range(rounds):
            acknowledged += kill_a_writer(server, source.uniform(0, 0.03))
            transcript = opened(path)
            on_path = {entry.id for entry in transcript.branch()}
            assert [own for own in acknowledged if own not in on_path] == []
    assert len(acknowledged) >= rounds


def test_no_acknowledged_entry_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    kill_writers(tmp_path / "s.jsonl", 10)


@pytest.mark.slow
def test_no_acknowledged_entry_is_lost_in_200_kills(tmp_path: Path) -> None:
    kill_writers(tmp_path / "s.jsonl", 200)


def test_a_file_cut_at_any_byte_opens_and_takes_the_next_entry(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    transcript = opened(whole)
    for message in (user("日本語"), assistant("好"), user("👩‍👩‍👧")):
        transcript.append_message(message)
    content = whole.read_bytes()
    ids = [entry.id for entry in transcript.entries()]
    for size in range(0, len(content), 7):
        path = tmp_path / f"{size}.jsonl"
        path.write_bytes(content[:size])
        survivors = [own for own in ids if own in [entry.id for entry in opened(path).entries()]]
        assert survivors == ids[: len(survivors)]
        assert len(survivors) >= max(0, content[:size].count(b"\n") - 1)
        opened(path).append_message(user("next"))
        reopened = opened(path)
        assert [entry.id for entry in reopened.branch()][:-1] == survivors
        assert reopened.report.repairs == ()
