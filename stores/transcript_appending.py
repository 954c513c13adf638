"""Appending to a transcript file: one write of whole lines, and the stamp that tells whether somebody else wrote.

Source: spec/sessions.md 4.7, spec/style.md section 9.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from stores.archives import sync_folder
from turngraph.errors import TranscriptError


@dataclass(frozen=True, slots=True)
class Stamp:
    """Identity and state of a file; ``inode`` is ``None`` when there is none."""

    inode: int | None = None
    size: int = 0
    mtime_ns: int = 0


def stamp_of(file: Path | int) -> Stamp:
    """Return the stamp of a path or an open file."""
    try:
        stat = os.stat(file)  # noqa: PTH116 - also takes an open file
    except FileNotFoundError:
        return Stamp()
    return Stamp(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def append_lines(path: Path, data: bytes, *, durable: bool) -> Stamp:
    """Append whole lines in one write; the caller holds the transcript lock.

    What a full disk let through of an unfinished write is cut off again.

    Raises:
        TranscriptError: the file cannot be opened or not all of ``data`` could be written.
    """
    is_new = not path.exists()
    handle = -1
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        before = os.fstat(handle).st_size
        if os.write(handle, data) != len(data):
            os.ftruncate(handle, before)
            raise TranscriptError(f"the disk is full: nothing was written to {path}; make room and try again")
        if durable:
            os.fsync(handle)
            if is_new:
                sync_folder(path.parent)
        return stamp_of(handle)
    except OSError as error:
        raise TranscriptError(f"cannot append to {path}: {error.strerror}; nothing was written") from error
    finally:
        if handle >= 0:
            os.close(handle)
