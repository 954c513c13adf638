"""`turngraph turn` as a user meets it: odd texts, wrong calls, and the commands that read the turn back."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from turngraph.cli.main import app
from turngraph.cli.options import guarded


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Any:
    """Run the command line; returns exit code, standard output and standard error."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, bytes, str]:
        monkeypatch.setattr(sys, "argv", ["turngraph", *arguments])
        monkeypatch.setattr(sys, "stdin", StringIO(stdin))
        code = guarded(app)
        said = capfdbinary.readouterr()
        return code, said.out, said.err.decode()

    return run


@pytest.mark.parametrize("text", ["", "  \n "])
def test_nothing_to_say_is_wrong_use(call: Any, text: str) -> None:
    code, _, err = call("turn", text)
    assert code == 2 and "--file" in err


@pytest.mark.parametrize("name", ["absent.png", "."])
def test_an_attachment_that_is_no_file_is_wrong_use(call: Any, tmp_path: Path, name: str) -> None:
    code, _, err = call("turn", "look", "--file", str(tmp_path / name))
    assert code == 2 and "--file" in err


@pytest.mark.parametrize(
    "text",
    [
        "\x01\x07\x1b[31mred\x1b[0m\x7f",
        "null\x00byte",
        "👩‍👩‍👧 日本語 مرحبا",
        "not utf-8: \udcff\udcfe",
        "/newest thing",
    ],
)
def test_any_text_is_answered_and_stored(call: Any, home: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    code, out, _ = call("turn", "-", "--json", stdin=text)
    result = json.loads(out)
    assert (code, result["kind"], result["turn"]) == (0, "text", 1)
    stored = next((home / "agents/main/sessions").glob("*.jsonl")).read_bytes().decode()
    assert text.replace("\udcff", "\ufffd").replace("\udcfe", "\ufffd") in [
        block["text"]
        for line in stored.splitlines()
        for block in json.loads(line).get("message", {}).get("content", [])
        if block["type"] == "text"
    ]
    assert caplog.messages == []


def test_a_turn_can_be_read_back_under_the_name_main(call: Any) -> None:
    call("turn", "hello")
    for command in ("turns", "context"):
        code, out, _ = call(command, "main", "--json")
        assert code == 0 and json.loads(out)


@pytest.mark.parametrize(
    "key", ["agent:main:../../etc/passwd", "a b c", "日本語", "👩‍👩‍👧", "x/y", "k" * 3000, "new\nline"]
)
def test_any_session_key_names_one_session_inside_the_home(call: Any, home: Path, key: str) -> None:
    for _ in range(2):
        code, out, _ = call("turn", "hi", "--session", key, "--json")
        assert code == 0
    assert json.loads(out)["turn"] == 2
    folder = home / "agents/main/sessions"
    assert len(list(folder.glob("*.jsonl"))) == 1
    assert {path.name for path in home.parent.iterdir()} == {"home"}
