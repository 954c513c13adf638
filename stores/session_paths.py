"""Session paths: which file is the transcript of a session, never one outside the sessions folder.

Source: spec/sessions.md 3.1.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from turngraph.errors import StoreError
from turngraph.session_keys import normalize_agent_id
from turngraph.text import js_trim

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
_GENERATED = re.compile(rf"(?:\d{{4}}-\d{{2}}-\d{{2}}T[0-9A-Za-z:.-]+_)?({_UUID})(?:-topic-.*)?\.jsonl")
_URI_KEPT = "-_.!~*'()"  # what encodeURIComponent keeps beside letters and digits

log = logging.getLogger("turngraph.sessions")


def is_session_id(text: str) -> bool:
    """Tell whether ``text`` can be a session id."""
    return _SESSION_ID.fullmatch(text) is not None


def transcript_name(session_id: str, topic: str | int | None = None) -> str:
    """Return the file name of a transcript; a topic or thread has one of its own.

    >>> transcript_name("s1", "a b/c")
    's1-topic-a%20b%2Fc.jsonl'

    Raises:
        StoreError: the id cannot be part of a file name.
    """
    if not is_session_id(session_id):
        raise StoreError(
            f"session id of {len(session_id)} characters is not usable: letters, digits, '.', '_', '-', at most 128, "
            "beginning with a letter or digit"
        )
    suffix = "" if topic is None else f"-topic-{quote(str(topic), safe=_URI_KEPT)}"
    return f"{session_id}{suffix}.jsonl"


def transcript_path(sessions_dir: Path, session_id: str, entry: Mapping[str, Any] | None = None) -> Path:
    """Return the transcript of a session: the file its entry names, if that is a transcript of this home.

    A path that leads out of the folder gives ``<session id>.jsonl`` and one line in the log. A folder that was copied
    from elsewhere holds old absolute paths: the file of that name in this folder is taken when it is the session's.

    Raises:
        StoreError: the session id is not usable.
    """
    default = sessions_dir / transcript_name(session_id)
    named = js_trim(str((entry or {}).get("sessionFile") or ""))
    if not named:
        return default
    path = Path(os.path.normpath(sessions_dir / named))
    if _lies_inside(path, sessions_dir) or _is_siblings(path, sessions_dir):
        return path
    moved = sessions_dir / Path(named).name
    if classify_transcript(moved.name, session_id) == "current" and moved.is_file():
        return moved
    log.warning("session %s: sessionFile lies outside %s; using %s", session_id, sessions_dir, default.name)
    return default


def _lies_inside(path: Path, folder: Path) -> bool:
    inside, root = path.resolve(), folder.resolve()
    return inside != root and inside.is_relative_to(root)


def _is_siblings(path: Path, sessions_dir: Path) -> bool:
    """Tell whether ``path`` is a transcript of another agent of the same home."""
    real, root = path.resolve(), sessions_dir.resolve()
    if root.name != "sessions" or len(root.parents) < 2 or root.parents[1].name != "agents":
        return False
    agents = root.parents[1]
    if not real.is_relative_to(agents):
        return False
    parts = real.relative_to(agents).parts
    return len(parts) == 3 and parts[1] == "sessions" and parts[0] == normalize_agent_id(parts[0])


def classify_transcript(name: str, session_id: str) -> Literal["current", "stale", "custom"]:
    """Tell whether a file name belongs to this session, to another one, or says nothing about it."""
    match = _GENERATED.fullmatch(Path(js_trim(name)).name)
    if match is None:
        return "custom"
    return "current" if match[1] == session_id else "stale"


def transcript_candidates(sessions_dir: Path, session_id: str, entry: Mapping[str, Any] | None = None) -> list[Path]:
    """Return the files that may hold a session's history, most likely first, existing or not."""
    named = transcript_path(sessions_dir, session_id, entry)
    default = sessions_dir / transcript_name(session_id)
    stale = classify_transcript(named.name, session_id) == "stale"
    ordered = [default, named] if stale else [named, default]
    return list(dict.fromkeys(ordered))
