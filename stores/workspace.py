"""The workspace folder: reads its bootstrap files under guard and creates it from templates.

Reading never writes. Creating never overwrites a file, and does not seed again a workspace whose files vanished after
its setup (an unmounted disk looks like that). Source: spec/context.md sections 2.1, 2.2, 2.7, 2.8.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from stores.guarded_read import GuardError, read_guarded
from turngraph.bootstrap_files import (
    BOOTSTRAP,
    IDENTITY,
    KNOWN_NAMES,
    LOAD_ORDER,
    MEMORY_NAMES,
    SEED_FILES,
    USER,
    BootstrapFile,
)
from turngraph.clock import iso_ms
from turngraph.errors import StoreError
from turngraph.memory_paths import ROOT_MEMORY
from turngraph.text import JS_SPACE, head

FAULT_CHARS = 300  # spec/context.md 2.1: longest reason in an [UNREADABLE: ...] entry
STATE_FILE = ".openclaw/workspace-state.json"  # OpenClaw's own name: both programs keep the same state
GIT_INIT_TIMEOUT_S = 10.0

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
        known = self._kept.get((workspace, session_key))
        if known is None or known[0] != session_id:
            known = (session_id, load())
            self._kept[(workspace, session_key)] = known
        return known[1]

    def refresh(self, workspace: Path) -> None:
        """Forget what was read of ``workspace``: the next turn of each session reads again."""
        self._kept = {key: value for key, value in self._kept.items() if key[0] != workspace}


snapshots = Snapshots()  # one for the process: a session that comes back finds its files


# Creating


@dataclass(frozen=True, slots=True)
class WorkspaceReport:
    """What :func:`ensure_workspace` did.

    Attributes:
        created: names of the files it wrote.
        vanished: whether the setup is complete by the state file and all seed files are gone; then nothing was done.
    """

    created: tuple[str, ...] = ()
    vanished: bool = False


def ensure_workspace(workspace: Path, now: datetime, *, seed: bool = True) -> WorkspaceReport:
    """Create the folder, the seed files that are absent, and ``BOOTSTRAP.md`` for a workspace nobody used yet.

    Raises:
        StoreError: a template of the package is missing, or the folder cannot be written.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    if not seed:
        return WorkspaceReport()
    state, stored = read_state(workspace)
    present = [name for name in SEED_FILES if os.path.lexists(workspace / name)]
    if "setupCompletedAt" in state and not present:
        return WorkspaceReport(vanished=True)
    brand_new = not present and not _has_user_content(workspace)
    created = [name for name in SEED_FILES if _write_template(workspace, name)]
    if _advance(workspace, state, now):
        created.append(BOOTSTRAP)
    if state != stored:
        _write_state(workspace, state)
    if brand_new:
        _git_init(workspace)
    return WorkspaceReport(tuple(created))


def _advance(workspace: Path, state: dict[str, Any], now: datetime) -> bool:
    """Bring the setup state up to date; return whether ``BOOTSTRAP.md`` was written."""
    waiting = os.path.lexists(workspace / BOOTSTRAP)
    if waiting:
        state.setdefault("bootstrapSeededAt", iso_ms(now))
    elif "setupCompletedAt" in state:
        return False
    elif "bootstrapSeededAt" in state or _is_used(workspace):
        state["setupCompletedAt"] = iso_ms(now)
    elif _write_template(workspace, BOOTSTRAP):
        state["bootstrapSeededAt"] = iso_ms(now)
        return True
    return False


def read_state(workspace: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the setup state in its present spelling, and as it is stored; a damaged file counts as empty."""
    try:
        stored = json.loads((workspace / STATE_FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        stored = {}
    if not isinstance(stored, dict):
        stored = {}
    state = {"version": 1} | {key: value for key, value in stored.items() if key != "onboardingCompletedAt"}
    if isinstance(stored.get("onboardingCompletedAt"), str):
        state.setdefault("setupCompletedAt", stored["onboardingCompletedAt"])
    return state, stored if stored else {"version": 1}


def _write_state(workspace: Path, state: Mapping[str, Any]) -> None:
    path = workspace / STATE_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(state, indent=2, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def template(name: str) -> str:
    """Return the text of a seed file as the package has it, without front matter.

    Raises:
        StoreError: the package has no such template.
    """
    source = files("turngraph").joinpath("templates", name)
    try:
        return strip_front_matter(source.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"the package has no template {name}; reinstall turngraph") from error


def strip_front_matter(text: str) -> str:
    """Drop a leading block between ``---`` lines and the blanks behind it; an unterminated block stays.

    >>> strip_front_matter("---\\ntitle: x\\n---\\n\\n# Hi\\n")
    '# Hi\\n'
    """
    if not text.startswith("---"):
        return text
    end = text.find("\n---", 3)
    return text if end < 0 else text[end + len("\n---") :].lstrip(JS_SPACE)


def _write_template(workspace: Path, name: str) -> bool:
    text = template(name)
    try:
        with (workspace / name).open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _has_user_content(workspace: Path) -> bool:
    return any(os.path.lexists(workspace / name) for name in ("memory", ROOT_MEMORY, ".git"))


def _is_used(workspace: Path) -> bool:
    """Whether somebody made the workspace theirs: memory, a repository, or another identity or user file."""
    if _has_user_content(workspace):
        return True
    own = (read_bootstrap_file(workspace, name) for name in (IDENTITY, USER))
    return any(file.content not in (None, template(file.name)) for file in own)


def _git_init(workspace: Path) -> None:
    git = shutil.which("git")
    if git is None:
        return
    # A workspace without version control works; that is why a failure is not told.
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(  # the command and its argument are ours
            [git, "init", "--quiet"],
            cwd=workspace,
            check=False,
            capture_output=True,
            timeout=GIT_INIT_TIMEOUT_S,
        )
