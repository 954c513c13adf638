"""Write files of the workspace so that a reader sees the old content or the new, never half of it.

Source: spec/tools.md sections 1.3 and 3.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from stores.guarded_read import open_folder_beneath
from turngraph.tools.paths import Place, check_kind, wrong_kind
from turngraph.tools.result import ToolFailure

MAX_FILE_BYTES = 5 * 1024 * 1024  # spec/tools.md section 3


def encoded(text: str, argument: str) -> bytes:
    """Return ``text`` as UTF-8.

    Raises:
        ToolFailure: BAD_ARGUMENT for a lone surrogate, TOO_LARGE above 5 MiB.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ToolFailure(
            "BAD_ARGUMENT", f"Not allowed: {argument} has half a character (a lone surrogate) at {error.start}."
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailure(
            "TOO_LARGE", f"Not allowed: {argument} has {len(data)} bytes, at most {MAX_FILE_BYTES}. Split the file."
        )
    return data


def replace_file(place: Place, data: bytes) -> int | None:
    """Give the file at ``place`` new content; return the size of the old one, ``None`` for a new file.

    Missing folders are made. The bytes go to a temporary file beside it, are flushed to disk and renamed, so a
    stop at any point leaves the old file whole. Mode bits stay.

    Raises:
        ToolFailure: NOT_REGULAR.
        OSError: as the disk says.
    """
    check_kind(place)
    folder = open_folder_beneath(place.root, place.parts[:-1], create=True)
    name = place.parts[-1]
    temporary = f".{secrets.token_hex(8)}.tmp"
    try:
        before = _writable_facts(folder, name, place)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=folder), "wb") as file:
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    finally:
        os.close(folder)
    return None if before is None else before.st_size


def _writable_facts(folder: int, name: str, place: Place) -> os.stat_result | None:
    """Return the facts of a file that may be written, ``None`` when there is none.

    A rename would replace a file that its owner protected, or a link that has just come; opening it for writing
    tells.
    """
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        raise wrong_kind(place, facts.st_mode)
    return facts


def append_to_file(place: Place, data: bytes) -> None:
    """Add ``data`` at the end of the file at ``place`` in one write, and flush it to disk.

    Raises:
        ToolFailure: NOT_REGULAR.
        OSError: as the disk says.
    """
    check_kind(place)
    folder = open_folder_beneath(place.root, place.parts[:-1], create=True)
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(place.parts[-1], flags, 0o666, dir_fd=folder), "ab", buffering=0) as file:
            file.write(data)
            os.fsync(file.fileno())
    finally:
        os.close(folder)
