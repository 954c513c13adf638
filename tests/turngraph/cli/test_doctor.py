"""``turngraph doctor``: each fault it knows, with its way out (issue Context)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from tests.builders import assistant, call, result, user
from turngraph.cli.checks import (
    Finding,
    check_index,
    check_model,
    check_plugins,
    check_sessions,
    check_transcript,
    check_workspace,
)
from turngraph.cli.main import app
from turngraph.config import AgentSettings, default_settings
from turngraph.messages import Message

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-01T00:00:00.000Z", "cwd": "/w"}


def transcript(path: Path, *messages: Message, tail: str = "") -> Path:
    rows: list[dict[str, Any]] = [HEADER]
    for index, message in enumerate(messages):
        parent = f"{index - 1:08x}" if index else None
        row = {"type": "message", "id": f"{index:08x}", "parentId": parent, "timestamp": HEADER["timestamp"]}
        rows.append({**row, "message": dict(message.raw)})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail, encoding="utf-8")
    return path


def said(findings: Any) -> list[tuple[str, str]]:
    return [(finding.severity, finding.what) for finding in findings]


def test_a_sound_transcript_has_no_findings(tmp_path: Path) -> None:
    sound = transcript(
        tmp_path / "s1.jsonl",
        user("read a"),
        assistant(call("abc123def", "read", path="a")),
        result("abc123def"),
        assistant("done"),
    )
    assert list(check_transcript(sound)) == []
    outcome = CliRunner().invoke(app, ["doctor", str(sound)])
    assert (outcome.exit_code, outcome.stdout) == (0, "Nothing found.\n")


def test_a_call_without_result_is_repaired_and_said_so(tmp_path: Path) -> None:
    path = transcript(tmp_path / "s1.jsonl", user("hi"), assistant(call("abc123def", "read")), user("and?"))
    findings = list(check_transcript(path))
    assert any("without a result" in finding.what for finding in findings)
    assert {finding.severity for finding in findings} == {"note"}


def test_broken_lines_are_a_warning_with_their_numbers(tmp_path: Path) -> None:
    path = transcript(tmp_path / "s1.jsonl", user("hi"), assistant("ho"), tail='{"type": \n')
    findings = list(check_transcript(path))
    assert ("warning", "1 broken lines (4)") in said(findings)
    outcome = CliRunner().invoke(app, ["doctor", str(path), "--json"])
    assert outcome.exit_code == 1
    assert json.loads(outcome.stdout)[0]["severity"] == "warning"


def test_large_tool_results_are_named_for_the_window(tmp_path: Path) -> None:
    path = transcript(
        tmp_path / "s1.jsonl",
        user("hi"),
        assistant(call("abc123def", "read")),
        result("abc123def", "x" * 40_000),
        assistant("done"),
    )
    assert list(check_transcript(path, 200_000)) == []
    assert any("tool results above the 9600" in what for _, what in said(check_transcript(path, 8_000)))


def test_examining_changes_nothing(tmp_path: Path) -> None:
    path = transcript(tmp_path / "s1.jsonl", user("hi"), tail="{")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    CliRunner().invoke(app, ["doctor", str(path)])
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert list(tmp_path.iterdir()) == [path]


def test_cut_refused_and_doubled_bootstrap_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("m" * 30_000, encoding="utf-8")
    (tmp_path / "memory.md").write_text("m", encoding="utf-8")
    (tmp_path / "SOUL.md").write_text("s" * 19_000, encoding="utf-8")
    (tmp_path / "USER.md").symlink_to("/etc/hostname")
    found = {Path(f.where).name: (f.severity, f.what) for f in check_workspace(tmp_path, default_settings())}
    assert found["MEMORY.md"][0] == "warning"
    assert found["memory.md"] == ("warning", "not read beside MEMORY.md")
    assert found["SOUL.md"] == ("note", "19000 of 20000 characters, soon to be cut")
    assert found["USER.md"] == ("warning", "not readable: the path leads out of its folder")


def home_of(path: Path) -> Any:
    from stores.home import Home

    return Home(path)


def settings_with(**root: Any) -> AgentSettings:
    settings = default_settings()
    return settings.model_copy(update={"root": settings.root.model_validate(root)})


def test_a_stale_index_is_noticed_by_its_time(tmp_path: Path) -> None:
    note = tmp_path / "workspace" / "memory" / "2026-03-01.md"
    note.parent.mkdir(parents=True)
    note.write_text("n", encoding="utf-8")
    assert "not built yet" in said(check_index(home_of(tmp_path), default_settings()))[0][1]
    index = tmp_path / "memory" / "main.duckdb"
    index.parent.mkdir()
    index.write_bytes(b"")
    os.utime(index, (1, 1))
    assert "1 of 1 memory files are newer" in said(check_index(home_of(tmp_path), default_settings()))[0][1]


def test_a_session_without_transcript_is_found(tmp_path: Path) -> None:
    sessions = tmp_path / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    table = {"agent:main:main": {"sessionId": "0f8fad5b-d9cb-469f-a165-70867728950e", "updatedAt": 1}}
    (sessions / "sessions.json").write_text(json.dumps(table), encoding="utf-8")
    found = list(check_sessions(home_of(tmp_path), default_settings()))
    assert [finding.where for finding in found] == ["agent:main:main"]
    assert "is gone" in found[0].what


def test_a_model_that_cannot_be_used_or_is_too_small_is_found() -> None:
    unknown = AgentSettings.model_validate({"model": "nobody:nothing"})
    small = AgentSettings.model_validate({"contextTokens": 12_000})
    assert [finding.severity for finding in check_model(unknown)] == ["error"]
    assert [finding.severity for finding in check_model(small)] == ["warning"]
    assert list(check_model(default_settings())) == []


def test_a_plugin_that_cannot_be_loaded_is_an_error(tmp_path: Path) -> None:
    settings = settings_with(plugins={"load": {"paths": ["nowhere.py"]}})
    assert [finding.severity for finding in check_plugins(home_of(tmp_path), settings)] == ["error"]


def test_bad_settings_are_listed_one_by_one(tmp_path: Path) -> None:
    bad = "{agents: {defaults: {bootstrapMaxChars: -1, timeoutSeconds: 'x'}}}"
    (tmp_path / "turngraph.json5").write_text(bad, encoding="utf-8")
    outcome = CliRunner().invoke(app, ["doctor", "--home", str(tmp_path), "--json"])
    assert outcome.exit_code == 1
    assert [finding["where"] for finding in json.loads(outcome.stdout)] == ["settings", "settings"]


def test_every_finding_says_a_way_out(tmp_path: Path) -> None:
    path = transcript(tmp_path / "s1.jsonl", assistant("ho"), assistant("ho"), result("x"), tail="{\n")
    findings: list[Finding] = [*check_transcript(path, 8_000), *check_workspace(tmp_path, default_settings())]
    assert findings
    assert all(finding.way_out for finding in findings)
