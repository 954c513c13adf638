"""``turngraph serve`` as a process: from an empty home to a visible run, edits, two of them, kills, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stores.jobs import JobStore

pytestmark = [
    pytest.mark.slow,  # processes only; a socket that tests before them left to the collector is not theirs
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Serving = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Start serve processes, and end those that are left."""
    started: list[subprocess.Popen[bytes]] = []
    home = tmp_path / "home"

    def start(*words: str) -> subprocess.Popen[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        log = (tmp_path / f"serve{len(started)}.log").open("wb")
        argv = [sys.executable, "-m", "turngraph.cli.main", "serve", "--home", str(home), *words]
        started.append(subprocess.Popen(argv, stdout=log, stderr=log, env=env))
        log.close()
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def call(tmp_path: Path, *words: str) -> Any:
    argv = [sys.executable, "-m", "turngraph.cli.main", *words, "--home", str(tmp_path / "home"), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def until(true: Callable[[], Any], seconds: float) -> Any:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := true():
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def runs(tmp_path: Path, job_id: str) -> list[dict[str, Any]]:
    return JobStore(tmp_path / "home" / "cron" / "jobs.json").logs.read(job_id)


def interrupt(process: subprocess.Popen[bytes]) -> float:
    """Press Ctrl-C and return how long the end takes, in seconds."""
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.wait(30)
    return time.monotonic() - began


def test_from_an_empty_home_to_a_recorded_run(tmp_path: Path, serving: Serving) -> None:
    began = time.monotonic()
    job = call(tmp_path, "cron", "add", "What is new?", "--every", "5s")
    process = serving()
    until(lambda: runs(tmp_path, job["id"]), 60)
    first_s = time.monotonic() - began
    assert first_s < 60
    recorded = until(lambda: [run for run in runs(tmp_path, job["id"]) if "flowRunId" in run], 180)
    assert recorded[0]["status"] == "ok"
    stop_s = interrupt(process)
    assert process.returncode == 0
    assert stop_s < 5
    log = (tmp_path / "serve0.log").read_text()
    print(f"first run after {first_s:.1f} s, end after {stop_s:.1f} s\n{log}")
    slots = [run["slotMs"] for run in runs(tmp_path, job["id"])]
    assert len(slots) == len(set(slots))


def test_an_edit_is_seen_within_seconds_and_a_second_serve_waits_and_takes_over(
    tmp_path: Path, serving: Serving
) -> None:
    job = call(tmp_path, "cron", "add", "What is new?", "--every", "1h")
    first = serving("--no-prefect")
    until(lambda: "serving" in (tmp_path / "serve0.log").read_text(), 60)
    second = serving("--no-prefect")
    until(lambda: f"passive: process {first.pid}" in (tmp_path / "serve1.log").read_text(), 60)
    call(tmp_path, "cron", "edit", job["id"], "--every", "2s")
    edited = time.monotonic()
    until(lambda: runs(tmp_path, job["id"]), 45)
    assert time.monotonic() - edited < 45
    first.kill()
    first.wait()
    until(lambda: "taking over" in (tmp_path / "serve1.log").read_text(), 30)
    before = len(runs(tmp_path, job["id"]))
    until(lambda: len(runs(tmp_path, job["id"])) > before, 60)
    assert interrupt(second) < 5
    slots = [run["slotMs"] for run in runs(tmp_path, job["id"])]
    assert len(slots) == len(set(slots))


def test_a_run_that_ctrl_c_cuts_off_is_interrupted(tmp_path: Path, serving: Serving) -> None:
    script = f"{sys.executable} -c 'import time; time.sleep(600)'"
    job = call(tmp_path, "cron", "add", "What is new?", "--every", "2s", "--to-command", script)
    process = serving("--no-prefect")
    store = JobStore(tmp_path / "home" / "cron" / "jobs.json")
    until(lambda: store.ledger.read(job["id"]).open, 60)
    time.sleep(5)
    assert interrupt(process) < 5
    read = store.ledger.read(job["id"])
    assert read.open == ()
    assert "runningAtMs" not in store.load().jobs[0].state


def of_state(api_url: str, state: str) -> list[Any]:
    """Return the flow runs of a state as the server has them."""
    wanted = {"flow_runs": {"state": {"type": {"any_": [state]}}}}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{api_url}/flow_runs/filter", json.dumps(wanted).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: list[Any] = json.load(answer)
    return found


def api_url(log: Path) -> str | None:
    found = re.search(r"Prefect records runs at (\S+):", log.read_text())
    return found[1] if found else None


def test_no_run_stays_running_after_a_kill(tmp_path: Path, serving: Serving) -> None:
    process = serving("--set", "serve.reindexEvery=0", "--set", "serve.maintenanceEvery=0")
    first = until(lambda: api_url(tmp_path / "serve0.log"), 180)
    script = f"{sys.executable} -c 'import time; time.sleep(600)'"
    job = call(tmp_path, "cron", "add", "What is new?", "--every", "2s", "--to-command", script)
    until(lambda: of_state(first, "RUNNING"), 60)
    process.kill()
    process.wait()
    call(tmp_path, "cron", "disable", job["id"])
    serving("--set", "serve.reindexEvery=0", "--set", "serve.maintenanceEvery=0")
    second = until(lambda: api_url(tmp_path / "serve1.log"), 180)
    assert "1 runs of an earlier process were interrupted" in (tmp_path / "serve1.log").read_text()
    assert "set to Crashed" in (tmp_path / "serve1.log").read_text()
    assert of_state(second, "RUNNING") == []
    assert len(of_state(second, "CRASHED")) == 1


def test_an_edited_note_is_searchable_within_seconds(tmp_path: Path, serving: Serving) -> None:
    """Also in the workspace of an agent that the settings get while serve runs (known-faults 7.7)."""
    serving("--no-prefect", "--set", "serve.heartbeats=false")
    until(lambda: "serving" in (tmp_path / "serve0.log").read_text(), 60)
    home = tmp_path / "home"

    def state(agent: str) -> str:
        rows = call(tmp_path, "status")["agents"]
        return next((f"{row['index']}: {row['memory']}" for row in rows if row["agent"] == agent), "no such agent")

    def edited(workspace: str, agent: str, text: str) -> float:
        note = home / workspace / "memory" / "note.md"
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(text)
        began = time.monotonic()
        until(lambda: state(agent).startswith("clean: ") and " 0 chunks" not in state(agent), 60)
        return time.monotonic() - began

    took = [edited("workspace", "main", "The ferry leaves at nine.")]
    (home / "turngraph.json5").write_text('{agents: {list: [{id: "main"}, {id: "ops"}]}}')
    took.append(edited("workspace-ops", "ops", "The pump is on the left."))
    print(f"searchable after {took[0]:.1f} s, in a new workspace after {took[1]:.1f} s")
    assert max(took) < 30
    assert "1 removed" not in (tmp_path / "serve0.log").read_text()


def test_what_happens_can_be_read_as_json(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "turngraph.cli.main", "serve", "--home", str(tmp_path / "home"), "--no-prefect"]
    call(tmp_path, "cron", "add", "What is new?", "--every", "2s", "--name", "news")
    with subprocess.Popen([*argv, "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines: list[dict[str, str]] = []
        while not (lines and lines[-1]["text"].startswith("job news: ok")):
            lines.append(json.loads(process.stdout.readline()))
        process.send_signal(signal.SIGINT)
        lines += [json.loads(line) for line in process.stdout]
    assert lines[0]["text"].startswith("serving ")
    assert lines[-1] == {"at": lines[-1]["at"], "level": "info", "text": "stopped"}
