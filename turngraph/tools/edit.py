"""``edit``: replace exact pieces of text in a file, all of them or none.

Source: spec/tools.md section 4.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from turngraph.media_types import is_binary, media_type
from turngraph.models.model import ToolSpec
from turngraph.text import head
from turngraph.tools.file_writes import MAX_FILE_BYTES, encoded, replace_file
from turngraph.tools.line_diff import Change, fit_diff, line_diff
from turngraph.tools.line_limits import decode_marked
from turngraph.tools.paths import Place, announce_change, find_in_workspace, open_regular, order_key
from turngraph.tools.result import ABORTED_TEXT, ToolFailure, answered, text_result
from turngraph.tools.tool import ToolContext, ToolResult

_SHOWN_LINES = 5  # line numbers that an ambiguous match names
_SHOWN_LINE_CHARS = 200
# A line end in either form; the LF of a CR LF is not one of its own.
_LINE_END = r"(?:\r\n|(?<!\r)\n)"
# A word, or one character of a script that writes none apart.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement, as the model gave it."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Span:
    """Where a replacement stands: characters of the file before, and what comes in their place."""

    start: int
    end: int
    new: str


class EditTool:
    """Edit files of the workspace.

    Args:
        memory_refusal: why this run may not touch memory files, ``None`` when it may.
    """

    spec = ToolSpec(
        "edit",
        "Replace one piece of text in a file of the workspace. oldText must occur exactly once, blanks and line ends "
        "included (CRLF and LF count as the same); take it from read and add lines around it when it is not unique. "
        "Files up to 5 MiB. Refused: binary files, paths outside the workspace, anything that is not a regular file.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "file, relative to the workspace"},
                "oldText": {"type": "string", "minLength": 1, "description": "exact text that is there now"},
                "newText": {"type": "string", "description": "text to stand in its place"},
            },
            "required": ["path", "oldText", "newText"],
        },
    )

    def __init__(self, memory_refusal: str | None = None) -> None:
        self._memory_refusal = memory_refusal

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return order_key(arguments)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await answered(self._edit(arguments, context), arguments["path"])

    async def _edit(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        place = find_in_workspace(arguments["path"], context.workspace, self._memory_refusal)
        items = arguments.get("edits") or [arguments]
        edits = [Edit(item["oldText"], item["newText"]) for item in items]
        if context.cancel.is_set():
            raise ToolFailure("ABORTED", ABORTED_TEXT)
        result = await asyncio.to_thread(_edit_file, place, edits)
        await announce_change(context, place)
        return result


def _edit_file(place: Place, edits: Sequence[Edit]) -> ToolResult:
    before = _content(place)
    spans = locate(before, edits, place.given)
    after = apply(before, spans)
    if after == before:
        raise ToolFailure("NO_CHANGE", f"No change in {place.given}: the new text is what is there.")
    data = after.encode("utf-8", "surrogateescape")
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailure(
            "TOO_LARGE", f"Not allowed: {place.given} would have {len(data)} bytes, at most {MAX_FILE_BYTES}."
        )
    diff = line_diff(before.split("\n"), after.split("\n"), _changes(before, spans))
    replace_file(place, data)
    return text_result(
        f"Edited {place.name}: lines {diff.first_changed}-{diff.last_changed}",
        {
            "path": place.name,
            "operation": "edit",
            "replacements": len(spans),
            "firstChangedLine": diff.first_changed,
            "diff": fit_diff(diff.lines),
        },
    )


def _content(place: Place) -> str:
    with open_regular(place) as file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailure("TOO_LARGE", f"Not allowed: {place.given} has more than {MAX_FILE_BYTES} bytes. Use exec.")
    if is_binary(data):
        raise ToolFailure("BINARY", f"Not a text file: {place.given} ({len(data)} bytes, {media_type(data)})")
    return decode_marked(data)


def locate(text: str, edits: Sequence[Edit], path: str) -> list[Span]:
    """Find every edit in ``text``, in the order of the text.

    Args:
        text: the file as it is.
        edits: what to replace; line ends of the new text become those of the file.
        path: for error texts.

    Raises:
        ToolFailure: NO_MATCH with the nearest line, AMBIGUOUS with line numbers or for edits that overlap.
    """
    line_end = "\r\n" if re.search(r"^[^\n]*\r\n", text) else "\n"
    spans = []
    for edit in edits:
        encoded(edit.new, "newText")
        start, end = _only_match(text, edit.old, path)
        spans.append(Span(start, end, edit.new.replace("\r\n", "\n").replace("\n", line_end)))
    spans.sort(key=lambda span: span.start)
    for first, second in pairwise(spans):
        if second.start < first.end:
            line = _line_of(text, second.start)
            raise ToolFailure(
                "AMBIGUOUS", f"Not allowed: two edits of {path} overlap at line {line}. Join them into one."
            )
    return spans


def apply(text: str, spans: Sequence[Span]) -> str:
    """Return ``text`` with every span replaced; ``spans`` are sorted and apart."""
    parts, position = [], 0
    for span in spans:
        parts += [text[position : span.start], span.new]
        position = span.end
    return "".join([*parts, text[position:]])


def _only_match(text: str, old: str, path: str) -> tuple[int, int]:
    lines = [re.escape(line).replace("\r", r"\r(?!\n)") for line in old.replace("\r\n", "\n").split("\n")]
    pattern = re.compile(_LINE_END.join(lines))
    matches: list[tuple[int, int]] = []
    position = 0
    while match := pattern.search(text, position):
        matches.append(match.span())
        position = match.start() + 1
    if not matches:
        raise ToolFailure(
            "NO_MATCH",
            f"Text not found in {path}: it must be there exactly, blanks and line ends included.{_nearest(text, old)}",
        )
    if len(matches) > 1:
        numbers = ", ".join(str(_line_of(text, start)) for start, _ in matches[:_SHOWN_LINES])
        more = ", ..." if len(matches) > _SHOWN_LINES else ""
        raise ToolFailure(
            "AMBIGUOUS",
            f"Text found {len(matches)} times in {path}, at lines {numbers}{more}. "
            "Give more of the text around the one that is meant.",
        )
    return matches[0]


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _nearest(text: str, old: str) -> str:
    """Name the line that shares most words with the first line of ``old`` that has any, if it shares over half."""
    wanted = next((words for line in old.splitlines() if (words := Counter(_WORD.findall(line.lower())))), None)
    if not wanted:
        return ""
    best, best_number, best_line = wanted.total() // 2, 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        shared = (wanted & Counter(_WORD.findall(line.lower()))).total()
        if shared > best:
            best, best_number, best_line = shared, number, line
    return f" Nearest is line {best_number}: {head(best_line.strip(), _SHOWN_LINE_CHARS)}" if best_number else ""


def _changes(before: str, spans: Sequence[Span]) -> list[Change]:
    """Return the lines that replacements change; those that meet on a line are one change."""
    changes: list[Change] = []
    shift = 0
    for span in spans:
        top = before.count("\n", 0, span.start)
        end = before.count("\n", 0, span.end) + 1
        grown = span.new.count("\n") - (end - 1 - top)
        change = Change((top, end), (top + shift, end + shift + grown))
        shift += grown
        if changes and top < changes[-1].old[1]:
            first = changes.pop()
            change = Change((first.old[0], end), (first.new[0], change.new[1]))
        changes.append(change)
    return changes
