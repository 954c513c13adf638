"""The job store, run logs, the slot ledger and the event file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stores.events import AgentEvent, EventFile
from stores.jobs import JobStore
from stores.run_logs import RunLogs, safe_job_id
from stores.slot_ledger import SlotLedger
from turngraph.config.schema_schedule import RunLog
from turngraph.errors import NotFound, StoreError
from turngraph.schedules.job import Job
from turngraph.schedules.slots import Stretch

LIMITS = RunLog()


def job(id_: str = "daily", **fields: object) -> Job:
    raw = {
        "id": id_,
        "name": "Daily 早报",
        "createdAtMs": 1,
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "Asia/Shanghai"},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "News"},
        "state": {},
    }
    return Job(raw | fields)


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path / "cron" / "jobs.json")


def test_a_store_that_is_not_there_has_no_jobs_and_is_not_made(store: JobStore) -> None:
    assert store.load().jobs == ()
    assert not store.path.exists()


def test_what_is_written_is_readable_json_with_the_mode_of_a_secret(store: JobStore) -> None:
    store.add(job())
    document = json.loads(store.path.read_text())
    assert document["version"] == 1
    assert document["jobs"][0]["name"] == "Daily 早报"
    assert store.path.read_text().startswith('{\n  "version"')
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_unknown_keys_of_file_job_and_our_own_field_are_kept(store: JobStore) -> None:
    store.add(job(theirs=1, turngraph={"catchUp": "none", "future": True}))
    document = json.loads(store.path.read_text())
    store.path.write_text(json.dumps(document | {"extra": [1]}))
    store.update("daily", lambda found: found.evolve(own={"notBeforeMs": 5}))
    written = json.loads(store.path.read_text())
    assert written["extra"] == [1]
    assert written["jobs"][0]["theirs"] == 1
    assert written["jobs"][0]["turngraph"] == {"catchUp": "none", "future": True, "notBeforeMs": 5}


def test_rows_that_cannot_be_used_are_reported_and_stay(store: JobStore) -> None:
    bad = [
        {"id": "x", "schedule": {"kind": "stream"}, "payload": {"kind": "agentTurn"}, "sessionTarget": "isolated"},
        "rubbish",
        {"id": "a/b", "schedule": {"kind": "every"}, "payload": {"kind": "systemEvent"}, "sessionTarget": "main"},
    ]
    store.folder.mkdir(parents=True)
    store.path.write_text(json.dumps({"version": 1, "jobs": [*bad, dict(job().raw)]}))
    loaded = store.load()
    assert [found.id for found in loaded.jobs] == ["daily"]
    assert len(loaded.unusable) == 3
    store.update("daily", lambda found: found.evolve(state={"lastStatus": "ok"}))
    assert json.loads(store.path.read_text())["jobs"][:3] == bad


@pytest.mark.parametrize("content", ["", "{", '{"jobs": {}}', "[]"])
def test_an_unreadable_store_is_an_error_and_is_never_overwritten(store: JobStore, content: str) -> None:
    store.folder.mkdir(parents=True)
    store.path.write_text(content)
    with pytest.raises(StoreError, match="not overwritten"):
        store.add(job())
    assert store.path.read_text() == content


def test_the_version_before_an_edit_is_kept_but_not_that_before_a_run(store: JobStore) -> None:
    store.add(job())
    backup = store.path.with_name("jobs.json.bak")
    store.update("daily", lambda found: found.evolve(state={"lastStatus": "ok"}))
    assert not backup.exists()
    store.update("daily", lambda found: found.evolve(name="Other"))
    assert json.loads(backup.read_text())["jobs"][0]["name"] == "Daily 早报"


def test_a_job_is_found_by_id_beginning_or_name(store: JobStore) -> None:
    store.add(job("abc-1"))
    store.add(job("abc-2", name="Weekly"))
    loaded = store.load()
    assert loaded.find("abc-2").id == loaded.find("Weekly").id == "abc-2"
    for text in ("abc", "nothing"):
        with pytest.raises(NotFound):
            loaded.find(text)


def test_an_id_is_not_used_twice(store: JobStore) -> None:
    store.add(job())
    store.ledger.claim("daily", 10, "r", 10)
    store.change(lambda _: {"daily": None})
    with pytest.raises(StoreError, match="used before"):
        store.add(job())


def test_an_edit_by_another_process_between_two_changes_is_not_lost(store: JobStore) -> None:
    store.add(job())
    document = json.loads(store.path.read_text())
    document["jobs"][0]["name"] = "By hand"
    store.path.write_text(json.dumps(document))
    store.update("daily", lambda found: found.evolve(state={"lastStatus": "ok"}))
    assert store.load().jobs[0].name == "By hand"


def test_a_slot_is_claimed_once(tmp_path: Path) -> None:
    ledger = SlotLedger(tmp_path)
    assert ledger.claim("daily", 1_000, "r1", 1_500)
    assert not ledger.claim("daily", 1_000, "r2", 1_600)
    ledger.settle("daily", 1_000, "r1", "done", 2_000, LIMITS, status="ok")
    assert not ledger.claim("daily", 1_000, "r3", 3_000)
    read = ledger.read("daily")
    assert (read.settled_ms, read.open) == (1_000, ())


def test_a_stretch_of_missed_slots_blocks_each_of_them(tmp_path: Path) -> None:
    ledger = SlotLedger(tmp_path)
    ledger.record("daily", Stretch("missed", 1_000, 9_000, 9, "stopped"), "r", 10_000)
    assert not ledger.claim("daily", 5_000, "r1", 10_000)
    assert ledger.claim("daily", 10_000, "r2", 10_000)
    ledger.record("daily", Stretch("missed", 1_000, 9_000, 9, "stopped"), "r", 10_000)
    assert len(ledger.read("daily").lines) == 2


def test_runs_by_hand_block_no_slot(tmp_path: Path) -> None:
    ledger = SlotLedger(tmp_path)
    assert ledger.claim("daily", None, "r1", 1_000)
    assert ledger.claim("daily", None, "r2", 1_000)
    assert ledger.read("daily").settled_ms is None


def test_a_claim_of_a_process_that_is_gone_is_an_orphan(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from stores.slot_ledger import SlotLedger;"
        f"SlotLedger(Path({str(tmp_path)!r})).claim('daily', 1000, 'r1', 1000)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": "."})
    ledger = SlotLedger(tmp_path)
    ledger.claim("daily", 2_000, "r2", 2_000)
    assert [claim.is_orphan for claim in ledger.read("daily").open] == [True, False]


def test_a_torn_last_line_costs_that_line_only(tmp_path: Path) -> None:
    ledger = SlotLedger(tmp_path)
    ledger.claim("daily", 1_000, "r1", 1_000)
    with ledger.path("daily").open("ab") as file:
        file.write(b'{"slotMs": 20')
    assert ledger.claim("daily", 2_000, "r2", 2_000)
    assert [line["slotMs"] for line in ledger.read("daily").lines] == [1_000, 2_000]


def test_a_pruned_ledger_keeps_the_newest_slot_and_open_claims(tmp_path: Path) -> None:
    ledger = SlotLedger(tmp_path)
    limits = RunLog.model_validate({"maxBytes": 2_000, "keepLines": 3})
    ledger.claim("daily", 500, "open", 500)
    for slot in range(1_000, 60_000, 1_000):
        ledger.claim("daily", slot, f"r{slot}", slot)
        ledger.settle("daily", slot, f"r{slot}", "done", slot, limits, status="ok")
    read = ledger.read("daily")
    assert read.settled_ms == 59_000
    assert [claim.run_id for claim in read.open] == ["open"]


@pytest.mark.parametrize("bad", ["", "  ", "a/b", "a\\b", "a\0b", "..", "."])
def test_a_job_id_cannot_leave_the_folder(bad: str) -> None:
    with pytest.raises(NotFound):
        safe_job_id(bad)


def test_pages_of_a_run_log_are_newest_first_and_filtered(tmp_path: Path) -> None:
    logs = RunLogs(tmp_path)
    for n in range(6):
        status = "error" if n % 2 else "ok"
        logs.append({"ts": n, "jobId": "j", "action": "finished", "status": status, "summary": f"run {n}"}, LIMITS)
    assert [entry["ts"] for entry in logs.page("j", limit=2)] == [5, 4]
    assert [entry["ts"] for entry in logs.page("j", status="ok")] == [4, 2, 0]
    assert [entry["ts"] for entry in logs.page("j", text="RUN 3")] == [3]


def test_a_run_log_is_pruned_to_bytes_and_lines(tmp_path: Path) -> None:
    logs = RunLogs(tmp_path)
    for n in range(100):
        logs.append(
            {"ts": n, "jobId": "j", "action": "finished"}, RunLog.model_validate({"maxBytes": 500, "keepLines": 50})
        )
    assert logs.path("j").stat().st_size <= 500
    assert logs.read("j")[-1]["ts"] == 99


def test_events_wait_until_they_are_consumed_by_id(tmp_path: Path) -> None:
    events = EventFile(tmp_path / "agents" / "main" / "events.jsonl")
    assert events.waiting() == ()
    events.add(AgentEvent("1", "event", "提醒", 5, tag="cron:daily"))
    events.add(AgentEvent("2", "wake", "cron:daily", 6, session_key="agent:main:main"))
    assert [event.id for event in events.waiting("event")] == ["1"]
    assert [wake.reason for wake in events.wakes()] == ["cron:daily"]
    events.consume(["2"], 7)
    assert [event.id for event in events.waiting()] == ["1"]


def test_consumed_events_are_dropped_when_the_file_has_grown(tmp_path: Path) -> None:
    events = EventFile(tmp_path / "events.jsonl")
    for n in range(400):
        events.add(AgentEvent(str(n), "event", "x" * 200, n))
        events.consume([str(n)], n)
    events.add(AgentEvent("last", "event", "kept", 400))
    assert events.path.stat().st_size < 100_000
    assert [event.id for event in events.waiting()] == ["last"]
