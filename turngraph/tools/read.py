"""``read``: show a part of a text file, or an image.

Source: spec/tools.md section 2.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from turngraph.images import fit_image
from turngraph.media_types import IMAGE_TYPES, is_binary, media_type
from turngraph.messages import text_block
from turngraph.models.model import ToolSpec
from turngraph.text import head
from turngraph.tools.line_limits import (
    MAX_BYTES,
    MAX_LINES,
    Cut,
    decode_marked,
    first_lines,
    mask_invalid,
    split_lines,
    truncation_facts,
)
from turngraph.tools.paths import Place, find_in_workspace, open_regular, order_key
from turngraph.tools.result import ToolFailure, answered, text_result
from turngraph.tools.tool import ToolContext, ToolResult

LONG_LINE_CHARS = 2000  # shown of a line that is longer than the byte limit
_PROBE_BYTES = 8192
_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
# Room for the notice inside the limit: three numbers of a file of any size.
_NOTICE_BYTES = 120
_MIB = 1 << 20


class ReadTool:
    """Read files of the workspace, and stored media.

    Args:
        memory_refusal: why this run may not see memory files, ``None`` when it may.
        image_max_px: longest side of an image that is sent.
        media_max_bytes: largest image file.
    """

    spec = ToolSpec(
        "read",
        "Read a file of the workspace, or media/<sha256>.<ext> of an attachment or a long output. Text: at most "
        "2,000 lines and 51,200 bytes at once; when more is left the last line says which offset goes on. "
        "png, jpeg, gif and webp come as an image. Refused: other binary files, folders, paths outside the workspace.",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "file, relative to the workspace"},
                "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                "limit": {"type": "integer", "minimum": 1, "description": "number of lines"},
            },
            "required": ["path"],
        },
    )

    def __init__(
        self, memory_refusal: str | None = None, *, image_max_px: int = 1200, media_max_bytes: int = 5 * _MIB
    ) -> None:
        self._memory_refusal = memory_refusal
        self._image_max_px = image_max_px
        self._media_max_bytes = media_max_bytes

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return order_key(arguments)

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return await answered(asyncio.to_thread(self._read, arguments, context), arguments["path"])

    def _read(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        place = find_in_workspace(arguments["path"], context.workspace, self._memory_refusal, media=context.media)
        offset, limit = arguments.get("offset") or 1, min(arguments.get("limit") or MAX_LINES, MAX_LINES)
        with open_regular(place) as file:
            probe = file.read(_PROBE_BYTES)
            name = media_type(probe)
            size = file.seek(0, 2)
            file.seek(0)
            if name in IMAGE_TYPES:
                return self._image(place, file, size)
            if is_binary(probe):
                raise ToolFailure("BINARY", f"Not a text file: {place.given} ({size} bytes, {name})")
            return _text(place, scan(file, offset, limit), offset, limit)

    def _image(self, place: Place, file: BinaryIO, size: int) -> ToolResult:
        if size > self._media_max_bytes:
            raise ToolFailure(
                "TOO_LARGE",
                f"Not allowed: {place.given} is an image of {size} bytes, limit {self._media_max_bytes}. "
                "Make it smaller first.",
            )
        try:
            picture = fit_image(file.read(), self._image_max_px)
        except ValueError as error:
            raise ToolFailure("BINARY", f"Not a text file: {place.given} ({size} bytes): {error}") from error
        text = f"{place.name}: {picture.type}, {picture.width} x {picture.height} pixels, {len(picture.data)} bytes"
        if len(picture.data) != size:
            text += f" (made smaller; the file has {size} bytes)"
        details = {"path": place.name, "operation": "read", "totalBytes": size, "type": picture.type}
        data = base64.b64encode(picture.data).decode("ascii")
        return ToolResult([text_block(text), {"type": "image", "data": data, "mimeType": picture.type}], details)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a file, and what is known of the whole.

    Attributes:
        data: from the start of the first wanted line on, cut off soon after the byte limit.
        first_line_bytes: length of the first wanted line, without its LF.
        total_lines, total_bytes: of the file.
    """

    data: bytes
    first_line_bytes: int
    total_lines: int
    total_bytes: int


def scan(file: BinaryIO, offset: int, lines: int, block_bytes: int = _BLOCK_BYTES) -> Window:
    """Read a file once in blocks and keep ``lines`` lines from line ``offset`` (from 1); memory stays bounded."""
    kept = bytearray()
    first_line_bytes = 0
    line, total, last = 1, 0, b""
    while block := file.read(block_bytes):
        start = len(_BOM) if total == 0 and block.startswith(_BOM) else 0
        total += len(block)
        last = block[start:][-1:]
        passed = block.count(b"\n", start)
        if line + passed < offset:
            line += passed
            continue
        while line < offset:
            line, start = line + 1, block.find(b"\n", start) + 1
        while start < len(block) and line < offset + lines:
            end = block.find(b"\n", start)
            stop = len(block) if end < 0 else end + 1
            if line == offset:
                first_line_bytes += stop - start - (end >= 0)
            if len(kept) <= MAX_BYTES:
                kept += block[start : min(stop, start + MAX_BYTES + 1)]
            start, line = stop, line + (end >= 0)
        line += block.count(b"\n", start)
    return Window(bytes(kept), first_line_bytes, line - 1 if last in (b"\n", b"") else line, total)


def _text(place: Place, window: Window, offset: int, limit: int) -> ToolResult:
    details: dict[str, Any] = {"path": place.name, "operation": "read", "startLine": offset, "endLine": 0}
    details |= {"totalLines": window.total_lines, "totalBytes": window.total_bytes}
    if window.total_lines == 0 and offset == 1:
        return text_result("(empty file)", details)
    if offset > window.total_lines:
        raise ToolFailure(
            "BAD_ARGUMENT", f"Offset {offset} is beyond the end of {place.given} ({window.total_lines} lines)"
        )
    lines = split_lines(decode_marked(window.data))
    cut = first_lines(lines, limit, MAX_BYTES)
    more = offset - 1 + cut.lines < window.total_lines
    if more:
        cut = first_lines(lines, limit, MAX_BYTES - _NOTICE_BYTES)
    if cut.lines == 0:
        return _long_line(window, offset, lines[0], details)
    text, invalid = mask_invalid(cut.text)
    details["endLine"] = end = offset - 1 + cut.lines
    if more:
        text += f"\n\n[lines {offset}-{end} of {window.total_lines}; continue with offset={end + 1}]"
        facts = truncation_facts(cut, window.total_lines, window.total_bytes, max_lines=limit)
        details["truncation"] = facts | {"truncatedBy": cut.cut_by or "lines"}
    if invalid:
        details["invalidBytes"] = invalid
    return text_result(text, details)


def _long_line(window: Window, offset: int, line: str, details: dict[str, Any]) -> ToolResult:
    shown, invalid = mask_invalid(head(line, LONG_LINE_CHARS))
    cut = Cut(shown, 1, "bytes", last_line_partial=True)
    facts = truncation_facts(cut, window.total_lines, window.total_bytes, first_line_too_long=True)
    details |= {"endLine": offset, "truncation": facts}
    if invalid:
        details["invalidBytes"] = invalid
    notice = f"[line {offset} is {window.first_line_bytes} bytes long; use exec to look inside it]"
    return text_result(f"{shown}\n\n{notice}", details)
