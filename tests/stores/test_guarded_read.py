"""Guarded reading: nothing outside the folder, nothing but plain files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stores.guarded_read import GuardError, open_folder_beneath, read_guarded


def kind(root: Path, path: str, max_bytes: int = 100) -> str:
    with pytest.raises(GuardError) as caught:
        read_guarded(root, path, max_bytes)
    assert str(root.parent) not in str(caught.value)
    return caught.value.kind


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/inner").mkdir(parents=True)
    (tmp_path / "outside.md").write_text("secret")
    return tmp_path / "root"


def test_a_file_comes_with_its_real_path_and_an_identity(root: Path) -> None:
    (root / "inner/a.md").write_bytes("日本\r\n".encode() + b"\xff")
    (root / "link.md").symlink_to("inner/a.md")
    file = read_guarded(root, "link.md")
    assert (file.path, file.text) == ("inner/a.md", "日本\r\n\ufffd")
    assert read_guarded(root, "inner/a.md").identity == file.identity
    (root / "inner/a.md").write_text("other")
    assert read_guarded(root, "inner/a.md").identity != file.identity


def test_a_file_of_exactly_the_limit_is_read_and_one_above_is_refused(root: Path) -> None:
    (root / "a.md").write_text("x" * 100)
    assert len(read_guarded(root, "a.md", 100).data) == 100
    (root / "a.md").write_text("x" * 101)
    assert kind(root, "a.md") == "validation"


def test_what_is_not_there_is_another_kind_of_failure_than_what_is_refused(root: Path) -> None:
    (root / "file").write_text("x")
    (root / "out.md").symlink_to(root.parent / "outside.md")
    (root / "circle").symlink_to("circle")
    os.mkfifo(root / "pipe")
    os.link(root.parent / "outside.md", root / "hard.md")
    assert kind(root, "none.md") == "path"
    assert kind(root, "file/none.md") == "path"
    assert kind(root, "circle") == "io"
    for path in ("out.md", "../outside.md", "pipe", "inner", "hard.md", str(root.parent / "outside.md")):
        assert kind(root, path) == "validation"


def test_a_folder_that_became_a_link_is_not_entered(root: Path) -> None:
    (root / "moved").symlink_to(root.parent)
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        open_folder_beneath(root, ("moved",))
