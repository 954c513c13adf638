"""What results do to jobs, what is transient, when a slot is too late (spec/scheduling.md B4, B5)."""

from __future__ import annotations

import pytest

from turngraph.config.schema_schedule import Cron
from turngraph.schedules.job import Job, check_job
from turngraph.schedules.results import RunResult, apply_result, transient_cause
from turngraph.schedules.slots import Watch, plan_job

MINUTE = 60_000


def job(**fields: object) -> Job:
    raw = {
        "id": "j",
        "createdAtMs": 0,
        "schedule": {"kind": "every", "everyMs": MINUTE},
        "payload": {"kind": "agentTurn", "message": "x"},
        "sessionTarget": "isolated",
        "state": {},
    }
    return Job(raw | fields)


@pytest.mark.parametrize(
    ("text", "kind", "cause"),
    [
        ("took 500 ms", None, None),
        ("wrote 512 lines", None, None),
        ("HTTP 503", None, "server_error"),
        ("status: 500", None, "server_error"),
        ("cron: job execution timed out", None, "timeout"),
        ("429 in the text of a bad key", "auth", None),
        ("no words that tell", "rate", "rate_limit"),
        ("请求超时", "timeout", "timeout"),
    ],
)
def test_the_class_of_an_error_decides_before_its_text(text: str, kind: object, cause: str | None) -> None:
    assert transient_cause(text, kind) == cause  # type: ignore[arg-type]


def test_ten_failures_in_a_row_disable_a_recurring_job_and_are_told() -> None:
    failed = RunResult("error", 0, 1, "boom")
    applied = apply_result(job(state={"consecutiveErrors": 9}), failed, Cron(), 1)
    assert applied.job is not None
    assert not applied.job.enabled
    assert "10 times" in applied.notices[0]


def test_success_ends_back_off_and_count() -> None:
    failed = apply_result(job(), RunResult("error", 0, 1, "boom"), Cron(), 1).job
    assert failed is not None
    assert failed.not_before_ms == 30_001
    good = apply_result(failed, RunResult("ok", 60_000, 60_001), Cron(), 60_001).job
    assert good is not None
    assert (good.not_before_ms, good.state["consecutiveErrors"]) == (0, 0)


def test_a_job_is_never_changed_in_place() -> None:
    given = job(turngraph={"catchUp": "one"})
    before = repr(given.raw)
    given.evolve(state={"x": 1}, own={"catchUp": None}, name="other")
    assert repr(given.raw) == before


def test_a_slot_that_is_now_runs_and_the_one_before_the_edit_does_not() -> None:
    assert plan_job(job(), Watch(MINUTE, 0), Cron()).run is not None
    assert plan_job(job(updatedAtMs=MINUTE), Watch(MINUTE, 0), Cron()).run is None


def test_many_slots_are_not_counted_to_their_end() -> None:
    plan = plan_job(job(schedule={"kind": "every", "everyMs": 1_000}), Watch(10**9, 10**9), Cron())
    assert plan.stretches[0].count is None


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": {"kind": "command"}},
        {"schedule": {"kind": "on-exit"}},
        {"sessionTarget": "main"},
        {"sessionTarget": "elsewhere"},
        {"id": "../x"},
        {"delivery": {"mode": "webhook", "to": "file:///etc/passwd"}},
        {"turngraph": {"sink": {"kind": "pigeon"}}},
    ],
)
def test_unusable_records_say_why(fields: dict[str, object]) -> None:
    assert check_job(dict(job(**fields).raw))
