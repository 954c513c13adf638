"""Read files of a folder that others may write to, without being led out of it.

A path is resolved first and then opened part by part below the folder, never through a link, so what was checked
is what is read even when somebody swaps a link in between.
Source: spec/context.md section 2.2, spec/tools.md section 1.3, known-faults 8.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from turngraph.errors import StoreError

GuardKind = Literal["path", "validation", "io"]
BOOTSTRAP_MAX_BYTES = 2 * 1024 * 1024  # spec/context.md section 2.2


class GuardError(StoreError):
    """A file that is not there (``path``), is refused (``validation``) or cannot be read (``io``)."""

    def __init__(self, kind: GuardKind, message: str) -> None:
        self.kind: GuardKind = kind
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class GuardedFile:
    """A file as it was read.

    Attributes:
        data: its bytes.
        path: real path, relative to the folder, with ``/``.
        identity: changes whenever the file does (device, inode, size, time): a key for caches.
    """

    data: bytes
    path: str
    identity: str

    @property
    def text(self) -> str:
        """The bytes as UTF-8, invalid ones as U+FFFD."""
        return self.data.decode("utf-8", "replace")


def real_parts(root: Path, path: str | Path) -> tuple[str, ...]:
    """Return the real path of ``path`` as parts below the real path of ``root``.

    Links inside are followed; parts that do not exist yet are taken as they are.

    Raises:
        GuardError: ``validation`` when it leads out of ``root``.
    """
    real_root = os.path.realpath(root)
    real = os.path.realpath(Path(real_root) / path)
    if not PurePosixPath(real).is_relative_to(real_root):
        raise GuardError("validation", "the path leads out of its folder")
    return PurePosixPath(real).relative_to(real_root).parts


def open_beneath(root: Path, parts: tuple[str, ...], flags: int, mode: int = 0o666) -> int:
    """Open ``root/parts`` without following a link in any part; return the descriptor.

    Raises:
        OSError: as ``open`` does; ``ELOOP`` or ``ENOTDIR`` where a part became a link.
    """
    folder = open_folder_beneath(root, parts[:-1])
    try:
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)


def open_folder_beneath(root: Path, parts: tuple[str, ...], *, create: bool = False) -> int:
    """Open the folder ``root/parts`` without following a link; with ``create`` missing folders are made."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(os.path.realpath(root), flags)
    for part in parts:
        try:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def read_guarded(root: Path, path: str | Path, max_bytes: int = BOOTSTRAP_MAX_BYTES) -> GuardedFile:
    """Read a regular file below ``root`` that has one name and at most ``max_bytes``.

    Raises:
        GuardError: not there, refused (leads out, no regular file, hard link, too large), or unreadable.
    """
    parts = real_parts(root, path)
    shown = "/".join(parts)
    try:
        descriptor = open_beneath(root, parts, os.O_RDONLY | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        raise GuardError("path", f"{shown} does not exist") from None
    except OSError as error:
        raise GuardError("io", f"{shown} cannot be opened: {error.strerror}") from error
    try:
        facts = os.fstat(descriptor)
        if refused := _refusal(facts, max_bytes):
            raise GuardError("validation", f"{shown} {refused}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise GuardError("io", f"{shown} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise GuardError("validation", f"{shown} has more than {max_bytes} bytes")
    return GuardedFile(data, shown, f"{facts.st_dev}:{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}")


def _refusal(facts: os.stat_result, max_bytes: int) -> str | None:
    if not stat.S_ISREG(facts.st_mode):
        return f"is a {file_kind(facts.st_mode)}, not a regular file"
    if facts.st_nlink > 1:
        return f"has {facts.st_nlink} hard links"
    if facts.st_size > max_bytes:
        return f"has {facts.st_size} bytes, more than {max_bytes}"
    return None


def file_kind(mode: int) -> str:
    """Name the kind of file that ``mode`` bits describe."""
    for test, name in (
        (stat.S_ISDIR, "folder"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISCHR, "device"),
        (stat.S_ISBLK, "device"),
        (stat.S_ISLNK, "link"),
    ):
        if test(mode):
            return name
    return "file"
