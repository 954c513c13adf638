"""Arguments of a call: other spellings, conversions and the check."""

from __future__ import annotations

import re
from typing import Any

import pytest

from turngraph.models.model import ToolSpec
from turngraph.tools.arguments import fit_arguments
from turngraph.tools.edit import EditTool
from turngraph.tools.exec import ExecTool
from turngraph.tools.read import ReadTool
from turngraph.tools.write import FlushWriteTool, WriteTool

SPEC = ToolSpec(
    "any",
    "",
    {
        "type": "object",
        "properties": {
            "corpus": {"enum": ["memory", "sessions"]},
            "minScore": {"type": "number", "minimum": 0, "maximum": 1},
            "flag": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "maybe": {"type": ["string", "null"]},
        },
        "required": [],
    },
)


def fits(spec: ToolSpec, **given: Any) -> dict[str, Any]:
    arguments, problem = fit_arguments(spec, given)
    assert problem is None, problem
    return arguments


def problem(spec: ToolSpec, **given: Any) -> str:
    found = fit_arguments(spec, given)[1]
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["path", "file_path", "filePath"])
def test_other_spellings_of_a_name_are_read(name: str) -> None:
    assert fits(ReadTool.spec, **{name: "a.md"}) == {"path": "a.md"}


def test_every_spelling_of_an_edit_is_read() -> None:
    for old, new in (("oldText", "newText"), ("old_string", "new_string"), ("oldString", "newString")):
        assert fits(EditTool.spec, path="a", **{old: "x", new: ""}) == {"path": "a", "oldText": "x", "newText": ""}
    assert fits(ExecTool.spec, cmd="ls") == {"command": "ls"}


def test_the_name_itself_wins_over_another_spelling() -> None:
    assert fits(ReadTool.spec, path="a", file_path="b")["path"] == "a"


def test_the_given_arguments_are_not_changed() -> None:
    given = {"file_path": "a", "offset": "3", "limit": None}
    fit_arguments(ReadTool.spec, given)
    assert given == {"file_path": "a", "offset": "3", "limit": None}


def test_text_that_is_a_number_is_taken_for_one_and_null_for_absence() -> None:
    assert fits(ReadTool.spec, path="a", offset="3", limit=None) == {"path": "a", "offset": 3}
    assert fits(ReadTool.spec, path="a", offset=3.0) == {"path": "a", "offset": 3}
    assert fits(SPEC, minScore="0.5") == {"minScore": 0.5}


def test_a_number_stays_text_where_text_is_wanted() -> None:
    assert fits(ReadTool.spec, path="2026") == {"path": "2026"}


@pytest.mark.parametrize("zero", [0, "0", 0.0])
def test_an_offset_of_zero_counts_as_absent(zero: object) -> None:
    assert fits(ReadTool.spec, path="a", offset=zero) == {"path": "a"}


def test_unknown_arguments_are_no_fault() -> None:
    assert fits(ExecTool.spec, command="ls", yieldMs=10, pty=True)["command"] == "ls"


def test_missing_arguments_are_named() -> None:
    assert problem(EditTool.spec, path="a").startswith("Missing argument: oldText, newText")
    assert problem(EditTool.spec, path="a", oldText="x", newText=None).startswith("Missing argument: newText")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"minScore": 2}, "minScore must be at most 1, not 2"),
        ({"minScore": "much"}, "minScore must be number, not 'much'"),
        ({"corpus": "wiki"}, "corpus must be one of memory, sessions"),
        ({"flag": 1}, "flag must be boolean, not 1"),
        ({"flag": 10**30}, "flag must be boolean, not 1000"),
        ({"names": ["a", 1]}, "names[1] must be string, not 1"),
    ],
)
def test_what_does_not_fit_is_said(given: dict[str, Any], words: str) -> None:
    assert words in problem(SPEC, **given)


def test_true_is_no_integer_and_empty_text_is_too_short() -> None:
    assert "offset must be integer" in problem(ReadTool.spec, path="a", offset=True)
    assert "at least 1" in problem(ReadTool.spec, path="a", limit=-3)
    assert "must not be empty" in problem(ExecTool.spec, command="")
    assert "env.A must be string" in problem(ExecTool.spec, command="x", env={"A": 1})


def test_the_newer_form_of_an_edit_is_understood() -> None:
    given = {"path": "a", "edits": [{"old_string": "x", "newText": "y"}]}
    assert fits(EditTool.spec, **given)["edits"] == [{"newText": "y", "oldText": "x"}]
    assert "edits[0].newText is missing" in problem(EditTool.spec, path="a", edits=[{"oldText": "x"}])
    assert "edits must not be empty" in problem(EditTool.spec, path="a", edits=[])


def test_descriptions_are_short_and_constant() -> None:
    for kind in (ReadTool, WriteTool, EditTool, ExecTool, FlushWriteTool):
        assert len(kind.spec.description) < 600
        assert not re.search(r"20\d\d-|/home|/tmp", kind.spec.description)
