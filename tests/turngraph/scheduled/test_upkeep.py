"""Maintenance of a home: dry runs, retention, runs of jobs (known-faults 1.7 and 12.1)."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.scheduling import QUIET, Bench, every
from turngraph.clock import to_ms
from turngraph.scheduled.upkeep import run_upkeep


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "home")


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def archives(bench: Bench) -> Path:
    folder = bench.home.home.sessions_dir("main")
    folder.mkdir(parents=True, exist_ok=True)
    for days in (5, 40):
        at = f"{bench.clock.now() - timedelta(days=days):%Y-%m-%dT%H-%M-%S.000Z}"
        for name in (f"a.jsonl.reset.{at}", f"b.jsonl.deleted.{at}"):
            (folder / name).write_text("old")
    (folder / "unknown.xyz").write_text("not ours")
    return folder


def test_a_dry_run_lists_and_touches_nothing(bench: Bench) -> None:
    archives(bench)
    before = files(bench.root)
    report = run_upkeep(bench.home, bench.clock, dry_run=True)
    assert report.files == 2
    assert report.freed_bytes == 6
    assert files(bench.root) == before
    assert any("would sweep a.jsonl.reset" in line for line in report.lines())


def test_what_is_past_its_retention_goes_and_a_second_run_does_nothing(bench: Bench) -> None:
    folder = archives(bench)
    assert run_upkeep(bench.home, bench.clock).files == 2
    assert len([path for path in folder.iterdir() if ".jsonl." in path.name]) == 2
    assert (folder / "unknown.xyz").exists()
    assert run_upkeep(bench.home, bench.clock).files == 0


def six_hundred(bench: Bench) -> None:
    """600 sessions with transcripts, 100 of them older than ``pruneAfter``."""
    store = bench.agent.sessions()
    store.folder.mkdir(parents=True, exist_ok=True)
    old = to_ms(bench.clock.now() - timedelta(days=90))
    with store.transaction() as entries:
        for number in range(600):
            at = old if number < 100 else bench.now_ms
            name = f"id-{number}.jsonl"
            (store.folder / name).write_text("{}\n")
            entries[f"agent:main:s{number}"] = {"sessionId": f"id-{number}", "updatedAt": at, "sessionFile": name}


def test_old_sessions_stay_by_default(bench: Bench) -> None:
    """known-faults 1.7: mode warn, in the flow's own function."""
    six_hundred(bench)
    before = files(bench.root)
    report = run_upkeep(bench.home, bench.clock)
    assert len(report.sessions[0].removed_keys) == 100
    assert not report.sessions[0].applied
    assert len(bench.agent.sessions().entries()) == 600
    assert {name for name in before if name.endswith(".jsonl")} <= files(bench.root)


async def test_writing_a_session_removes_no_other_one_either(bench: Bench) -> None:
    """known-faults 1.7: the write path."""
    six_hundred(bench)
    await bench.agent.turn("hello")
    assert len(bench.agent.sessions().entries()) == 601


def test_exactly_the_old_sessions_go_when_the_settings_say_so(tmp_path: Path) -> None:
    """known-faults 1.7: mode enforce; a second run does nothing."""
    bench = Bench(tmp_path / "home", (*QUIET, "session.maintenance.mode=enforce"))
    six_hundred(bench)
    report = run_upkeep(bench.home, bench.clock)
    assert set(report.sessions[0].removed_keys) == {f"agent:main:s{number}" for number in range(100)}
    assert len(bench.agent.sessions().entries()) == 500
    assert run_upkeep(bench.home, bench.clock).sessions[0].removed_keys == ()


def test_with_a_size_cap_the_oldest_archives_go_first(tmp_path: Path) -> None:
    """known-faults 12.1: archives, backups and leftovers of 40 and 5 days, then a cap."""
    sets = (*QUIET, "session.maintenance.maxDiskBytes=3800", "session.maintenance.mode=enforce")
    bench = Bench(tmp_path / "home", sets)
    folder = bench.home.home.sessions_dir("main")
    folder.mkdir(parents=True, exist_ok=True)
    for days in (2, 3, 4):
        at = f"{bench.clock.now() - timedelta(days=days):%Y-%m-%dT%H-%M-%S.000Z}"
        path = folder / f"s{days}.jsonl.reset.{at}"
        path.write_text("x" * 1_000)
        written = (bench.clock.now() - timedelta(days=days)).timestamp()
        os.utime(path, (written, written))
    (folder / "unknown.xyz").write_text("x" * 1_000)
    (folder / "live.jsonl").write_text("x" * 100)
    bench.agent.sessions().update("agent:main:main", {"sessionId": "live", "sessionFile": "live.jsonl"})
    dry = run_upkeep(bench.home, bench.clock, dry_run=True)
    listed = [line.split()[2].split(".")[0] for line in dry.lines() if "disk budget" in line]
    assert listed[0] == "s4"
    assert dry.freed_bytes == 1_000 * len(listed)
    run_upkeep(bench.home, bench.clock)
    left = {path.name.split(".")[0] for path in folder.iterdir()}
    assert "s4" not in left
    assert {"s2", "live", "unknown"} <= left


async def test_sessions_of_runs_are_swept_after_their_retention(bench: Bench) -> None:
    bench.add("news", every(60))
    for _ in range(3):
        await bench.tick(seconds=60)
    store = bench.agent.sessions()
    folder = store.folder
    assert len(list(folder.glob("*.jsonl"))) == 3
    bench.clock.advance(timedelta(hours=25))
    report = run_upkeep(bench.home, bench.clock)
    assert len(report.runs[0][1]) == 3
    assert list(store.entries()) == ["agent:main:cron:news"]
    assert len(list(folder.glob("*.jsonl"))) == 1
    assert len(list(folder.glob("*.deleted.*"))) == 2


async def test_logs_of_deleted_jobs_go_after_the_retention_of_leftovers(bench: Bench) -> None:
    bench.add("news", every(60))
    bench.add("kept", every(3600))
    await bench.tick(seconds=60)
    bench.store.change(lambda _: {"news": None})
    log, slots = bench.store.logs.path("news"), bench.store.ledger.path("news")
    assert run_upkeep(bench.home, bench.clock).logs == ()
    old = (bench.clock.now() - timedelta(days=31)).timestamp()
    for path in (log, slots):
        os.utime(path, (old, old))
    assert run_upkeep(bench.home, bench.clock).logs == (log, slots)
    assert not log.exists()


def test_a_part_that_fails_does_not_stop_the_others(bench: Bench) -> None:
    archives(bench)
    bench.store.folder.mkdir(parents=True, exist_ok=True)
    bench.store.path.write_text("{")
    report = run_upkeep(bench.home, bench.clock)
    assert report.files == 2
    assert any("jobs.json" in problem for problem in report.problems)
