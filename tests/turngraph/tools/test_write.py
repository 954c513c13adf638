"""``write``: whole files, byte for byte; in a flush only what is new, at the end of the day's note."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.turngraph.tools.calls import Call, text_of
from turngraph.clock import FixedClock
from turngraph.tools.tool import ToolContext
from turngraph.tools.write import WriteTool, addition, flush_write_tool

WRITE = WriteTool()
DAY = "memory/2026-02-02.md"


def test_a_new_file_with_its_folders(workspace: Path, call: Call, changed: list[str]) -> None:
    result = call(WRITE, path="notes/deep/日本.md", content="語\n")
    assert text_of(result) == "Wrote 4 bytes to notes/deep/日本.md (new)"
    assert result.details == {"path": "notes/deep/日本.md", "operation": "create", "bytes": 4}
    assert (workspace / "notes/deep/日本.md").read_bytes() == "語\n".encode()
    assert changed == ["notes/deep/日本.md"]


def test_an_old_file_is_replaced_and_keeps_its_mode(workspace: Path, call: Call) -> None:
    file = workspace / "run.sh"
    file.write_text("old text")
    file.chmod(0o750)
    result = call(WRITE, path="run.sh", content="new")
    assert text_of(result) == "Wrote 3 bytes to run.sh (replaced 8 bytes)"
    assert result.details == {"path": "run.sh", "operation": "overwrite", "bytes": 3, "previousBytes": 8}
    assert stat.S_IMODE(file.stat().st_mode) == 0o750
    assert [entry.name for entry in workspace.iterdir()] == ["run.sh"]


@pytest.mark.parametrize("content", ["", "no newline", "a\r\nb\r", "\ufeffmark", "👩‍👩‍👧\x00", "\u2028"])
def test_content_is_written_byte_for_byte(content: str, workspace: Path, call: Call) -> None:
    call(WRITE, path="a", content=content)
    assert (workspace / "a").read_bytes() == content.encode()


def test_a_file_in_the_place_of_a_folder_is_named_in_the_error(workspace: Path, call: Call) -> None:
    (workspace / "notes").write_text("a file")
    result = call(WRITE, path="notes/a.md", content="x")
    assert (result.is_error, result.details["code"]) == (True, "IO")
    assert "notes/a.md" in text_of(result)


def test_a_name_may_be_as_long_as_the_disk_allows(workspace: Path, call: Call) -> None:
    name = "語" * 85
    assert not call(WRITE, path=name, content="x").is_error
    assert call(WRITE, path=name + "x", content="x").details["code"] == "IO"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_protected_file_stays(workspace: Path, call: Call) -> None:
    (workspace / "SOUL.md").write_text("old")
    (workspace / "SOUL.md").chmod(0o444)
    assert call(WRITE, path="SOUL.md", content="new").details["code"] == "IO"
    assert (workspace / "SOUL.md").read_text() == "old"


def test_half_a_character_and_too_much_are_errors_that_leave_the_old_file(workspace: Path, call: Call) -> None:
    (workspace / "a").write_text("old")
    assert call(WRITE, path="a", content="x\ud83d").details["code"] == "BAD_ARGUMENT"
    assert call(WRITE, path="a", content="x" * (5 * 1024 * 1024 + 1)).details["code"] == "TOO_LARGE"
    assert (workspace / "a").read_text() == "old"


def test_links_outside_folders_and_pipes_are_refused(workspace: Path, call: Call) -> None:
    outside = workspace.parent / "outside.md"
    outside.write_text("precious")
    (workspace / "link.md").symlink_to(outside)
    (workspace / "folder").mkdir()
    os.mkfifo(workspace / "pipe")
    assert call(WRITE, path="link.md", content="x").details["code"] == "NOT_ALLOWED"
    assert call(WRITE, path="folder", content="x").details["code"] == "NOT_REGULAR"
    assert call(WRITE, path="pipe", content="x").details["code"] == "NOT_REGULAR"
    assert outside.read_text() == "precious"


def test_a_link_inside_is_followed_and_a_hard_link_keeps_its_other_name(workspace: Path, call: Call) -> None:
    (workspace / "real.md").write_text("old")
    (workspace / "link.md").symlink_to("real.md")
    os.link(workspace / "real.md", workspace.parent / "other.md")
    assert call(WRITE, path="link.md", content="new").details["path"] == "real.md"
    assert (workspace / "real.md").read_text() == "new"
    assert (workspace / "link.md").is_symlink()
    assert (workspace.parent / "other.md").read_text() == "old"


def test_a_folder_that_cannot_be_written_is_an_error_without_machine_paths(workspace: Path, call: Call) -> None:
    (workspace / "file").write_text("x")
    result = call(WRITE, path="file/inner.md", content="x")
    assert result.is_error
    assert str(workspace) not in text_of(result)


def test_a_cancelled_call_writes_nothing(workspace: Path, new_context: Callable[..., ToolContext]) -> None:
    async def run() -> str:
        context = new_context()
        context.cancel.set()
        return text_of(await WRITE.execute({"path": "a", "content": "x"}, context))

    assert asyncio.run(run()) == "Operation aborted"
    assert list(workspace.iterdir()) == []


def test_in_a_flush_writing_means_appending(workspace: Path, call: Call, changed: list[str]) -> None:
    old = "".join(f"- note {n}\n" for n in range(12))
    (workspace / "memory").mkdir()
    (workspace / DAY).write_text(old)
    result = call(flush_write_tool(DAY), path=DAY, content="- a\n- b\n- c\n")
    assert text_of(result) == f"Appended content to {DAY}."
    assert result.details == {"path": DAY, "operation": "append", "appendOnly": True, "bytes": 12}
    assert (workspace / DAY).read_text() == old + "- a\n- b\n- c\n"
    assert changed == [DAY]


def test_a_flush_makes_the_folder_and_the_file(workspace: Path, call: Call) -> None:
    call(flush_write_tool(DAY), path=f"./{DAY}", content="- 日本語")
    assert (workspace / DAY).read_text() == "- 日本語"


@pytest.mark.parametrize("path", ["MEMORY.md", "SOUL.md", "AGENTS.md", "memory/2026-02-03.md", "../x.md", "a.md"])
def test_a_flush_refuses_every_other_path_and_names_the_one(path: str, workspace: Path, call: Call) -> None:
    result = call(flush_write_tool(DAY), path=path, content="x")
    assert text_of(result) == f"Not allowed: {path}. In a memory flush write only to {DAY}."
    assert not (workspace / "MEMORY.md").exists()


def test_no_block_stands_twice_after_a_flush(workspace: Path, call: Call) -> None:
    heading, first, second = "# 2026-02-02\n\n", "## A\n- x\n", "\n## B\n- y\n"
    tool = flush_write_tool(DAY)
    call(tool, path=DAY, content=heading + first)
    call(tool, path=DAY, content=heading + first + second)
    assert (workspace / DAY).read_text() == heading + first + second
    again = call(tool, path=DAY, content=second)
    assert again.details["bytes"] == 0
    assert (workspace / DAY).read_text() == heading + first + second


@pytest.mark.parametrize(
    ("existing", "payload", "added"),
    [
        ("", "- a", "- a"),
        ("- a", "- b", "\n- b"),
        ("- a\n", "- b", "- b"),
        ("- a", "\n- b", "\n- b"),
        ("- a", "- a\n\n- b\n", "\n\n- b\n"),
        ("- a  \r\n", "- a\n- b\n", "- b\n"),
        ("- a\n- b\n", "- b\n- c\n", "- b\n- c\n"),
        ("- a\n", "  \n", ""),
        ("\n", "- a\n", "- a\n"),
    ],
)
def test_what_is_added(existing: str, payload: str, added: str) -> None:
    assert addition(existing, payload) == added


lines = st.lists(st.sampled_from(["- a", "- b", "## H", "", "日本", "- c "]), max_size=6).map("\n".join)


@given(lines, lines)
def test_adding_twice_is_adding_once_and_old_text_stays(existing: str, payload: str) -> None:
    once = existing + addition(existing, payload)
    assert once.startswith(existing)
    assert addition(once, payload) == ""


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=50))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, content: str) -> None:
    folder = tmp_path_factory.mktemp("bytes")

    async def run() -> None:
        context = ToolContext(folder, folder / "media", FixedClock(datetime(2026, 3, 1, tzinfo=UTC)), asyncio.Event())
        await WRITE.execute({"path": "a", "content": content}, context)

    asyncio.run(run())
    assert (folder / "a").read_bytes() == content.encode()
