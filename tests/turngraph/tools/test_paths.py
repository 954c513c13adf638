"""Which file a path means, and what is refused; on a real disk with real links."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest

from turngraph.tools.paths import Place, find_in_workspace, open_regular, order_key, place_in_workspace
from turngraph.tools.result import ToolFailure


def refused(path: str, workspace: Path, reason: str | None = None) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        open_regular(find_in_workspace(path, workspace, reason))
    return caught.value


def content(place: Place) -> bytes:
    with open_regular(place) as file:
        return file.read()


def test_relative_absolute_and_marked_paths_mean_the_same_file(workspace: Path) -> None:
    (workspace / "notes").mkdir()
    (workspace / "notes/a.md").write_text("x")
    for given in ("notes/a.md", "./notes/../notes/a.md", f"{workspace}/notes/a.md", "@notes/a.md", "notes//a.md"):
        assert find_in_workspace(given, workspace).name == "notes/a.md"


def test_a_home_path_is_allowed_when_it_ends_inside(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(workspace.parent))
    (workspace / "a.md").write_text("x")
    assert find_in_workspace("~/work/a.md", workspace).name == "a.md"
    assert refused("~/elsewhere.md", workspace).code == "NOT_ALLOWED"


@pytest.mark.parametrize("given", ["", "  ", "@", "a\x00b", "a\nb", "a\x7fb", "a\udc80b"])
def test_empty_paths_and_control_characters_are_refused(given: str, workspace: Path) -> None:
    failure = refused(given, workspace)
    assert (failure.code, failure.text[:13]) == ("NOT_ALLOWED", "Not allowed: ")


@pytest.mark.parametrize("given", ["../secret.md", "/etc/passwd", "notes/../../secret.md", "missing/../../secret.md"])
def test_what_leaves_the_workspace_is_refused(given: str, workspace: Path) -> None:
    (workspace.parent / "secret.md").write_text("secret")
    assert refused(given, workspace).code == "NOT_ALLOWED"


def test_a_neighbour_with_a_longer_name_is_outside(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/a.md").write_text("secret")
    assert refused("../workspace/a.md", tmp_path / "work").code == "NOT_ALLOWED"
    assert refused(str(tmp_path / "workspace/a.md"), tmp_path / "work").code == "NOT_ALLOWED"


def test_links_inside_are_followed_and_links_outside_are_refused(workspace: Path) -> None:
    (workspace.parent / "outside").mkdir()
    (workspace.parent / "outside/secret.md").write_text("secret")
    (workspace / "notes").mkdir()
    (workspace / "notes/a.md").write_text("x")
    (workspace / "inside").symlink_to("notes")
    (workspace / "out").symlink_to(workspace.parent / "outside")
    (workspace / "file").symlink_to(workspace.parent / "outside/secret.md")
    (workspace / "dangling").symlink_to(workspace.parent / "outside/new.md")
    assert find_in_workspace("inside/a.md", workspace).name == "notes/a.md"
    for given in ("out/secret.md", "file", "dangling", "out/new/deep.md"):
        with pytest.raises(ToolFailure, match="outside the workspace"):
            place_in_workspace(given, workspace)


def test_a_link_that_replaces_a_folder_after_the_check_is_not_followed(workspace: Path) -> None:
    (workspace.parent / "outside").mkdir()
    (workspace.parent / "outside/a.md").write_text("secret")
    (workspace / "notes").mkdir()
    (workspace / "notes/a.md").write_text("x")
    place = find_in_workspace("notes/a.md", workspace)
    (workspace / "notes").rename(workspace / "moved")
    (workspace / "notes").symlink_to(workspace.parent / "outside")
    with pytest.raises(ToolFailure):
        open_regular(place)


def test_links_that_go_round_in_circles_are_an_error(workspace: Path) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert refused("a", workspace).code in ("NOT_REGULAR", "NOT_ALLOWED")


def test_folders_pipes_sockets_and_devices_are_refused_by_kind(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "folder").mkdir()
    os.mkfifo(workspace / "pipe")
    monkeypatch.chdir(workspace)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for kind in ("folder", "pipe", "socket"):
            failure = refused(kind, workspace)
            assert failure.code == "NOT_REGULAR"
            assert failure.text == f"Not allowed: {kind} is a {kind}, not a file. Name a regular file."
    assert refused(".", workspace).code == "NOT_REGULAR"
    assert refused("null", Path("/dev")).text.startswith("Not allowed: null is a device")


def test_a_name_in_the_other_unicode_form_is_found(workspace: Path) -> None:
    for name in ("Résumé.md", "ファイルが.md"):
        stored, asked = unicodedata.normalize("NFD", name), unicodedata.normalize("NFC", name)
        (workspace / stored).mkdir()
        (workspace / stored / stored).write_text("x")
        assert find_in_workspace(f"{asked}/{asked}", workspace).parts == (stored, stored)
    (workspace / "shot at 9.41 AM.png").write_text("x")
    assert find_in_workspace("shot at 9.41\u202fAM.png", workspace).name == "shot at 9.41 AM.png"


def test_a_twin_that_is_a_link_outside_is_refused(workspace: Path) -> None:
    (workspace.parent / "secret.md").write_text("secret")
    (workspace / unicodedata.normalize("NFD", "é.md")).symlink_to(workspace.parent / "secret.md")
    assert refused(unicodedata.normalize("NFC", "é.md"), workspace).code == "NOT_ALLOWED"


def test_a_missing_file_gives_near_names_of_its_folder(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    for name in ("2026-03-01.md", "2026-03-02.md", "2026-03-03.md", "2026-03-04.md", "zebra"):
        (workspace / "memory" / name).write_text("x")
    text = refused("memory/2026-03-05.md", workspace).text
    assert text.startswith("File not found: memory/2026-03-05.md. Near names: memory/2026-03-0")
    assert text.count("memory/") == 4
    assert str(workspace) not in text
    assert refused("nothing/like/it", workspace).text.startswith("File not found: nothing/like/it. ")


def test_names_that_are_no_text_are_never_shown(workspace: Path) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/note\xff.md")).write_text("x")
    (workspace / "link.md").symlink_to(os.fsdecode(b"note\xff.md"))
    refused("note.md", workspace).text.encode("utf-8")
    assert find_in_workspace("link.md", workspace).name == "note?.md"


def test_memory_paths_are_refused_with_the_reason_where_memory_is_private(workspace: Path) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory/a.md").write_text("private")
    (workspace / "notes.md").symlink_to("memory/a.md")
    (workspace / "USER.md").write_text("private")
    (workspace / "plain.md").write_text("open")
    reason = "memory is not available in group chats"
    for given in ("memory/a.md", "notes.md", "USER.md", "MEMORY.md", "./memory/new.md", f"{workspace}/memory/a.md"):
        assert refused(given, workspace, reason).text == f"Not allowed: {given}: {reason}. Tell the user."
    assert find_in_workspace("plain.md", workspace, reason).name == "plain.md"


def test_stored_media_is_found_after_the_workspace(workspace: Path, tmp_path: Path) -> None:
    name = f"media/{'a' * 64}.txt"
    media = tmp_path / "sessions/media"
    media.mkdir(parents=True)
    (media / name.removeprefix("media/")).write_text("stored")
    assert content(find_in_workspace(name, workspace, media=media)) == b"stored"
    with pytest.raises(ToolFailure, match="File not found"):
        find_in_workspace(name, workspace)
    (workspace / "media").mkdir()
    (workspace / name).write_text("own")
    assert content(find_in_workspace(name, workspace, media=media)) == b"own"


def test_calls_that_name_one_file_share_a_key() -> None:
    assert len({order_key({"path": path}) for path in ("a.md", "./a.md", "/w/a.md", "@a.md", "A.md")}) == 1
    assert order_key({"command": "ls"}) is None
