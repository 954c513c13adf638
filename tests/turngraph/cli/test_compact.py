"""``turngraph compact`` on a temporary home, offline."""

from __future__ import annotations

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from stores.transcripts import Transcript
from tests.builders import assistant, user
from tests.turn_home import KEY, TurnHome, make_home
from turngraph.cli.main import app

OPTIONS = ("--set", "agents.defaults.contextTokens=16000", "--set", "agents.defaults.compaction.keepRecentTokens=1000")


def long_session(root: Path) -> TurnHome:
    home = make_home(root)
    for number in range(30):
        home.say(user(f"We decided to use plan {number}. " + "x " * 400), assistant("done " + "y " * 400))
    return home


def run(root: Path, *arguments: str) -> tuple[int, str]:
    given = ["compact", *arguments, "--home", str(root), "--model", "offline", *OPTIONS]
    outcome = CliRunner().invoke(app, given, catch_exceptions=False)
    return outcome.exit_code, outcome.stdout


def test_a_dry_run_shows_the_summary_and_what_goes_and_writes_nothing(tmp_path: Path) -> None:
    home = long_session(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    code, out = run(tmp_path, "main", "--dry-run")
    assert code == 0
    lines = out.split("\n")
    assert re.fullmatch(r"5\d messages would go into the summary, of these the user's:", lines[0])
    assert "We decided to use plan 0." in lines[1] and lines[4].startswith("  ... 2")
    stay = next(index for index, line in enumerate(lines) if "stay word for word from entry" in line)
    assert "We decided to use plan 29." in lines[stay + int(lines[stay].split()[0]) // 2]
    assert "summary made by: extractive" in out
    assert "## Decisions\n" in out and "We decided to use plan" in out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert home.transcript.leaf_id in [entry.id for entry in home.transcript.branch()]


def test_a_compaction_is_stored_and_reported(tmp_path: Path) -> None:
    home = long_session(tmp_path)
    code, out = run(tmp_path, "main", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["compacted"] and facts["maker"] == "extractive"
    again = Transcript.open(home.transcript.path, session_id="s1", clock=home.context.clock, ids=home.context.ids)
    assert again.context().messages[0].raw["summary"] == facts["summary"]
    assert len(again.context().messages) == facts["keptMessages"] + 1
    assert facts["tokensAfter"] < facts["tokensBefore"]
    assert home.context.sessions.get(KEY)["compactionCount"] == 1


def test_a_small_session_answers_no(tmp_path: Path) -> None:
    make_home(tmp_path).say(user("hi"), assistant("hello"))
    code, _ = run(tmp_path, "main")
    assert code == 1


def test_a_session_goes_back_to_before_the_compaction(tmp_path: Path) -> None:
    home = long_session(tmp_path)
    before = [message.raw for message in home.transcript.context().messages]
    facts = json.loads(run(tmp_path, "main", "--json")[1])
    rewind = ["sessions", "rewind", "main", facts["entryBefore"], "--home", str(tmp_path)]
    outcome = CliRunner().invoke(app, rewind, catch_exceptions=False)
    assert outcome.exit_code == 0 and f"back at entry {facts['entryBefore']}; 60 messages in sight" in outcome.stdout
    clock, ids = home.context.clock, home.context.ids
    again = Transcript.open(home.transcript.path, session_id="s1", clock=clock, ids=ids)
    assert [message.raw for message in again.context().messages] == before
    assert home.context.sessions.get(KEY)["totalTokensFresh"] is False
