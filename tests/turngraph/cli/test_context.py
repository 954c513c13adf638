"""``turngraph context``: the waterfall of a kept turn (spec/seeing.md 2.1)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from typer.testing import CliRunner

from stores.traces import TraceStore
from turngraph.cli.main import app
from turngraph.decisions import Decision, NodeRun, Origin, Segment, TurnTrace

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def keep(home: Path, turn: int, tokens: int) -> None:
    report = Decision("load_bootstrap", "injected", "1", data={"files": [{"path": "SOUL.md", "raw": 9, "injected": 5}]})
    cut = Decision("guard_tools", "truncated", "1 result above 16000", ("e1",), tokens_before=90, tokens_after=40)
    runs = (NodeRun(0, "load_bootstrap", NOW, 1.0), NodeRun(1, "guard_tools", NOW, 1.0, tokens_in=90, tokens_out=40))
    segments = (
        Segment("bootstrap file", "system", "## SOUL.md", 12, Origin("bootstrap", path="SOUL.md"), name="SOUL.md"),
        Segment("history message", "user", "hello", tokens, Origin("entry", entry_id="e1")),
    )
    facts = {"window_tokens": 1_000, "model": "offline:recall"}
    decisions = ((0, report), (1, cut))
    trace = TurnTrace(f"t{turn}", "main", "agent:main:main", "s", turn, NOW, NOW, facts, runs, decisions, segments)
    TraceStore(home / "traces").append(trace)


def test_the_last_turn_is_shown_unless_one_is_named(tmp_path: Path) -> None:
    keep(tmp_path, 1, 30)
    keep(tmp_path, 2, 50)
    run = CliRunner().invoke
    last = json.loads(run(app, ["context", "main", "--home", str(tmp_path), "--json"]).stdout)
    first = json.loads(run(app, ["context", "main", "--turn", "1", "--home", str(tmp_path), "--json"]).stdout)
    assert (last["turn"], last["usedTokens"], last["headroomTokens"]) == (2, 62, 938)
    assert (first["turn"], first["usedTokens"]) == (1, 42)
    assert last["parts"][0] == {
        "group": "bootstrap file",
        "name": "SOUL.md",
        "tokens": 12,
        "chars": 10,
        "count": 1,
        "rawChars": 9,
        "injectedChars": 5,
    }


def test_the_table_shows_parts_thresholds_and_reasons(tmp_path: Path) -> None:
    keep(tmp_path, 1, 30)
    outcome = CliRunner().invoke(app, ["context", "main", "--home", str(tmp_path)], env={"COLUMNS": "160"})
    assert outcome.exit_code == 0
    for text in ("SOUL.md (9 -> 5 characters)", "head-room", "958", "guard_tools", "90 -> 40", "1 result above 16000"):
        assert text in outcome.stdout


def test_a_session_without_turns_is_named(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["context", "nobody", "--home", str(tmp_path)])
    assert "no traced turn of session 'agent:main:nobody'" in str(outcome.exception)
