"""Results of tools: texts, errors with a code, and the promise that a tool never raises to the loop.

Source: spec/tools.md sections 1.1 and 1.6.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import Any, Literal

from turngraph.messages import text_block
from turngraph.text import head
from turngraph.tools.tool import ToolResult

ErrorCode = Literal[
    "NOT_FOUND",
    "NOT_ALLOWED",
    "NOT_REGULAR",
    "BINARY",
    "TOO_LARGE",
    "NO_MATCH",
    "AMBIGUOUS",
    "NO_CHANGE",
    "BAD_ARGUMENT",
    "ABORTED",
    "IO",
]
NO_OUTPUT = "(no output)"
MAX_DETAILS_BYTES = 8192  # of JSON
ABORTED_TEXT = "Operation aborted"
_SHOWN_GIVEN_CHARS = 200


class ToolFailure(Exception):
    """A call that ends with an error result: what happened with the argument as given, then what to do."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        self.code: ErrorCode = code
        self.text = text
        super().__init__(text)


def text_result(text: str, details: Mapping[str, Any] | None = None, *, is_error: bool = False) -> ToolResult:
    """Make a result of one text block; nothing to say is ``(no output)``."""
    return ToolResult([text_block(text or NO_OUTPUT)], bounded_details(details or {}), is_error)


def error_result(code: ErrorCode, text: str) -> ToolResult:
    """Make an error result."""
    return ToolResult([text_block(text)], {"status": "error", "code": code}, is_error=True)


async def answered(call: Awaitable[ToolResult], given: str) -> ToolResult:
    """Await a call; its failure, or one of the disk, becomes an error result. Cancellation passes through.

    Args:
        call: the running call.
        given: the path or command as the model gave it, for the text of an error of the disk.
    """
    try:
        return await call
    except ToolFailure as failure:
        return error_result(failure.code, failure.text)
    except OSError as error:
        # The message of an OSError names paths of the machine; its kind does not.
        refused = error.strerror or type(error).__name__
        return error_result(
            "IO", f"The file system refused {head(given, _SHOWN_GIVEN_CHARS)}: {refused}. Try another file."
        )


def bounded_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``details`` so that they are at most 8,192 bytes of JSON: the longest text in them is cut first."""
    bounded = dict(details)
    while (size := _json_bytes(bounded)) > MAX_DETAILS_BYTES:
        texts = {key: value for key, value in bounded.items() if isinstance(value, str)}
        if not texts:
            return {key: value for key, value in bounded.items() if _json_bytes(value) < MAX_DETAILS_BYTES // 16}
        longest = max(texts, key=lambda key: _json_bytes(texts[key]))
        share = (MAX_DETAILS_BYTES - (size - _json_bytes(texts[longest]))) / _json_bytes(texts[longest])
        bounded[longest] = head(texts[longest], int(len(texts[longest]) * max(0.0, share) * 0.95))
        if bounded[longest] == texts[longest] or not bounded[longest]:
            del bounded[longest]
    return bounded


def _json_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
