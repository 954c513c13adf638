"""Reading a workspace under guard (spec/context.md 2.1, 2.2, 2.7)."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path

from stores.workspace import KEPT_SESSIONS, Snapshots, load_bootstrap_files, load_extra_files, read_daily_notes


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def found(workspace: Path) -> dict[str, str | None]:
    return {file.name: file.content for file in load_bootstrap_files(workspace)}


def test_line_ends_are_kept_and_invalid_bytes_become_replacement_characters(tmp_path: Path) -> None:
    write(tmp_path / "SOUL.md", "a\r\nb\r\n")
    (tmp_path / "USER.md").write_bytes(b"caf\xe9 \xe6\x97\xa5")
    assert found(tmp_path)["SOUL.md"] == "a\r\nb\r\n"
    assert found(tmp_path)["USER.md"] == "caf\ufffd 日"


def test_only_one_memory_file_is_read(tmp_path: Path) -> None:
    write(tmp_path / "memory.md", "small")
    assert found(tmp_path)["memory.md"] == "small"
    write(tmp_path / "MEMORY.md", "large")
    assert [name for name in found(tmp_path) if name.lower() == "memory.md"] == ["MEMORY.md"]


def test_a_memory_file_that_cannot_be_read_is_not_replaced_by_the_other(tmp_path: Path) -> None:
    write(tmp_path / "memory.md", "small")
    os.link(write(tmp_path / "other.md"), tmp_path / "MEMORY.md")
    content = found(tmp_path)["MEMORY.md"]
    assert content == "[UNREADABLE: MEMORY.md has 2 hard links]"
    assert "memory.md" not in found(tmp_path)


def test_a_folder_in_the_place_of_a_file_is_named_as_unreadable(tmp_path: Path) -> None:
    (tmp_path / "TOOLS.md").mkdir()
    assert (found(tmp_path)["TOOLS.md"] or "").startswith("[UNREADABLE: ")


def test_a_workspace_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert set(found(tmp_path / "nowhere").values()) == {None}


def test_extra_files_take_known_names_inside_the_workspace_only(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    write(workspace / "a" / "AGENTS.md", "a")
    write(workspace / "b" / "SOUL.md", "b")
    write(workspace / "b" / "NOTES.md")
    write(tmp_path / "AGENTS.md", "outside")
    (workspace / "c").mkdir()
    (workspace / "c" / "USER.md").symlink_to(tmp_path / "AGENTS.md")
    patterns = [" {a,b}/*.md ", "a/AGENTS.md", "../AGENTS.md", "../*.md", "c/USER.md", "none/SOUL.md", ""]
    extra = load_extra_files(workspace, patterns)
    assert [(file.path, file.content) for file in extra.files] == [("a/AGENTS.md", "a"), ("b/SOUL.md", "b")]
    assert [(found.path, found.reason) for found in extra.diagnostics] == [
        ("b/NOTES.md", "invalid-bootstrap-filename"),
        ("../AGENTS.md", "security"),
        ("../*.md", "security"),
        ("c/USER.md", "security"),
        ("none/SOUL.md", "missing"),
    ]


def test_daily_notes_are_those_of_the_day_the_plain_one_first(tmp_path: Path) -> None:
    for name in ("2026-03-01-walk.md", "2026-03-01.md", "2026-03-011.md", "2026-02-28.md", "2026-03-01.txt"):
        write(tmp_path / "memory" / name, name)
    notes = read_daily_notes(tmp_path, [date(2026, 3, 1)], 1_000)
    assert [note.path for note in notes] == ["memory/2026-03-01.md", "memory/2026-03-01-walk.md"]


def test_a_daily_note_above_the_limit_is_named_and_not_read(tmp_path: Path) -> None:
    write(tmp_path / "memory" / "2026-03-01.md", "x" * 101)
    note = read_daily_notes(tmp_path, [date(2026, 3, 1)], 100)[0]
    assert (note.text, note.fault) == (None, "memory/2026-03-01.md has 101 bytes, more than 100")


def test_only_so_many_sessions_are_kept_in_memory(tmp_path: Path) -> None:
    kept, loads = Snapshots(), list[int]()

    def load() -> tuple[()]:
        loads.append(1)
        return ()

    for index in range(KEPT_SESSIONS + 1):
        kept.files(tmp_path, f"key {index}", "s", load)
    kept.files(tmp_path, f"key {KEPT_SESSIONS}", "s", load)
    assert len(loads) == KEPT_SESSIONS + 1
    kept.files(tmp_path, "key 0", "s", load)
    assert len(loads) == KEPT_SESSIONS + 2
