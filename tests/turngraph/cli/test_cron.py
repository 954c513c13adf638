"""``turngraph cron``, ``heartbeat``, ``maintenance`` and ``status`` as people call them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from turngraph.cli.job_options import destination_of, schedule_of
from turngraph.cli.main import app
from turngraph.errors import ConfigError

NOW = datetime(2026, 3, 16, 12, 0, tzinfo=UTC)
SHANGHAI = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "turngraph.json5").write_text('{agents: {defaults: {userTimezone: "Europe/Berlin"}}}')
    return tmp_path


def call(home: Path, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*words, "--home", str(home)])
    if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def as_json(home: Path, *words: str) -> Any:
    return json.loads(call(home, *words, "--json"))


@pytest.mark.parametrize(
    ("options", "schedule"),
    [
        ({"every": "30m"}, {"kind": "every", "everyMs": 1_800_000}),
        ({"every": "45"}, {"kind": "every", "everyMs": 2_700_000}),
        ({"cron": "0 9 * * 1-5"}, {"kind": "cron", "expr": "0 9 * * 1-5", "tz": "Asia/Shanghai"}),
        ({"cron": "0 9 * * *", "tz": "UTC"}, {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"}),
        ({"at": "2026-12-24T18:00"}, {"kind": "at", "at": "2026-12-24T10:00:00.000Z"}),
        ({"at": "2026-12-24T18:00", "tz": "UTC"}, {"kind": "at", "at": "2026-12-24T18:00:00.000Z"}),
        ({"at": "2026-12-24T18:00Z"}, {"kind": "at", "at": "2026-12-24T18:00:00.000Z"}),
        ({"at": "20m"}, {"kind": "at", "at": "2026-03-16T12:20:00.000Z"}),
    ],
)
def test_schedules_are_written_as_people_say_them(options: dict[str, str], schedule: dict[str, object]) -> None:
    given = {"every": None, "cron": None, "at": None, "tz": None} | options
    found = schedule_of(**given, user_zone=SHANGHAI, now=NOW)
    assert found is not None
    found.pop("anchorMs", None)
    assert found == schedule


@pytest.mark.parametrize("options", [{"every": "soon"}, {"at": "tomorrow"}, {"every": "1h", "at": "1h"}])
def test_what_cannot_be_meant_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        schedule_of(**({"every": None, "cron": None, "at": None, "tz": None} | options), user_zone=UTC, now=NOW)


def test_one_destination_at_a_time() -> None:
    with pytest.raises(ConfigError):
        destination_of(session="main", file="x", replace=False, command=None, webhook=None, announce=False)


def test_a_job_is_made_listed_changed_and_removed(home: Path) -> None:
    made = as_json(home, "cron", "add", "Summarise my mail", "--cron", "0 9 * * 1-5", "--tz", "Asia/Shanghai")
    assert made["sessionTarget"] == "isolated"
    assert made["state"]["nextRunAtMs"] > made["createdAtMs"]
    text = call(home, "cron", "list")
    assert text.count("09:00:00 Asia/Shanghai = ") == 5
    assert "Europe/Berlin" in text
    call(home, "cron", "edit", made["id"], "--every", "15m", "--to-file", "mail.md")
    shown = as_json(home, "cron", "show", "Summarise my mail")
    assert shown["schedule"]["everyMs"] == 900_000
    assert shown["record"]["turngraph"]["sink"] == {"kind": "file", "path": "mail.md", "mode": "append"}
    call(home, "cron", "disable", made["id"])
    assert "disabled" in call(home, "cron", "list")
    call(home, "cron", "enable", made["id"])
    call(home, "cron", "rm", made["id"])
    assert as_json(home, "cron", "list")["jobs"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("--cron", "61 9 * * *"),
        ("--cron", "0 9 30 2 *"),
        ("--every", "100ms"),
        ("--at", "2020-01-01T00:00"),
        ("--cron", "0 9 * * *", "--tz", "Mars/Base"),
        (),
    ],
)
def test_a_job_that_can_never_run_is_refused(home: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError):
        call(home, "cron", "add", "x", *words)
    assert not (home / "cron" / "jobs.json").exists()


def test_a_run_by_hand_does_not_move_the_schedule(home: Path) -> None:
    made = as_json(home, "cron", "add", "What is new?", "--every", "1h")
    run = as_json(home, "cron", "run", made["id"])
    assert run["status"] == "ok"
    shown = as_json(home, "cron", "show", made["id"])
    assert shown["record"]["state"]["nextRunAtMs"] == made["state"]["nextRunAtMs"]
    assert [entry["status"] for entry in as_json(home, "cron", "runs", made["id"])["runs"]] == ["ok"]


def test_a_heartbeat_is_run_by_hand_and_shown(home: Path) -> None:
    (home / "workspace").mkdir()
    (home / "workspace" / "HEARTBEAT.md").write_text("# Nothing\n")
    assert as_json(home, "heartbeat", "run", "--reason", "interval")["reason"] == "empty-heartbeat-file"
    (row,) = as_json(home, "heartbeat", "status")["agents"]
    assert row["last"] == "skipped (empty-heartbeat-file)"


def test_status_shows_agents_runs_and_indexes(home: Path) -> None:
    as_json(home, "cron", "add", "What is new?", "--every", "1h", "--name", "news")
    facts = as_json(home, "status")
    assert facts["served"] is None
    assert [agent["agent"] for agent in facts["agents"]] == ["main"]
    assert facts["jobs"][0]["name"] == "news"
    assert "not served" in call(home, "status")


def test_maintenance_can_be_looked_at_first(home: Path) -> None:
    assert "0 files, 0 bytes would go" in call(home, "maintenance", "--dry-run")
    assert as_json(home, "maintenance")["files"] == 0


def test_reindex_covers_every_agent(home: Path) -> None:
    (home / "workspace" / "memory").mkdir(parents=True)
    (home / "workspace" / "MEMORY.md").write_text("The deploy is on Friday.\n")
    assert "1 added" in call(home, "reindex")


def test_runs_are_one_line_each(home: Path) -> None:
    job = as_json(home, "cron", "add", "What is new?", "--every", "1h")
    assert call(home, "cron", "runs", job["id"]) == ""
    call(home, "cron", "run", job["id"])
    (line,) = call(home, "cron", "runs", job["id"]).splitlines()
    assert "  ok  " in line
    assert "not-requested" in line


def test_status_of_heartbeats_says_when_none_can_ever_come(home: Path) -> None:
    hours = 'agents.defaults.heartbeat.activeHours={"start":"08:00","end":"09:00","timezone":"UTC"}'
    sets = ("--set", hours, "--set", "agents.defaults.heartbeat.every=24h")
    never = as_json(home, "heartbeat", "status", *sets, "--set", "agents.defaults.heartbeat.anchor=12:00")
    assert never["agents"][0]["isNever"]
    planned = as_json(home, "heartbeat", "status", *sets, "--set", "agents.defaults.heartbeat.anchor=08:30")
    assert not planned["agents"][0]["isNever"]
    assert "24h" in call(home, "heartbeat", "status", *sets) or "1d" in call(home, "heartbeat", "status", *sets)


def test_status_shows_when_the_indexes_are_looked_after(home: Path) -> None:
    rows = as_json(home, "status")["upkeep"]
    assert [row["what"] for row in rows] == ["reindex main", "maintenance"]
    assert all(row["on"] for row in rows)


TASKS = """# Heartbeat

