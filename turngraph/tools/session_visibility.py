"""Whose transcripts a session may see among its hits (``tools.sessions.visibility``).

Source: spec/memory.md 4.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from stores.archives import artifact

Visibility = Literal["self", "tree", "agent", "all"]


def may_see(visibility: Visibility, own_key: str, path: str, entries: Mapping[str, Mapping[str, Any]]) -> bool:
    """Tell whether the session ``own_key`` may see a hit in a transcript.

    ``self`` shows its own transcripts, ``tree`` also those of sessions that it spawned, ``agent`` and ``all`` every
    one of the agent. A transcript of no known session is shown under the last two only.

    Args:
        path: ``sessions/<transcript>`` as hits name it.
        entries: the table of sessions.
    """
    if visibility in ("agent", "all"):
        return True
    session_id = artifact(PurePosixPath(path).name).session_id
    key = next((key for key, entry in entries.items() if session_id and entry.get("sessionId") == session_id), None)
    if key is None:
        return False
    return key == own_key or (visibility == "tree" and entries[key].get("spawnedBy") == own_key)
