"""Results: never empty, never an exception, never more than 8 KiB of details."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.tools.result import MAX_DETAILS_BYTES, ToolFailure, answered, bounded_details, text_result
from turngraph.tools.tool import ToolResult


def test_nothing_to_say_is_said() -> None:
    assert text_result("").content == [{"type": "text", "text": "(no output)"}]


def test_a_failure_and_a_fault_of_the_disk_become_error_results() -> None:
    async def fails(error: Exception) -> ToolResult:
        raise error

    known = asyncio.run(answered(fails(ToolFailure("NOT_FOUND", "File not found: a")), "a"))
    assert (known.is_error, known.details) == (True, {"status": "error", "code": "NOT_FOUND"})
    disk = asyncio.run(answered(fails(PermissionError(13, "Permission denied", "/home/me/secret")), "a.md"))
    assert disk.details["code"] == "IO"
    assert disk.content[0]["text"] == "The file system refused a.md: Permission denied. Try another file."


def test_a_fault_of_the_program_is_not_hidden() -> None:
    async def broken() -> ToolResult:
        raise KeyError("x")

    with pytest.raises(KeyError):
        asyncio.run(answered(broken(), "a"))


def test_small_details_stay_as_they_are() -> None:
    details = {"path": "a", "bytes": 3, "nested": {"x": [1]}}
    assert bounded_details(details) == details


@given(
    st.dictionaries(
        st.sampled_from("abcd"), st.text(alphabet='a"\n語\u0001', max_size=9000) | st.integers(), max_size=4
    )
)
def test_details_never_exceed_their_limit(details: dict[str, str | int]) -> None:
    bounded = bounded_details(details)
    assert len(json.dumps(bounded, ensure_ascii=False).encode()) <= MAX_DETAILS_BYTES
    assert all(str(details[key]).startswith(str(value)) for key, value in bounded.items())
