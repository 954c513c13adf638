"""Which files are indexed, and what is said of those that are not."""

from __future__ import annotations

import os

import pytest

from tests.stores.memory.conftest import Notes


def test_a_name_that_is_no_utf8_is_reported_and_stops_nothing(notes: Notes) -> None:
    notes.write("memory/good.md", "walrus")
    (notes.workspace / os.fsdecode(b"memory/bad\xff.md")).write_text("walrus")
    index = notes.index()
    report = index.sync()
    assert [hit.path for hit in index.search("walrus").hits] == ["memory/good.md"]
    assert len(report.problems) == 1
    assert "bad�.md" in report.problems[0]
    assert "rename it" in index.status().problems[0]


@pytest.mark.parametrize("name", ["memory/日本 語 “q”.md", "memory/two\nlines.md", "memory/it's.md", "memory/a\tb.md"])
def test_any_name_in_utf8_is_indexed(notes: Notes, name: str) -> None:
    notes.write(name, "walrus")
    index = notes.index()
    assert [hit.path for hit in index.search("walrus").hits] == [name]
    (notes.workspace / name).unlink()
    assert index.search("walrus").hits == ()


def test_a_workspace_that_is_no_folder_is_reported(notes: Notes) -> None:
    (notes.workspace / "memory").rmdir()
    notes.workspace.rmdir()
    notes.workspace.write_text("a file")
    index = notes.index()
    assert index.search("walrus").hits == ()
    assert "cannot be listed" in index.status().problems[0]
