"""Reading a transcript file: forwards as a stream, or backwards from its end until all that is visible is there.

Opening costs what the visible part costs: what lies before the first entry that the last compaction kept is not
parsed. Nothing here writes.
Source: design.md "Cost grows with what is visible", decisions 2 and 3; spec/sessions.md 4.4 and 4.6.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from stores.transcript_context import Settings, settings_of
from stores.transcript_entries import (
    CURRENT_VERSION,
    SUMMARY_BOUNDARIES,
    Entry,
    Raw,
    Row,
    entry_of,
    has_id,
    header_version,
    is_blank,
    is_header,
    parse_line,
)
from stores.transcript_tree import PathWalk

FIRST_BLOCK_BYTES = 64 * 1024
LARGEST_BLOCK_BYTES = 1024 * 1024
# How Pi, OpenClaw and we begin most lines; a line that begins otherwise is parsed instead.
_LINK = re.compile(rb'\{"type":"(\w+)","id":"([^"\\]+)","parentId":(?:"([^"\\]+)"|null)[,}]')


@contextmanager
def no_collection() -> Iterator[None]:
    """Pause the search for garbage in cycles while many objects are made that live on and form none.

    Reading 100 MB takes 0.9 s with it and 2.2 s without.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class FileRead:
    """What was read of a file.

    Attributes:
        rows: parsed objects in file order with their line numbers (0 when the file was not read from its start).
        broken: line numbers of lines that are no JSON object.
        torn_bytes: size of an unfinished last line, which is not among ``broken``.
        ends_with_lf: whether the file ends with a line feed, or is empty.
        bytes_read: bytes read from disk; size: of the file.
        start: offset of the first line that was read; 0 when the whole file was.
    """

    rows: list[Row]
    broken: tuple[int, ...]
    torn_bytes: int
    ends_with_lf: bool
    bytes_read: int
    size: int
    start: int = 0


def read_forward(file: BinaryIO, size: int, start: int = 0) -> FileRead:
    """Read a file up to ``size`` line by line, from ``start`` (line numbers count from there)."""
    file.seek(start)
    rows: list[Row] = []
    broken: list[int] = []
    left = size - start
    torn = 0
    last = b"\n"
    for number, line in enumerate(file, 1):
        line = line[:left]
        left -= len(line)
        last = line[-1:]
        raw = parse_line(line)
        if raw is not None:
            rows.append((number, raw))
        elif not is_blank(line):
            if last == b"\n":
                broken.append(number)
            else:
                torn = len(line)
        if left <= 0:
            break
    return FileRead(rows, tuple(broken), torn, last == b"\n", size - start - left, size, start)


def read_visible(file: BinaryIO, size: int, first_block: int = FIRST_BLOCK_BYTES) -> FileRead:
    """Read a file backwards until everything visible on its active path is there.

    A file that fits into the first block, that has no usable current header, or that has an entry without an id is
    read forwards instead; one whose path does not settle is read back to its start, which is a full read too.
    """
    if size <= first_block:
        return read_forward(file, size)
    header, header_end = read_header(file, size)
    if header is None or header_version(header) < CURRENT_VERSION or not _may_have_boundary(file, size):
        return read_forward(file, size)
    tail = _TailReader()
    chunks = ChunksBackward(file, size, first_block)
    for offset, chunk in chunks:
        if not tail.take(offset, chunk):
            return read_forward(file, size)
        if tail.settled:
            break
    return tail.result(file, size, chunks.bytes_read + header_end, header)


def _may_have_boundary(file: BinaryIO, size: int) -> bool:
    """Search for the words of a boundary from the end; without one everything is visible and read forwards."""
    words = [f'"{kind}"'.encode() for kind in sorted(SUMMARY_BOUNDARIES)]
    return any(word in chunk for _, chunk in ChunksBackward(file, size) for word in words)


