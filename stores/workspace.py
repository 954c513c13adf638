"""The workspace folder: reads bootstrap files, extra files and daily notes under guard; never writes.

Source: spec/context.md sections 2.1, 2.2 and 2.7, design decision 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Literal

from stores.guarded_read import GuardError, read_guarded
from turngraph.bootstrap_files import KNOWN_NAMES, LOAD_ORDER, MEMORY_NAMES, BootstrapFile
from turngraph.memory_paths import MEMORY_FOLDER
from turngraph.text import JS_SPACE, head

FAULT_CHARS = 300  # spec/context.md 2.1: longest reason in an [UNREADABLE: ...] entry
KEPT_SESSIONS = 256  # sessions whose files are kept in memory; one that falls out is read again

DiagnosticReason = Literal["invalid-bootstrap-filename", "missing", "security", "io"]
_REASONS: Mapping[str, DiagnosticReason] = {"path": "missing", "validation": "security", "io": "io"}
_GLOB = re.compile(r"[*?{]")
_BRACES = re.compile(r"\{([^{}]*)\}")


# Reading


def read_bootstrap_file(workspace: Path, path: str) -> BootstrapFile:
    """Read one file: its text, nothing when it is not there, or a line that says why it is not readable."""
    name = PurePosixPath(path).name
    try:
        return BootstrapFile(name, path, read_guarded(workspace, path).text)
    except GuardError as error:
        if error.kind == "path":
            return BootstrapFile(name, path)
        fault = head(" ".join(str(error).split()), FAULT_CHARS)
        return BootstrapFile(name, path, f"[UNREADABLE: {fault}]", fault)


def load_bootstrap_files(workspace: Path) -> tuple[BootstrapFile, ...]:
    """Read the bootstrap files in prompt order, then one memory file: ``MEMORY.md``, else ``memory.md``, else none."""
    found = [read_bootstrap_file(workspace, name) for name in LOAD_ORDER]
    memory = (read_bootstrap_file(workspace, name) for name in MEMORY_NAMES)
    found += [file for file in memory if not file.missing][:1]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An extra file that was not loaded, and why."""

    path: str
    reason: DiagnosticReason


@dataclass(frozen=True, slots=True)
class ExtraFiles:
    """The extra bootstrap files that the settings name."""

    files: tuple[BootstrapFile, ...]
    diagnostics: tuple[Diagnostic, ...]


def load_extra_files(workspace: Path, patterns: Sequence[str]) -> ExtraFiles:
    """Read the files that ``patterns`` name, relative to the workspace; only known bootstrap names are taken.

    A pattern with ``*``, ``?`` or ``{a,b}`` is matched against the workspace, each path is taken once.
    """
    loaded: dict[str, BootstrapFile] = {}
    diagnostics: dict[str, Diagnostic] = {}
    for path in _named_paths(workspace, patterns):
        if path in loaded or path in diagnostics:
            continue
        if _leaves(path):
            diagnostics[path] = Diagnostic(path, "security")
        elif PurePosixPath(path).name not in KNOWN_NAMES:
            diagnostics[path] = Diagnostic(path, "invalid-bootstrap-filename")
        else:
            try:
                loaded[path] = BootstrapFile(PurePosixPath(path).name, path, read_guarded(workspace, path).text)
            except GuardError as error:
                diagnostics[path] = Diagnostic(path, _REASONS[error.kind])
    return ExtraFiles(tuple(loaded.values()), tuple(diagnostics.values()))


def _named_paths(workspace: Path, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in (text.strip(JS_SPACE).replace("\\", "/") for text in patterns):
        if not pattern:
            continue
        if PurePosixPath(pattern).is_relative_to(workspace):
            pattern = PurePosixPath(pattern).relative_to(workspace).as_posix()
        if not _GLOB.search(pattern) or _leaves(pattern):
            yield str(PurePosixPath(pattern))
            continue
        for one in _alternatives(pattern):
            with suppress(ValueError, NotImplementedError, OSError):
                yield from sorted(match.relative_to(workspace).as_posix() for match in workspace.glob(one))


def _leaves(pattern: str) -> bool:
    depth = 0
    for part in PurePosixPath(pattern).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            return True
    return False


def _alternatives(pattern: str) -> list[str]:
    found = _BRACES.search(pattern)
    if not found:
        return [pattern]
    before, behind = pattern[: found.start()], pattern[found.end() :]
    return [one for part in found[1].split(",") for one in _alternatives(f"{before}{part}{behind}")]


@dataclass(frozen=True, slots=True)
class DailyNote:
    """A note of one day; ``text`` is ``None`` when it was not read, and ``fault`` says why."""

    path: str
    text: str | None
    fault: str = ""


def read_daily_notes(workspace: Path, days: Sequence[date], max_bytes: int) -> tuple[DailyNote, ...]:
    """Read ``memory/<day>.md`` and ``memory/<day>-*.md`` of ``days``, in their order, the plain one first."""
    notes = []
    for day in days:
        folder = workspace / MEMORY_FOLDER
        found = (*folder.glob(f"{day.isoformat()}.md"), *sorted(folder.glob(f"{day.isoformat()}-*.md")))
        for name in (note.name for note in found):
            path = f"{MEMORY_FOLDER}{name}"
            try:
                notes.append(DailyNote(path, read_guarded(workspace, path, max_bytes).text))
            except GuardError as error:
                notes.append(DailyNote(path, None, str(error)))
    return tuple(notes)


@dataclass(slots=True)
class Snapshots:
    """What a running session has read of its workspace, kept until the session id changes.

    An edit of a bootstrap file would change the system prompt and so empty the provider's cache in the middle of a
    conversation; :meth:`refresh` is the explicit way. Source: spec/context.md 2.2.
    """

    _kept: dict[tuple[Path, str], tuple[str, tuple[BootstrapFile, ...]]] = field(default_factory=dict)

    def files(
        self, workspace: Path, session_key: str, session_id: str, load: Callable[[], tuple[BootstrapFile, ...]]
    ) -> tuple[BootstrapFile, ...]:
        """Return the files this session began with, or ``load`` them."""
        known = self._kept.pop((workspace, session_key), None)
        if known is None or known[0] != session_id:
            known = (session_id, load())
        self._kept[(workspace, session_key)] = known  # the newest stands last
        if len(self._kept) > KEPT_SESSIONS:
            del self._kept[next(iter(self._kept))]
        return known[1]

    def refresh(self, workspace: Path) -> None:
        """Forget what was read of ``workspace``: the next turn of each session reads again."""
        self._kept = {key: value for key, value in self._kept.items() if key[0] != workspace}


snapshots = Snapshots()  # one for the process: a session that comes back finds its files
