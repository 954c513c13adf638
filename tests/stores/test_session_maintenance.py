from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.archives import archive_stamp
from stores.locks import hold_lock
from stores.media import MediaStore
from stores.session_entries import store_bytes, store_text
from stores.session_maintenance import Task, maintain_if_due, run_maintenance
from stores.session_retention import FolderFile, overflow_keys, plan_budget
from stores.sessions import SessionStore
from turngraph.clock import DerivedIds, FixedClock, to_ms
from turngraph.config.schema_session import Maintenance

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
MAIN = "agent:main:main"


def policy(**settings: Any) -> Maintenance:
    return Maintenance.model_validate(settings)


def fill(folder: Path, count: int, old: int) -> SessionStore:
    """A store of ``count`` sessions with transcripts, the first ``old`` of them unused for 40 days."""
    entries = {}
    for n in range(count):
        key = MAIN if n == 0 else f"agent:main:telegram:direct:{n}"
        at = NOW - (timedelta(days=40) if n < old else timedelta(minutes=count - n))
        entries[key] = {"sessionId": f"s{n}", "updatedAt": to_ms(at)}
        (folder / f"s{n}.jsonl").write_text("{}\n")
    store = SessionStore(folder / "sessions.json", "main", FixedClock(NOW), DerivedIds("test"))
    store.path.write_bytes(store_text(entries))
    return store


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_default_reports_what_would_go_and_removes_no_session(tmp_path: Path) -> None:
    store = fill(tmp_path, 600, 100)
    before = names(tmp_path)
    report = run_maintenance(store, policy(maxEntries=1_000))
    assert (report.before, report.after, len(report.pruned), report.applied) == (600, 501, 99, False)
    assert len(store.entries()) == 600
    assert names(tmp_path) == before


def test_the_write_path_reports_too_and_only_once_a_minute(tmp_path: Path) -> None:
    store = fill(tmp_path, 600, 100)
    due = {"active_key": MAIN, "main_key": "main"}
    report = maintain_if_due(store, policy(maxEntries=1_000), **due)
    assert report is not None
    assert len(report.pruned) == 99
    assert maintain_if_due(store, policy(), **due) is None
    store.clock.advance(timedelta(seconds=61))  # type: ignore[attr-defined]
    assert maintain_if_due(store, policy(), **due) is not None
    assert len(store.entries()) == 600


def test_enforce_removes_exactly_those_and_a_second_run_nothing(tmp_path: Path) -> None:
    store = fill(tmp_path, 600, 100)
    active = "agent:main:telegram:direct:5"
    report = run_maintenance(store, policy(mode="enforce", maxEntries=1_000), Task(active_key=active))
    assert len(report.pruned) == 98
    assert report.applied
    assert len(store.entries()) == 502
    assert {MAIN, active} <= set(store.entries())
    assert len(report.orphaned) == 98
    assert not (tmp_path / "s1.jsonl").exists()
    assert (tmp_path / f"s1.jsonl.deleted.{archive_stamp(NOW)}").exists()
    again = run_maintenance(store, policy(mode="enforce", maxEntries=1_000), Task(active_key=active))
    assert (again.removed_keys, again.swept, again.applied) == ((), (), False)


def test_a_running_session_stays_whatever_its_age(tmp_path: Path) -> None:
    store = fill(tmp_path, 4, 4)
    running = "agent:main:telegram:direct:2"

    async def clean_up_during_a_turn() -> None:
        async with store.turn(running, timeout_ms=0):
            with hold_lock(tmp_path / "s3.jsonl"):
                run_maintenance(store, policy(mode="enforce"))

    asyncio.run(clean_up_during_a_turn())
    assert set(store.entries()) == {MAIN, running, "agent:main:telegram:direct:3"}


def test_an_ordinary_write_looks_at_the_cap_only_when_it_is_well_exceeded(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, 0)
    enforce = policy(mode="enforce", maxEntries=50)
    assert run_maintenance(store, enforce, Task(ordinary_write=True)).capped == ()
    assert len(run_maintenance(store, enforce).capped) == 9  # the main session is the oldest and stays
    assert len(store.entries()) == 51


def test_archives_past_their_retention_go_in_every_mode(tmp_path: Path) -> None:
    store = fill(tmp_path, 1, 0)
    old = f"a.jsonl.reset.{archive_stamp(NOW - timedelta(days=40))}"
    new = f"a.jsonl.reset.{archive_stamp(NOW - timedelta(days=5))}"
    for name in (old, new):
        (tmp_path / name).write_text("1234")
    dry = run_maintenance(store, policy(), Task(dry_run=True))
    assert [(item.name, item.bytes) for item in dry.swept] == [(old, 4)]
    assert (tmp_path / old).exists()
    assert [item.name for item in run_maintenance(store, policy()).swept] == [old]
    assert old not in names(tmp_path)
    assert new in names(tmp_path)


