from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stores.archives import archive_stamp
from stores.session_entries import store_text
from turngraph.cli.sessions import app
from turngraph.clock import to_ms
from turngraph.errors import NotFound

MAIN = "agent:main:main"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNGRAPH_HOME", str(tmp_path))
    (tmp_path / "turngraph.json5").write_text("{}")
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    now = datetime.now(UTC)
    entries = {
        MAIN: {"sessionId": "s1", "updatedAt": to_ms(now), "totalTokens": 1234, "contextTokens": 200_000},
        "agent:main:telegram:direct:7": {"sessionId": "s2", "updatedAt": to_ms(now - timedelta(days=40))},
    }
    (folder / "sessions.json").write_bytes(store_text(entries))
    for name in ("s1.jsonl", "s2.jsonl", f"s0.jsonl.reset.{archive_stamp(now - timedelta(days=40))}"):
        (folder / name).write_text("{}\n")
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json"))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_list_shows_the_last_used_first(folder: Path) -> None:
    before = names(folder)
    listed = run_json("list", "--limit", "1")
    assert listed["total"] == 2
    assert listed["sessions"][0]["key"] == MAIN
    assert "1,234 (1%)" in run("list")
    assert names(folder) == before


def test_a_reset_archives_and_begins_anew(folder: Path) -> None:
    done = run_json("reset", "main")
    assert done["previousSessionId"] == "s1"
    assert Path(done["archived"]).name.startswith("s1.jsonl.reset.")
    entry = json.loads((folder / "sessions.json").read_text())[MAIN]
    assert (entry["sessionId"], entry["resetReason"]) == (done["sessionId"], "reset")
    assert "totalTokens" not in entry


def test_resetting_what_does_not_exist_is_an_error(folder: Path) -> None:
    before = (folder / "sessions.json").read_bytes()
    with pytest.raises(NotFound):
        CliRunner().invoke(app, ["reset", "nobody"], catch_exceptions=False)
    assert (folder / "sessions.json").read_bytes() == before


def test_a_dry_run_lists_and_touches_nothing(folder: Path) -> None:
    before = names(folder)
    summary = run_json("cleanup", "--dry-run")
    assert (summary["pruned"], summary["wouldMutate"], summary["dryRun"]) == (1, True, True)
    assert summary["actions"] == {"agent:main:telegram:direct:7": "prune-stale"}
    assert len(summary["swept"]) == 1
    assert names(folder) == before
    assert "would remove agent:main:telegram:direct:7" in run("cleanup", "--dry-run")


def test_cleaning_up_removes_sessions_only_when_told_to(folder: Path) -> None:
    warned = run_json("cleanup")
    assert (warned["mode"], warned["applied"], warned["appliedCount"]) == ("warn", False, 0)
    assert len(warned["swept"]) == 1
    enforced = run_json("cleanup", "--enforce")
    assert (enforced["mode"], enforced["applied"], enforced["appliedCount"]) == ("enforce", True, 1)
    assert list(json.loads((folder / "sessions.json").read_text())) == [MAIN]
    assert any(name.startswith("s2.jsonl.deleted.") for name in names(folder))


def test_several_agents_give_several_summaries(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "turngraph.json5").write_text('{agents: {list: [{id: "main"}, {id: "work"}]}}')
    whole = run_json("cleanup", "--all-agents", "--dry-run")
    assert [store["agentId"] for store in whole["stores"]] == ["main", "work"]


def test_listing_imports_neither_the_scheduler_nor_the_graph() -> None:
    code = (
        "import sys, turngraph.cli.sessions, stores.session_maintenance\n"
        "print([name for name in ('prefect', 'langgraph', 'duckdb', 'tiktoken') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"


def test_a_home_without_sessions_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["list", "--home", str(tmp_path)], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"no sessions yet in {tmp_path / 'agents' / 'main' / 'sessions'}\n"


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(NotFound, match="home is a file; a home is a folder"):
        run("list", "--home", str(tmp_path / "home"))