class _TailReader:
    """Collects lines from the newest to the oldest and follows the active path through them."""

    def __init__(self) -> None:
        self._lines: list[dict[str, Any] | None] = []  # newest first; None: broken or blank
        self._broken: list[int] = []  # positions in _lines
        self._by_id: dict[str, Entry] = {}
        self._walk: PathWalk | None = None
        self._start = 0
        self._torn = 0
        self._ends_with_lf = True

    @property
    def settled(self) -> bool:
        return self._walk is not None and self._walk.settled

    def take(self, offset: int, chunk: bytes) -> bool:
        """Take whole lines that begin at ``offset``; false when the file needs the full read."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        if not self._lines:
            self._ends_with_lf = not last
        end = offset + len(chunk)
        if last:
            lines.append(last)
        else:
            end -= 1
        for line in reversed(lines):
            self._start = end - len(line)
            end = self._start - 1
            if not self._take_line(line):
                return False
            if self.settled:
                break
        return True

    def _take_line(self, line: bytes) -> bool:
        raw = parse_line(line)
        if raw is None:
            self._note_broken(line)
            self._lines.append(None)
            return True
        self._lines.append(raw)
        if is_header(raw):
            return True
        if not has_id(raw):
            return False
        entry = entry_of(raw)
        self._by_id.setdefault(entry.id, entry)  # the later duplicate counts, and it is met first
        if self._walk is None:
            self._walk = PathWalk(entry.id)
        while not self._walk.settled and self._walk.wanted in self._by_id:
            self._walk.take(self._by_id[self._walk.wanted])
        return True

    def _note_broken(self, line: bytes) -> None:
        if is_blank(line):
            return
        if not self._lines and not self._ends_with_lf:
            self._torn = len(line)
        else:
            self._broken.append(len(self._lines))

    def result(self, file: BinaryIO, size: int, bytes_read: int, header: dict[str, Any]) -> FileRead:
        partly = self._start > 0
        count = len(self._lines)
        first = 1
        if partly and self._broken:
            first += count_lines(file, self._start)  # only a warning needs the numbers
        numbers = [first + count - 1 - index for index in range(count)]
        rows = [(0 if partly else numbers[index], raw) for index, raw in enumerate(self._lines) if raw is not None]
        rows.reverse()
        if partly:
            rows.insert(0, (1, header))
        broken = tuple(sorted(numbers[index] for index in self._broken))
        start = self._start if partly else 0
        return FileRead(rows, broken, self._torn, self._ends_with_lf, min(bytes_read, size), size, start)


def read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any] | None, int]:
    """Read the first line; returns the header, ``None`` when it is none with a text id, and where the line ends."""
    file.seek(0)
    line = file.readline()[:size]
    raw = parse_line(line)
    return (raw if raw is not None and is_header(raw) and has_id(raw) else None), len(line)


class ChunksBackward:
    """Whole lines of the first ``end`` bytes of a file, in chunks from the end: ``(offset, bytes)``."""

    def __init__(self, file: BinaryIO, end: int, first_block: int = FIRST_BLOCK_BYTES) -> None:
        self._file = file
        self._end = end
        self._block = first_block
        self.bytes_read = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        end, block = self._end, self._block
        pieces: list[bytes] = []  # of the line that began before `end`, newest first
        while end > 0:
            start = max(0, end - block)
            self._file.seek(start)
            data = self._file.read(end - start)
            self.bytes_read += len(data)
            cut = 0 if start == 0 else data.find(b"\n") + 1
            if start == 0 or cut > 0:
                chunk = b"".join((data[cut:], *reversed(pieces)))
                pieces = [data[:cut]] if cut else []
                if chunk:
                    yield start + cut, chunk
            else:
                pieces.append(data)
            end = start
            block = min(block * 2, LARGEST_BLOCK_BYTES)


def count_lines(file: BinaryIO, end: int) -> int:
    """Count the line feeds in the first ``end`` bytes."""
    file.seek(0)
    count = 0
    while end > 0:
        data = file.read(min(end, LARGEST_BLOCK_BYTES))
        if not data:
            break
        count += data.count(b"\n")
        end -= len(data)
    return count


def rows_with(file: BinaryIO, end: int, needle: bytes) -> Iterator[Raw]:
    """Find the objects of the first ``end`` bytes whose line holds ``needle``, newest first.

    Bytes are searched; only lines that match are parsed.
    """
    for _, chunk in ChunksBackward(file, end):
        at = chunk.rfind(needle)
        while at >= 0:
            begin = chunk.rfind(b"\n", 0, at) + 1
            finish = chunk.find(b"\n", at)
            raw = parse_line(chunk[begin : finish if finish >= 0 else len(chunk)])
            if raw is not None:
                yield raw
            at = chunk.rfind(needle, 0, begin)


def settings_before(
    file: BinaryIO, end: int, wanted: str | None, known: Settings, later: Iterable[str] = ()
) -> Settings | None:
    """Find the thinking level and model that the path sets before ``end``, as far as ``known`` lacks them.

    Args:
        file: the transcript.
        end: offset behind the last line to look at.
        wanted: id of the newest entry of the path before ``end``.
        known: settings found so far; they win.
        later: ids of the entries behind ``end``.

    Returns:
        The completed settings; ``None`` when the path cannot be followed backwards in the lines as they stand.
    """
    sought = wanted.encode() if wanted else None
    seen = {own.encode() for own in later}
    telling = _telling_types(known)
    if sought in seen:
        return None
    for _, chunk in ChunksBackward(file, end):
        for line in reversed(chunk.split(b"\n")):
            if sought is None or not telling:
                return known
            link = _LINK.match(line)
            if link is not None and (link[2] != sought or link[1] not in telling):
                own, parent, entry = link[2], link[3], None
            elif (raw := parse_line(line)) is not None and has_id(raw) and not is_header(raw):
                entry = entry_of(raw)
                own, parent = entry.id.encode(), entry.parent_id.encode() if entry.parent_id else None
            elif is_blank(line) or (raw is not None and is_header(raw)):
                continue
            else:
                return None
            if own == sought:
                if entry is not None:
                    known = known.over(settings_of((entry,)))
                    telling = _telling_types(known)
                sought = parent
                if sought in seen:
                    return None
            seen.add(own)
    return known if sought is None else None


def _telling_types(known: Settings) -> frozenset[bytes]:
    """Return the entry types that may tell a setting that is not known yet."""
    level = () if known.thinking_level else (b"thinking_level_change",)
    return frozenset(level if known.model else (*level, b"model_change", b"message"))
