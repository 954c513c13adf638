"""``turngraph memory`` on a small home of its own, and on one of OpenClaw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from turngraph.cli.memory import app
from turngraph.errors import NotFound, StoreError

WORDS_ONLY = ["--set", "memorySearch.provider=none"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "home"
    (root / "workspace/memory").mkdir(parents=True)
    (root / "turngraph.json5").write_text("{}")
    (root / "workspace/MEMORY.md").write_text("- the gateway listens on port 8443\n- Ann likes tea\n")
    return root


def _run(home: Path, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments, "--home", str(home), *WORDS_ONLY], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_index_search_status_and_get(home: Path) -> None:
    assert "1 added" in _run(home, "index")
    assert "MEMORY.md:1-1" in _run(home, "search", "gateway port", "--explain")
    found = json.loads(_run(home, "search", "gateway port", "--json"))
    assert found["hits"][0]["explanation"]["keyword_rank"] == 1
    assert json.loads(_run(home, "status", "--json"))["is_clean"] is True
    assert "up to date" in _run(home, "status")
    assert _run(home, "get", "MEMORY.md", "--lines", "1").startswith("- the gateway")
    with pytest.raises(NotFound):
        _run(home, "get", "memory/none.md")


def test_forget_is_a_dry_run_until_it_is_confirmed(home: Path) -> None:
    _run(home, "index")
    assert "would forget" in _run(home, "forget", "--path", "MEMORY.md")
    assert "MEMORY.md" in _run(home, "search", "gateway")
    assert "forgot" in _run(home, "forget", "--path", "MEMORY.md", "--yes")
    assert "nothing found" in _run(home, "search", "gateway")
    assert (home / "workspace/MEMORY.md").exists()
    (home / "workspace/MEMORY.md").write_text("- the gateway listens on port 9000\n")
    assert "9000" in _run(home, "search", "gateway")


def test_a_foreign_home_is_not_written_to(home: Path) -> None:
    (home / "turngraph.json5").unlink()
    (home / "openclaw.json").write_text("{}")
    before = sorted(path.relative_to(home) for path in home.rglob("*"))
    assert "MEMORY.md" in _run(home, "search", "gateway")
    assert sorted(path.relative_to(home) for path in home.rglob("*")) == before


def test_looking_for_memory_where_there_is_none_makes_nothing(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "nothing found in 0 files" in _run(nowhere, "search", "gateway")
    assert "not built yet" in _run(nowhere, "status")
    for chosen in ("--path", "--session", "--query"):
        with pytest.raises(NotFound):
            _run(nowhere, "forget", chosen, "x", "--yes")
    assert not nowhere.exists()


def test_bench_counts_hits_on_lines(home: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.jsonl"
    rows = [
        {"id": "1", "kind": "port", "query": "gateway port", "answers": [{"path": "MEMORY.md", "line": 1}]},
        {"id": "2", "kind": "taste", "query": "who likes tea", "answers": [{"path": "MEMORY.md", "line": 9}]},
    ]
    queries.write_text("\n".join(map(json.dumps, rows)))
    shown = _run(home, "bench", str(queries), "--mode", "keyword").splitlines()
    assert [line.split()[:3] for line in shown[1:]] == [
        ["port", "1", "1.000"],
        ["taste", "1", "0.000"],
        ["all", "2", "0.500"],
    ]
    assert max(map(len, shown)) <= 80
    scores = json.loads(_run(home, "bench", str(queries), "--mode", "keyword", "--json"))
    assert [(row["kind"], row["hit_1"], row["mrr"]) for row in scores] == [
        ("port", 1, 1),
        ("taste", 0, 0),
        ("all", 0.5, 0.5),
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no question with an answer"),
        (b'{"id": "1", "query": "tea", "answers": []}\n', "no question with an answer"),
        (b'\n{"id": "1"}\n', "line 2"),
        (b"\xff\xfe", "line 1"),
    ],
)
def test_a_file_without_questions_is_said(home: Path, tmp_path: Path, content: bytes, said: str) -> None:
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(content)
    with pytest.raises(StoreError, match=said):
        _run(home, "bench", str(queries))


def test_a_forget_names_what_it_deletes(home: Path) -> None:
    _run(home, "index")
    assert "would delete MEMORY.md#L2" in _run(home, "forget", "--query", "tea", "--delete")
    assert json.loads(_run(home, "forget", "--path", "MEMORY.md", "--delete", "--json"))["deleted"] == ["MEMORY.md"]
    assert "\ndeleted MEMORY.md#L2" in _run(home, "forget", "--query", "tea", "--delete", "--yes")
    assert (home / "workspace/MEMORY.md").read_text() == "- the gateway listens on port 8443\n"