tasks:
  - name: mail
    interval: 30m
    prompt: "Check the mail"
  - name: 天气
    interval: 2h
    prompt: 今天的天气怎么样？
  - name: broken
    interval: soon
    prompt: x

Anything else stays.
"""


def test_the_tasks_of_an_old_heartbeat_file_become_jobs_once(home: Path) -> None:
    path = home / "workspace" / "HEARTBEAT.md"
    path.parent.mkdir()
    path.write_text(TASKS)
    listed = as_json(home, "heartbeat", "import-tasks")
    assert [job["name"] for job in listed["jobs"]] == ["mail", "天气"]
    assert listed["problems"] == ["entry 3: its interval 'soon' is no duration; write it as 30m or 2h"]
    assert as_json(home, "cron", "list")["jobs"] == []
    call(home, "heartbeat", "import-tasks", "--yes")
    call(home, "heartbeat", "import-tasks", "--yes")
    jobs = as_json(home, "cron", "list")["jobs"]
    assert [(job["name"], job["schedule"]["everyMs"]) for job in jobs] == [("mail", 1_800_000), ("天气", 7_200_000)]
    record = as_json(home, "cron", "show", "mail")["record"]
    assert (record["sessionTarget"], record["payload"]["text"]) == ("main", "Check the mail")
    assert path.read_text() == TASKS
