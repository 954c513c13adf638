"""Create a workspace: its folder, its seed files from the package's templates, and the state of its setup.

Nothing is overwritten, and a workspace whose files vanished after its setup is not seeded again: an unmounted disk
looks like that. Source: spec/context.md section 2.8.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from stores.workspace import read_bootstrap_file
from turngraph.bootstrap_files import BOOTSTRAP, IDENTITY, SEED_FILES, USER
from turngraph.clock import iso_ms
from turngraph.errors import StoreError
from turngraph.memory_paths import ROOT_MEMORY
from turngraph.text import JS_SPACE

STATE_FILE = ".openclaw/workspace-state.json"  # OpenClaw's own name: both programs keep the same state
GIT_INIT_TIMEOUT_S = 10.0


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
    if os.path.lexists(workspace / name):
        return False
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