def test_media_that_no_transcript_names_goes_when_it_is_old(tmp_path: Path) -> None:
    store = fill(tmp_path, 1, 0)
    media = MediaStore(tmp_path / "media")
    used, lost, young = (media.put(data) for data in (b"used", b"lost", b"young"))
    (tmp_path / "s0.jsonl").write_text(f"[media attached: {used.path}]\n")
    for fact, days in ((used, 40), (lost, 40), (young, 5)):
        at = (NOW - timedelta(days=days)).timestamp()
        os.utime(media.file(fact.path), (at, at))
    report = run_maintenance(store, policy())
    assert [(item.name, item.reason, item.bytes) for item in report.swept] == [(lost.path, "media", 4)]
    assert names(media.folder) == sorted(Path(fact.path).name for fact in (used, young))


def test_entries_without_a_transcript_are_found_and_removed_when_asked_for(tmp_path: Path) -> None:
    store = fill(tmp_path, 3, 0)
    (tmp_path / "s1.jsonl").unlink()
    gone = "agent:main:telegram:direct:1"
    dry = run_maintenance(store, policy(), Task(dry_run=True, fix_missing=True))
    assert (dry.missing, dry.action(gone), dry.action(MAIN)) == ((gone,), "prune-missing", "keep")
    assert len(store.entries()) == 3
    done = run_maintenance(store, policy(), Task(fix_missing=True))
    assert done.applied
    assert list(store.entries()) == [MAIN, "agent:main:telegram:direct:2"]


def test_a_dry_run_in_mode_warn_shows_what_a_budget_would_take(tmp_path: Path) -> None:
    store = fill(tmp_path, 3, 0)
    (tmp_path / "orphan.jsonl").write_text("x" * 5_000)
    os.utime(tmp_path / "orphan.jsonl", (1, 1))
    before = names(tmp_path)
    report = run_maintenance(store, policy(maxDiskBytes=2_000), Task(dry_run=True))
    assert report.budget is not None
    assert report.budget.files == ("orphan.jsonl",)
    warned = run_maintenance(store, policy(maxDiskBytes=2_000))
    assert warned.budget is not None
    assert (warned.budget.over_budget, warned.budget.files) == (True, ())
    assert names(tmp_path) == before


def test_an_oversized_table_is_set_aside_and_still_there(tmp_path: Path) -> None:
    store = fill(tmp_path, 3, 0)
    report = run_maintenance(store, policy(mode="enforce", rotateBytes=10))
    assert report.rotated
    assert f"sessions.json.bak.{to_ms(NOW)}" in names(tmp_path)
    assert len(store.entries()) == 3
    assert store.read().problem is None


def test_trouble_on_the_write_path_is_logged_and_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SessionStore(tmp_path / "gone" / "sessions.json", "main", FixedClock(NOW), DerivedIds("test"))
    assert maintain_if_due(store, policy(), active_key=MAIN, main_key="main") is None
    assert "failed" in caplog.text


SIZES = st.lists(st.integers(1, 9_000), min_size=1, max_size=8)


@given(SIZES, st.integers(1, 30_000), st.floats(0.1, 1.0))
def test_a_budget_adds_up_and_keeps_what_is_protected(sizes: list[int], budget: int, share: float) -> None:
    entries = {f"agent:main:k{n}": {"sessionId": f"s{n}", "updatedAt": n} for n in range(len(sizes))}
    files = [FolderFile(f"s{n}.jsonl", size, n) for n, size in enumerate(sizes)]
    plan = plan_budget(
        entries,
        files,
        lambda key: [f"s{key.removeprefix('agent:main:k')}.jsonl"],
        max_bytes=budget,
        high_water_bytes=int(budget * share),
        protects=lambda key: key == "agent:main:k0",
    )
    left = {key: entry for key, entry in entries.items() if key not in plan.keys}
    left_bytes = sum(file.bytes for file in files if file.name not in plan.files)
    assert "agent:main:k0" in left
    assert plan.freed_bytes == sum(sizes) - left_bytes
    assert plan.total_after == left_bytes + store_bytes(left)
    assert bool(plan.keys) <= plan.over_budget


@given(st.lists(st.integers(0, 9) | st.none(), max_size=12), st.integers(0, 12))
def test_a_cap_keeps_the_newest_and_never_more_than_it_says(times: list[int | None], most: int) -> None:
    entries = {f"k{n}": {} if at is None else {"updatedAt": at} for n, at in enumerate(times)}
    gone = overflow_keys(entries, most)
    kept = [key for key in entries if key not in gone]
    assert len(kept) == min(most, len(entries))
    ages = {key: entries[key].get("updatedAt") or 0 for key in entries}
    assert all(ages[old] <= ages[new] for old in gone for new in kept)
