"""Whose transcripts a session may see among its hits (``tools.sessions.visibility``).

Source: spec/memory.md 4.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from stores.archives import artifact

Visibility = Literal["self", "tree", "agent", "all"]


def sight(
    visibility: Visibility, own_key: str, entries: Mapping[str, Mapping[str, Any]]
) -> Callable[[str], bool] | None:
    """Return what tells whether the session ``own_key`` may find a transcript; ``None`` when it may find every one.

    ``self`` shows its own transcripts, ``tree`` also those of sessions that it spawned, ``agent`` and ``all`` every
    one of the agent, of known sessions or not.

    Args:
        entries: the table of sessions. What is returned takes ``sessions/<transcript>``, as hits name it.
    """
    if visibility in ("agent", "all"):
        return None
    shown = {
        entry.get("sessionId")
        for key, entry in entries.items()
        if key == own_key or (visibility == "tree" and entry.get("spawnedBy") == own_key)
    } - {None}
    return lambda path: artifact(PurePosixPath(path).name).session_id in shown
