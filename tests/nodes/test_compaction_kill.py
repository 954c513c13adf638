"""A process that is killed in each phase of flush and compaction; the next one goes on from what is on disk."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nodes.budget import budget
from nodes.compact import compact
from nodes.memory_flush import memory_flush
from stores.transcripts import Transcript
from tests.builders import assistant, user
from tests.turn_home import TurnHome, make_home, scripted
from turngraph.summary_sections import build_sections

ROOT = Path(__file__).parents[2]
KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from nodes.compact import compact
from nodes.memory_flush import memory_flush
from stores.sessions import SessionStore
from tests.builders import call
from tests.nodes.test_compaction_kill import GOOD, reopened
from tests.turn_home import scripted

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

root, phase = Path(sys.argv[1]), sys.argv[2]
home = reopened(root)
note = {"content": [call("w", "write", path="memory/2026-03-16.md", content="fact\\n")]}
home.context.model = scripted(
    {"flush: asking": [die], "flush: written": [note, die], "compact: asking": [die]}.get(phase, []),
    then="NO_REPLY" if phase == "flush: noted" else GOOD,
    window=16_000,
)
if phase in ("flush: noted", "compact: stored"):
    SessionStore.update = die
node = memory_flush if phase.startswith("flush") else compact
asyncio.run(node(home.state(), home.runtime))
"""
GOOD = build_sections(asks="turn number")
PHASES = ["flush: asking", "flush: written", "flush: noted", "compact: asking", "compact: stored"]


def reopened(root: Path) -> TurnHome:
    """The home of a process that starts after another one ended."""
    home = make_home(root, settings={"compaction": {"keep_recent_tokens": 1_000}})
    home.context.model = scripted(then=lambda r: GOOD if r.purpose == "summary" else "NO_REPLY", window=16_000)
    return home


@pytest.mark.parametrize("phase", PHASES)
def test_the_next_process_goes_on_and_nothing_is_lost(tmp_path: Path, phase: str) -> None:
    home = reopened(tmp_path)
    texts = [f"turn number {i} " + "x" * 900 for i in range(30)]
    home.say(*[m for text in texts for m in (user(text), assistant("ok " + "y" * 900))])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), phase], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]

    home = reopened(tmp_path)
    routes = []
    state: Any = home.state()
    runtime: Any = home.runtime
    while (route := asyncio.run(budget(state, runtime))["route"]) != "fits":
        routes.append(route)
        node = memory_flush if route == "flush due" else compact
        update = asyncio.run(node(state, runtime))
        state = home.state(attempts=update["attempts"], session=update["session"])
    assert routes == {"compact: stored": []}.get(phase, ["flush due", "compact due"])

    whole = Transcript.open(
        home.transcript.path, session_id="s1", clock=home.context.clock, ids=home.context.ids, full=True
    )
    said = [whole.message(entry).text for entry in whole.entries() if entry.type == "message"]
    assert said[::2] == texts
    assert len([entry for entry in whole.entries() if entry.type == "compaction"]) == 1
    note = home.context.workspace / "memory" / "2026-03-16.md"
    assert not note.exists() or note.read_text() == "fact\n"
