"""Session notes on disk: ``memory/<date>-<name>.md`` of a workspace, never over an existing one.

Source: spec/sessions.md 6.5.
"""

from __future__ import annotations

import os
from pathlib import Path

from stores.archives import sync_folder
from turngraph.errors import StoreError

MOST_OF_A_NAME = 1_000  # notes of one day and name


def write_note(workspace: Path, stem: str, content: str) -> str:
    """Write a note and return its path below the workspace; a taken name gets ``-2``, ``-3`` and so on.

    Raises:
        StoreError: the memory folder leads out of the workspace, or every name is taken.
        OSError: the disk refuses.
    """
    folder = workspace / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    if not folder.resolve().is_relative_to(workspace.resolve()):
        raise StoreError(f"{folder} leads out of the workspace; no note is written there")
    for number in range(1, MOST_OF_A_NAME):
        name = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        try:
            descriptor = os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(folder)
        return f"memory/{name}"
    raise StoreError(f"{folder} holds {MOST_OF_A_NAME} notes named {stem}; nothing is written")
