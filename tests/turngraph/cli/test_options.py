"""How a command ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# A shell that starts the tests in the background has SIGINT and SIGQUIT ignored; a user's terminal has not.
HOLDS_A_LOCK = """
import signal, sys, time
from pathlib import Path
from stores.locks import hold_lock
from turngraph.cli.options import guarded

def command():
    with hold_lock(Path(sys.argv[1]), timeout_ms=1000):
        print("held", flush=True)
        time.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
sys.exit(guarded(command))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
def test_a_command_that_is_told_to_end_gives_its_locks_back(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "sessions.json"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_LOCK, str(file)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "held\n"
        assert (tmp_path / "sessions.json.lock").exists()
        running.send_signal(number)
        assert running.wait(20) == 128 + number
    assert not (tmp_path / "sessions.json.lock").exists()
