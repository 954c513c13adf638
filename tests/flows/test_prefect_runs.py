"""Flows run by the dispatcher and by a worker, against a real Prefect server on loopback."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.plain import PlainRunner
from flows.prefect_runner import PrefectRunner, crash_leftovers
from flows.serve import import_flows
from flows.server import PrefectServer
from tests.scheduling import MAIN, Bench, every

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ALL = ("agents.defaults.heartbeat.every=30m", "agents.defaults.heartbeat.anchor=12:00")
ROOT = Path(__file__).parents[2]


def recorded(root: Path, sets: tuple[str, ...] = ALL, patience_s: float = 60.0) -> Bench:
    """A bench whose dispatcher records its runs; a busy machine may take its time."""
    bench = Bench(root, sets, at="2026-03-16T11:59:30")
    import_flows()
    plain = PlainRunner(lambda: bench.dispatcher.home, bench.clock)
    bench.dispatcher.runner = PrefectRunner(plain, ready=True, patience_s=patience_s)
    return bench


def start(*argv: str, env: dict[str, str] | None = None, out: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """Start a process with the environment of the server."""
    return subprocess.Popen(argv, cwd=ROOT, env=env or {**os.environ}, stdout=out)


async def runs_of(name: str) -> list[Any]:
    from prefect import get_client
    from prefect.client.schemas.filters import FlowFilter, FlowFilterName

    async with get_client() as client:
        wanted = FlowFilter(name=FlowFilterName(any_=[name]))
        return list(await client.read_flow_runs(flow_filter=wanted))


async def markdown_of(flow_run_id: Any) -> str:
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    async with get_client() as client:
        wanted = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run_id]))
        artifacts = await client.read_artifacts(artifact_filter=wanted)
    return "\n".join(str(artifact.data) for artifact in artifacts)


async def logs_of(flow_run_id: Any) -> list[str]:
    from prefect import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
    from prefect.logging.handlers import APILogHandler

    await APILogHandler.aflush()
    async with get_client() as client:
        found = await client.read_logs(log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[flow_run_id])))
    return [entry.message for entry in found]


async def test_each_flow_run_by_the_dispatcher_leaves_state_logs_and_artifact(
    prefect_server: PrefectServer, tmp_path: Path
) -> None:
    bench = recorded(tmp_path / "home")
    bench.add("news", every(10))
    await bench.tick(seconds=30)
    (run,) = bench.store.logs.read("news")
    assert run["status"] == "ok"
    for name in ("cron", "heartbeat", "reindex", "maintenance"):
        found = [flow_run for flow_run in await runs_of(name) if flow_run.state_name in ("Completed", "Skipped")]
        assert found, name
        assert await logs_of(found[0].id), name
        assert (await markdown_of(found[0].id)).startswith("# "), name
    (cron_run,) = await runs_of("cron")
    assert str(cron_run.id) == run["flowRunId"]
    assert run["traceId"] in await markdown_of(cron_run.id)
    assert bench.agent.traces().trace(run["traceId"]).facts["flow_run_id"] == run["flowRunId"]


async def test_a_failing_job_is_a_failed_run_and_not_a_failed_dispatcher(
    prefect_server: PrefectServer, tmp_path: Path
) -> None:
    from turngraph.errors import ModelError

    bench = recorded(tmp_path / "home", ())
    bench.add("broken", every(10))
    bench.model.enqueue(*[ModelError("no such model", kind="missing")] * 3)
    await bench.tick(seconds=30)
    flow_run_id = bench.store.logs.read("broken")[0]["flowRunId"]
    found = [flow_run for flow_run in await runs_of("cron") if str(flow_run.id) == flow_run_id]
    assert [flow_run.state_name for flow_run in found] == ["Failed"]


async def test_a_server_that_is_gone_costs_the_record_and_not_the_run(
    prefect_server: PrefectServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    bench = recorded(tmp_path / "home", (), patience_s=3.0)
    bench.add("news", every(10))
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        await bench.tick(seconds=30)
        await bench.tick(seconds=10)
    assert [run["status"] for run in bench.store.logs.read("news")] == ["ok", "ok"]
    assert len(bench.model.requests) == 2
    assert len([record for record in caplog.records if "does not answer" in record.message]) == 1


async def test_no_run_stays_running_after_a_stop_or_a_kill(prefect_server: PrefectServer, tmp_path: Path) -> None:
    from prefect import get_client

    script = tmp_path / "stuck.py"
    script.write_text(
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from flows.prefect_runner import call_flow, serve_tag\n"
        "from flows.plain import PlainRunner\n"
        "from flows.recording import Handed\n"
        "async def hang(runner):\n"
        "    print('running', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "handed = Handed(hang, PlainRunner(None, None))\n"
        "asyncio.run(call_flow('heartbeat', {'agent_id': 'stuck'}, handed, serve_tag(sys.argv[1])))\n"
    )
    process = start(sys.executable, str(script), str(tmp_path))
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"running\n"
    process.kill()
    process.wait()
    stuck = [flow_run for flow_run in await runs_of("heartbeat") if flow_run.parameters.get("agent_id") == "stuck"]
    assert [flow_run.state_name for flow_run in stuck] == ["Running"]
    assert await crash_leftovers(tmp_path / "another home") == 0
    assert await crash_leftovers(tmp_path) == 1
    async with get_client() as client:
        assert (await client.read_flow_run(stuck[0].id)).state_name == "Crashed"


async def test_a_deployment_of_each_flow_is_run_by_a_worker(prefect_server: PrefectServer, tmp_path: Path) -> None:
    """One worker process for all of them: each run starts a process that imports Prefect."""
    from prefect import get_client
    from prefect.deployments.flow_runs import arun_deployment

    home = tmp_path / "home"
    bench = Bench(home, ())
    bench.add("news", every(3600))
    await bench.agent.turn("What is in my notes?")
    transcript = bench.agent.sessions().transcript_of(bench.agent.sessions().get(MAIN))
    env = {**os.environ, "TURNGRAPH_HOME": str(home), "TURNGRAPH_CODE": str(ROOT)}
    prefect = [sys.executable, "-m", "prefect"]

    def call(*words: str) -> None:
        done = subprocess.run([*prefect, *words], cwd=ROOT, env=env, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr

    await asyncio.to_thread(call, "work-pool", "create", "turngraph", "--type", "process")
    await asyncio.to_thread(call, "--no-prompt", "deploy", "--all")
    parameters: dict[str, dict[str, Any]] = {
        "cron": {"job_id": "news"},
        "heartbeat": {"agent_id": "main"},
        "reindex": {"agent_id": "main"},
        "maintenance": {"dry_run": True},
        "replay": {"transcripts": [str(transcript)], "out": str(tmp_path / "replayed")},
    }
    started = [
        await arun_deployment(f"{name}/turngraph", parameters=given, timeout=0, as_subflow=False)
        for name, given in parameters.items()
    ]
    other = Bench(tmp_path / "other", ())
    other.add("often", every(60))
    started += [  # as a schedule of Prefect's own starts them: what is due is for the store to say
        await arun_deployment(f"{name}/turngraph", parameters={"home": str(other.root)}, timeout=0, as_subflow=False)
        for name in ("cron", "heartbeat")
    ]
    worker = start(*prefect, "worker", "start", "--pool", "turngraph", "--limit", "2", env=env, out=subprocess.DEVNULL)
    try:
        async with get_client() as client:
            states: list[str | None] = []
            for _ in range(200):
                states = [(await client.read_flow_run(flow_run.id)).state_name for flow_run in started]
                if all(state in ("Completed", "Skipped", "Failed", "Crashed") for state in states):
                    break
                await asyncio.sleep(1)
        assert all(state in ("Completed", "Skipped") for state in states), states
        (run,) = bench.store.logs.read("news")
        assert (run["status"], run.get("slotMs")) == ("ok", None)
        assert run["flowRunId"] == str(started[0].id)
        assert list((tmp_path / "replayed").iterdir())
        for flow_run in started[: len(parameters)]:
            assert (await markdown_of(flow_run.id)).startswith("# ")
        assert [run["status"] for run in other.store.logs.read("often")] == ["ok"]
        await _through_the_pool(bench)
    finally:
        worker.terminate()
        worker.wait(30)


async def _through_the_pool(bench: Bench) -> None:
    """With ``serve.workPool`` the dispatcher decides, and the worker runs a job, a heartbeat, an index, maintenance."""
    plain = PlainRunner(lambda: bench.dispatcher.home, bench.clock)
    bench.sets = ("serve.workPool=turngraph", *ALL)
    bench.home = bench._open(bench.root)
    bench.restart()
    bench.dispatcher.runner = PrefectRunner(plain, ready=True)
    asked = len(bench.model.requests)
    before = {name: len(await runs_of(name)) for name in ("cron", "heartbeat", "reindex", "maintenance")}
    await bench.tick(seconds=3600)
    assert bench.outcomes("news")[-1] in ("done", "late")
    assert len(bench.model.requests) == asked, "a worker has a model of its own"
    assert bench.store.logs.read("news")[-1]["slotMs"] == bench.now_ms
    claims = [line for line in bench.store.ledger.read("news").lines if line.get("reason") == "taken over by a worker"]
    assert [claim["pid"] == os.getpid() for claim in claims] == [False]
    for name, count in before.items():
        assert len(await runs_of(name)) == count + 1, name
    result = await bench.dispatcher.runner.heartbeat("main", "manual")
    assert (result.status, result.reason) != ("failed", "")


async def test_a_deployment_without_a_job_runs_what_is_due(prefect_server: PrefectServer, tmp_path: Path) -> None:
    from flows.due_now import run_due

    bench = Bench(tmp_path / "home", ())
    bench.add("news", every(30))
    bench.add("later", every(3600))
    bench.clock.advance(timedelta(seconds=31))
    runner = PlainRunner(lambda: bench.home, bench.clock)
    assert await run_due(runner) == ["news"]
    assert await run_due(runner) == []


async def test_a_deployment_without_an_agent_runs_the_heartbeats_that_are_due(tmp_path: Path) -> None:
    from flows.due_now import run_due_beats
    from flows.serve_lock import ServeLock

    bench = Bench(tmp_path / "home", ALL, at="2026-03-16T11:59:30")
    runner = PlainRunner(lambda: bench.home, bench.clock)
    assert await run_due_beats(runner) == [], "a start is no reason to beat"
    bench.clock.advance(timedelta(seconds=45))
    lock = ServeLock(bench.root)
    assert lock.take()
    assert await run_due_beats(runner) == [], "serve does it"
    lock.release()
    assert len(await run_due_beats(runner)) == 1
    assert await run_due_beats(runner) == []
