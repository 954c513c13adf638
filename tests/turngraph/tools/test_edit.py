"""``edit``: exactly one place, line ends of the file, all edits or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.turngraph.tools.calls import Call, text_of
from turngraph.tools.edit import Edit, EditTool, apply, locate
from turngraph.tools.line_diff import fit_diff
from turngraph.tools.result import ToolFailure

EDIT = EditTool()


def edited(before: str, old: str, new: str) -> str:
    return apply(before, locate(before, [Edit(old, new)], "a.md"))


def failure(before: str, *edits: Edit) -> ToolFailure:
    with pytest.raises(ToolFailure) as caught:
        locate(before, list(edits), "a.md")
    return caught.value


def test_one_place_is_replaced(workspace: Path, call: Call, changed: list[str]) -> None:
    (workspace / "a.md").write_text("".join(f"line {n}\n" for n in range(1, 13)))
    result = call(EDIT, path="a.md", oldText="line 6\nline 7\n", newText="line six\n日本語\nline 7\n")
    assert text_of(result) == "Edited a.md: lines 6-7"
    assert (workspace / "a.md").read_text().splitlines()[4:9] == ["line 5", "line six", "日本語", "line 7", "line 8"]
    assert result.details == {
        "path": "a.md",
        "operation": "edit",
        "replacements": 1,
        "firstChangedLine": 6,
        "diff": "  2 line 2\n  3 line 3\n  4 line 4\n  5 line 5\n- 6 line 6\n+ 6 line six\n+ 7 日本語\n"
        "  8 line 7\n  9 line 8\n  10 line 9\n  11 line 10",
    }
    assert changed == ["a.md"]


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "x\r\n", "x\n"),
        ("\ufeffa\r\nb", "a", "x\n", "\ufeffx\r\n\r\nb"),
        ("a\r\nb\nc\n", "b\n", "x\ny\n", "a\r\nx\r\ny\r\nc\n"),
        ("a\r\n\r\nb", "\n\nb", "!", "a!"),
        ("a.b a*b", "a*b", "x", "a.b x"),
        ("one", "one", "", ""),
        ("👩‍👩‍👧 x", "x", "日", "👩‍👩‍👧 日"),
    ],
)
def test_line_ends_and_signs(before: str, old: str, new: str, after: str) -> None:
    assert edited(before, old, new) == after


def test_text_that_is_not_there_is_an_error_with_the_nearest_line() -> None:
    text = "# Plan\n- call the plumber on Monday\n- 今天玩成语接龙\n"
    found = failure(text, Edit("- call the plumber on Tuesday", ""))
    assert found.code == "NO_MATCH"
    assert found.text.startswith("Text not found in a.md: ")
    assert "blanks and line ends" in found.text
    assert found.text.endswith("Nearest is line 2: - call the plumber on Monday")
    assert "line 3" in failure(text, Edit("- 今天玩成语接力", "")).text
    assert "Nearest" not in failure(text, Edit("something else altogether", "")).text


def test_text_that_is_there_more_than_once_names_the_lines() -> None:
    found = failure("x\n" * 7, Edit("x\n", ""))
    assert found.code == "AMBIGUOUS"
    assert found.text.startswith("Text found 7 times in a.md, at lines 1, 2, 3, 4, 5, .... ")
    assert failure("aaa", Edit("aa", "b")).text.startswith("Text found 2 times in ")


def test_the_same_text_is_no_change(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("x\r\n")
    result = call(EDIT, path="a.md", oldText="x\n", newText="x\n")
    assert text_of(result).startswith("No change in a.md")
    assert result.details == {"status": "error", "code": "NO_CHANGE"}


def test_several_edits_are_matched_against_the_file_as_it_was(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("one\ntwo\nthree\n")
    result = call(
        EDIT, path="a.md", edits=[{"oldText": "three", "newText": "one"}, {"oldText": "one", "newText": "1\n1.5"}]
    )
    assert (workspace / "a.md").read_text() == "1\n1.5\ntwo\none\n"
    assert text_of(result) == "Edited a.md: lines 1-4"
    assert result.details["replacements"] == 2


def test_all_edits_or_none(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("one\ntwo\n")
    result = call(EDIT, path="a.md", edits=[{"oldText": "one", "newText": "1"}, {"oldText": "none", "newText": "0"}])
    assert result.details["code"] == "NO_MATCH"
    assert (workspace / "a.md").read_text() == "one\ntwo\n"
    assert "overlap at line 1" in failure("abcd", Edit("abc", "x"), Edit("cd", "y")).text


def test_bytes_that_are_no_text_stay_and_modes_as_well(workspace: Path, call: Call) -> None:
    file = workspace / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfold \xff\xfe end")
    file.chmod(0o640)
    call(EDIT, path="a.txt", oldText="old", newText="new")
    assert file.read_bytes() == b"\xef\xbb\xbfnew \xff\xfe end"
    assert file.stat().st_mode & 0o777 == 0o640


def test_missing_binary_linked_and_large_files_are_refused(workspace: Path, call: Call) -> None:
    (workspace / "a.bin").write_bytes(b"old\x00")
    (workspace / "big").write_bytes(b"x" * (5 * 1024 * 1024 + 1))
    (workspace.parent / "out.md").write_text("old")
    (workspace / "link.md").symlink_to(workspace.parent / "out.md")
    os.mkfifo(workspace / "pipe")
    codes = {
        path: call(EDIT, path=path, oldText="old", newText="new").details["code"]
        for path in ("a.bin", "big", "link.md", "pipe", "none")
    }
    assert codes == {
        "a.bin": "BINARY",
        "big": "TOO_LARGE",
        "link.md": "NOT_ALLOWED",
        "pipe": "NOT_REGULAR",
        "none": "NOT_FOUND",
    }


def test_half_a_character_is_refused(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("old")
    assert call(EDIT, path="a.md", oldText="old", newText="\ud83d").details["code"] == "BAD_ARGUMENT"


def test_near_edits_share_their_lines_in_the_diff_and_far_ones_stand_apart(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("".join(f"line {n}\n" for n in range(1, 31)))
    edits = [("line 10\n", "ten\n10\n"), ("line 12\n", "twelve\n"), ("line 13\n", ""), ("line 27", "27")]
    result = call(EDIT, path="a.md", edits=[{"oldText": old, "newText": new} for old, new in edits])
    assert text_of(result) == "Edited a.md: lines 10-27"
    assert str(result.details["diff"]).splitlines() == [
        *(f"  {n} line {n}" for n in range(6, 10)),
        "- 10 line 10",
        "+ 10 ten",
        "+ 11 10",
        "  12 line 11",
        "- 12 line 12",
        "- 13 line 13",
        "+ 13 twelve",
        *(f"  {n} line {n}" for n in range(14, 18)),
        *(f"  {n} line {n}" for n in range(23, 27)),
        "- 27 line 27",
        "+ 27 27",
        *(f"  {n} line {n}" for n in range(28, 31)),
    ]


def test_two_edits_of_one_line_are_one_change(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("one two three\nrest\n")
    edits = [{"oldText": "three", "newText": "3"}, {"oldText": "one", "newText": "1"}]
    result = call(EDIT, path="a.md", edits=edits)
    assert result.details["diff"] == "- 1 one two three\n+ 1 1 two 3\n  2 rest"


def test_a_long_diff_is_cut_and_says_so(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("start\n" + "語" * 20 + "\nend\n")
    result = call(EDIT, path="a.md", oldText="語" * 20, newText='"語"\n' * 1500)
    diff = str(result.details["diff"])
    assert len(diff.encode()) <= 4096
    assert diff.splitlines()[-1].endswith("more diff lines]")
    assert fit_diff(["+ 1 " + "x" * 9000]) == "[1 more diff lines]"


plain = st.lists(st.sampled_from(["a", "b", "\n", "語", " ", "."]), max_size=30).map("".join)
pieces = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "語", " ", "."]), max_size=30).map("".join)


@given(plain, plain, plain, plain)
def test_an_edit_changes_its_place_only_and_can_be_undone(before: str, old: str, new: str, after: str) -> None:
    text = f"{before}<{old}>{after}"
    changed = edited(text, f"<{old}>", f"[{new}]")
    assert changed == f"{before}[{new}]{after}"
    assert edited(changed, f"[{new}]", f"<{old}>") == text


@given(pieces, pieces, pieces, pieces)
def test_line_ends_outside_an_edit_stay(before: str, old: str, new: str, after: str) -> None:
    changed = edited(f"{before}<{old}>{after}", f"<{old}>", f"[{new}]")
    assert changed.startswith(f"{before}[")
    assert changed.endswith(f"]{after}")
