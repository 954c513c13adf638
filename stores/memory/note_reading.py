"""Read a part of a memory file: what ``memory_get`` gives back.

The real path decides: no link, nothing outside, nothing but Markdown. Source: spec/memory.md 5.2, known-faults 8.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stores.guarded_read import open_beneath
from stores.memory.files import ExtraPath, relative_path
from turngraph.errors import StoreError
from turngraph.memory_paths import ROOT_MEMORY, is_memory_path
from turngraph.text import head, js_trim

DEFAULT_LINES = 120
MAX_CHARS = 12_000


class NotAllowed(StoreError):
    """A path that is no Markdown memory file."""


@dataclass(frozen=True, slots=True)
class NotePart:
    """Lines of a note.

    Attributes:
        status: ``ok`` or ``not_found``.
        path: index path. first_line, lines: what ``text`` holds, from 1.
        next_line: where to go on, ``None`` at the end. text: the lines, with a notice when more remains.
    """

    status: Literal["ok", "not_found"]
    path: str
    text: str = ""
    first_line: int = 1
    lines: int = 0
    next_line: int | None = None


def read_note(
    workspace: Path,
    extra: Sequence[ExtraPath],
    path: str,
    first_line: int | None = None,
    lines: int | None = None,
    *,
    default_lines: int = DEFAULT_LINES,
    max_chars: int = MAX_CHARS,
) -> NotePart:
    """Read lines of a memory file.

    Args:
        workspace, extra: where memory files may lie.
        path: relative to the workspace, or of an extra path as search results show it.
        first_line: from 1; less counts as 1. lines: how many; ``default_lines`` unless given.
        max_chars: most characters of text, notice not counted.

    Raises:
        NotAllowed: blank, not Markdown, outside the memory folders, a link, or no regular file.
    """
    wanted = js_trim(path)
    if not wanted:
        raise NotAllowed("path required")
    root, parts = _locate(workspace, extra, wanted)
    shown = relative_path(str(workspace), str(root.joinpath(*parts)))
    try:
        data = _read(root, parts)
    except FileNotFoundError:
        return NotePart("not_found", shown)
    except OSError:
        raise NotAllowed(f"{shown} is a link or no regular file; memory_get reads plain Markdown files only") from None
    return part_of(shown, data.decode("utf-8", "replace"), first_line, lines or default_lines, max_chars)


def _locate(workspace: Path, extra: Sequence[ExtraPath], wanted: str) -> tuple[Path, tuple[str, ...]]:
    """Return the folder that may be read and the path below it, both free of ``..``."""
    refused = NotAllowed("path is not an allowed Markdown memory file")
    if any(ord(char) < 32 for char in wanted) or not wanted.endswith(".md"):
        raise refused
    absolute = Path(os.path.normpath(workspace / wanted))
    for entry in extra:
        if absolute == entry.path:
            return entry.path.parent, (entry.path.name,)
        if absolute.is_relative_to(entry.path) and not entry.path.is_symlink():
            below = absolute.relative_to(entry.path)
            if entry.takes(below.as_posix()):
                return entry.path, below.parts
    relative = Path(wanted)
    if relative.is_absolute() or ".." in relative.parts or not absolute.is_relative_to(workspace):
        raise refused
    parts = absolute.relative_to(workspace).parts
    if not is_memory_path("/".join(parts), has_root_memory=(workspace / ROOT_MEMORY).is_file()):
        raise refused
    return workspace, parts


def _read(root: Path, parts: tuple[str, ...]) -> bytes:
    descriptor = open_beneath(root, parts, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("not a regular file")
        return stream.read()


def part_of(path: str, text: str, first_line: int | None, lines: int, max_chars: int = MAX_CHARS) -> NotePart:
    """Cut lines out of a text; a notice says where to go on."""
    start = max(1, first_line or 1)
    all_lines = text.split("\n") if text else []
    if all_lines and not all_lines[-1]:
        all_lines.pop()
    chosen: list[str] = []
    room = max_chars
    for line in all_lines[start - 1 : start - 1 + max(1, lines)]:
        if len(line) + 1 > room and chosen:
            break
        chosen.append(line)
        room -= len(line) + 1
    after = start + len(chosen)
    rest = after if chosen and after <= len(all_lines) else None
    body = "\n".join(chosen)
    notices = []
    if len(body) > max_chars:
        body = head(body, max_chars)
        notices.append(f"[Line {start} has {len(chosen[0])} characters; only the first {len(body)} are shown.]")
    if rest is not None:
        notices.append(f"[More content available. Use from={rest} to continue.]")
    shown = "\n\n".join([body, *notices]) if notices else body
    return NotePart("ok", path, shown, start, len(chosen), rest)
