"""Read the SKILL.md files of a workspace under guard (spec/tools.md section 9.1)."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path

from stores.guarded_read import GuardError, read_guarded

MAX_SKILL_BYTES = 256_000
SKILLS_FOLDER = "skills"
SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A SKILL.md file as it was found.

    Attributes:
        folder: name of its folder under ``skills``.
        text: its content, ``None`` when it was refused.
        fault: why it was refused.
    """

    folder: str
    text: str | None
    fault: str | None = None


def read_skill_files(workspace: Path) -> tuple[SkillFile, ...]:
    """Read ``skills/*/SKILL.md`` in the order of their folders; folders without the file are left out."""
    try:
        folders = sorted(entry.name for entry in (workspace / SKILLS_FOLDER).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    files = (_read(workspace, folder) for folder in folders)
    return tuple(file for file in files if file is not None)


def _read(workspace: Path, folder: str) -> SkillFile | None:
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in folder):
        return SkillFile(folder.encode("utf-8", "replace").decode("utf-8"), None, "its folder name is no plain text")
    try:
        file = read_guarded(workspace, f"{SKILLS_FOLDER}/{folder}/{SKILL_FILE}", MAX_SKILL_BYTES)
    except GuardError as error:
        return None if error.kind == "path" else SkillFile(folder, None, str(error))
    return SkillFile(folder, file.text)
