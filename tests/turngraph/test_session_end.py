"""Sessions that are ended from outside a turn (known-faults 6.7, 6.8)."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.scheduling import Bench
from turngraph.cli.sessions import app
from turngraph.session_end import end_session

REFUSED = "agents.defaults.model=anthropic:claude-test"


def notes(home: Path) -> list[Path]:
    return sorted((home / "workspace" / "memory").glob("2026-*.md"))


async def test_a_session_ended_from_outside_leaves_one_note(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    await bench.agent.turn("Book the ferry to Bornholm")
    done = await end_session(bench.agent, "main")
    (note,) = notes(bench.root)
    assert done.note == f"memory/{note.name}"
    text = note.read_text()
    assert 'user: "Book the ferry to Bornholm"' in text
    assert f"- **Session ID**: {done.previous_id}" in text
    await bench.agent.turn("hello again")
    assert notes(bench.root) == [note]


async def test_a_session_without_a_user_text_is_ended_without_a_note(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    bench.agent.sessions().update("agent:main:main", {"sessionId": "s1"})
    done = await end_session(bench.agent, "main")
    assert (done.previous_id, done.note, done.problem) == ("s1", None, None)


async def test_a_note_that_cannot_be_written_is_said_and_the_session_has_ended(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "home")
    await bench.agent.turn("Book the ferry to Bornholm")
    memory = bench.root / "workspace" / "memory"
    memory.rmdir() if memory.is_dir() else memory.parent.mkdir(exist_ok=True)
    memory.write_text("in the way")
    done = await end_session(bench.agent, "main")
    assert done.archived is not None
    assert done.problem is not None
    assert done.problem.startswith("no note of the ended session")


def test_the_command_names_the_note_and_needs_no_model(tmp_path: Path) -> None:
    def call(*words: str) -> str:
        done = CliRunner().invoke(app, [*words, "--home", str(tmp_path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    (tmp_path / "turngraph.json5").write_text("{}")
    Bench(tmp_path).agent.run("Book the ferry to Bornholm")
    done = json.loads(call("reset", "main", "--set", REFUSED, "--json"))
    assert [done["note"]] == [f"memory/{note.name}" for note in (tmp_path / "workspace" / "memory").glob("*.md")]
