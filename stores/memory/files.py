"""Find the Markdown files that are memory: curated files, ``memory/``, and extra paths.

Links are never followed. What cannot be listed is reported, so that a lost permission does not look like fewer notes.
Source: spec/memory.md 1.2 and 1.3, design decision 9.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from turngraph.memory_paths import LEGACY_ROOT_MEMORY, MEMORY_FOLDER, ROOT_MEMORY, USER_FILE
from turngraph.text import js_trim

REPAIR_FOLDER = ".openclaw-repair"


class ExtraPathSetting(Protocol):
    """An entry of ``memorySearch.extraPaths``."""

    @property
    def path(self) -> str | Path: ...

    @property
    def pattern(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ExtraPath:
    """One more folder or file, absolute; ``pattern`` limits a folder."""

    path: Path
    pattern: str | None = None

    def takes(self, relative: str) -> bool:
        """Tell whether the pattern fits a path below the folder."""
        return self.pattern is None or _glob(self.pattern).fullmatch(relative) is not None


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file to index: ``path`` relative to the workspace with ``/``, ``absolute``, size in bytes, time in ns."""

    path: str
    absolute: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, and one line for each place that could not be listed or is a link."""

    files: Mapping[str, MemoryFile]
    problems: tuple[str, ...] = ()


def extra_paths(workspace: Path, settings: Iterable[ExtraPathSetting]) -> tuple[ExtraPath, ...]:
    """Resolve the entries of ``extraPaths``: blanks and repetitions go, order stays.

    Source: spec/memory.md 1.2 step 4.
    """
    entries: dict[ExtraPath, None] = {}
    for setting in settings:
        text = js_trim(str(setting.path))
        pattern = js_trim(setting.pattern or "").replace("\\", "/") or None
        if text:
            path = Path(os.path.normpath(workspace / Path(text).expanduser()))
            entries[ExtraPath(path, pattern)] = None
    return tuple(entries)


def list_memory_files(workspace: Path, extra: Iterable[ExtraPath] = ()) -> Listing:
    """List every memory file, in the order curated, ``memory/``, extra paths; a file that is met twice counts once."""
    root = str(workspace)
    files: dict[str, MemoryFile] = {}
    real_paths: set[str] = set()
    problems: list[str] = []

    def add(absolute: str, facts: os.stat_result) -> None:
        if not absolute.isascii() and (shown := os.fsencode(absolute).decode("utf-8", "replace")) != absolute:
            problems.append(f"{shown} is not indexed: its name is no UTF-8; rename it")
            return
        real = os.path.realpath(absolute) if extra else absolute
        if real not in real_paths:
            real_paths.add(real)
            path = relative_path(root, absolute)
            files[path] = MemoryFile(path, absolute, facts.st_size, facts.st_mtime_ns)

    extra = tuple(extra)
    for name in _root_files(root, problems):
        with suppress(FileNotFoundError):
            facts = os.lstat(f"{root}/{name}")
            if stat.S_ISREG(facts.st_mode):
                add(f"{root}/{name}", facts)
    for absolute, facts in _walk(f"{root}/{MEMORY_FOLDER}".rstrip("/"), problems):
        add(absolute, facts)
    for entry in extra:
        for absolute, facts in _extra_files(entry, problems):
            add(absolute, facts)
    return Listing(files, tuple(problems))


def relative_path(root: str, absolute: str) -> str:
    """Return the index path of a file: below the workspace, or ``../...`` for extra paths elsewhere."""
    if absolute.startswith(f"{root}/"):
        return absolute[len(root) + 1 :]
    return os.path.relpath(absolute, root).replace(os.sep, "/")


def read_text(file: MemoryFile) -> tuple[str, bytes] | None:
    """Return a file's text without byte order mark and its bytes; ``None`` when it is gone or no regular file now."""
    try:
        descriptor = os.open(file.absolute, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = stream.read()
    return data.decode("utf-8", "replace").removeprefix("\ufeff"), data


def _root_files(root: str, problems: list[str]) -> list[str]:
    try:
        names = {path.name for path in Path(root).iterdir()}
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{root} cannot be listed: {error.strerror}")
        return []
    # The listing decides: on a volume that ignores case, asking for MEMORY.md would find memory.md.
    curated = ROOT_MEMORY if ROOT_MEMORY in names else LEGACY_ROOT_MEMORY
    return [name for name in (curated, USER_FILE) if name in names]


def _walk(folder: str, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    if Path(folder).is_symlink():
        problems.append(f"{folder} is a link and is not indexed; name the folder it leads to in extraPaths")
        return
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(f"{folder} cannot be listed: {error.strerror}")
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if entry.name != REPAIR_FOLDER:
                yield from _walk(entry.path, problems)
        elif entry.name.endswith(".md") and entry.is_file(follow_symlinks=False):
            try:
                yield entry.path, entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue


def _extra_files(entry: ExtraPath, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    absolute = str(entry.path)
    try:
        facts = os.lstat(absolute)
    except OSError as error:
        problems.append(f"extra path {absolute} cannot be read: {error.strerror}")
        return
    if stat.S_ISDIR(facts.st_mode):
        for path, found in _walk(absolute, problems):
            if entry.takes(path[len(absolute) + 1 :]):
                yield path, found
    elif stat.S_ISREG(facts.st_mode) and absolute.endswith(".md"):
        yield absolute, facts
    elif stat.S_ISLNK(facts.st_mode):
        problems.append(f"extra path {absolute} is a link and is not indexed; name what it leads to")


@lru_cache(maxsize=64)
def _glob(pattern: str) -> re.Pattern[str]:
    """Translate a glob with ``**``, ``*``, ``?`` and ``[...]``; ``*`` stays within one part of the path."""
    out = ""
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]|.", pattern):
        if token == "**/":
            out += "(?:.*/)?"
        elif token.startswith("["):
            out += token.replace("[!", "[^")
        else:
            out += {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token, re.escape(token))
    return re.compile(out)
