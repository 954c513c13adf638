"""Which transcripts are indexed, for whom, and when a grown one is due.

Source: spec/sessions.md 7.1 and 7.4, design decision 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from stores.archives import artifact
from stores.memory.files import MemoryFile
from stores.memory.prepare import AGENT_SCOPE
from turngraph.session_keys import chat_type, is_cron, is_heartbeat, is_subagent, parse_key, thread_parent

SESSIONS_FOLDER = "sessions/"
NOBODY = "?"  # scope of a session whose peer is not known while direct messages are separated
_HELPER_SESSIONS = ("slug-generator", "hook:", "dreaming")
_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A transcript to index: its file, who may find it, what kind of session it is, and who spoke in it."""

    file: MemoryFile
    scope: str
    kind: str
    origin: str


def live_path(path: str) -> str:
    """Return the index path that a transcript has, or had before it was archived.

    >>> live_path("sessions/s1.jsonl.reset.2026-03-16T09-40-00.000Z")
    'sessions/s1.jsonl'
    """
    return SESSIONS_FOLDER + artifact(path.removeprefix(SESSIONS_FOLDER)).base


def scope_of(session_key: str, *, separated: bool) -> str:
    """Return the scope that chats of a session key may search besides the agent's.

    Args:
        session_key: any key; threads count as their chat.
        separated: whether direct messages of different people are kept apart (``session.dmScope`` is not ``main``).
    """
    key = thread_parent(session_key) or session_key
    parsed = parse_key(key)
    if not separated or parsed is None or chat_type(key) != "direct":
        return AGENT_SCOPE
    return parsed.rest


def list_session_files(
    sessions_dir: Path, keys_by_session: Mapping[str, str], *, separated: bool, include_subagents: bool
) -> dict[str, SessionFile]:
    """List transcripts and reset archives by index path; jobs, heartbeats, sub-agents and helpers are left out.

    Args:
        sessions_dir: the agent's folder of transcripts.
        keys_by_session: session id -> session key, as ``sessions.json`` has it.
        separated: as for :func:`scope_of`.
        include_subagents: index transcripts of sub-agents too.
    """
    found: dict[str, SessionFile] = {}
    if not sessions_dir.is_dir():
        return found
    for path in sorted(sessions_dir.iterdir()):
        named = artifact(path.name)
        if named.session_id is None or named.reason == "deleted" or path.is_symlink():
            continue
        with suppress(FileNotFoundError):
            facts = path.stat()
            key = keys_by_session.get(named.session_id.split("-topic-")[0], "")
            if not path.is_file() or not _counts(key, include_subagents=include_subagents):
                continue
            scope = scope_of(key, separated=separated) if key or not separated else NOBODY
            file = MemoryFile(f"{SESSIONS_FOLDER}{path.name}", str(path), facts.st_size, facts.st_mtime_ns)
            shared = chat_type(key) in ("group", "channel")
            kind = "subagent" if is_subagent(key) else "interactive" if key else "unknown"
            found[file.path] = SessionFile(file, scope, kind, "untrusted" if shared else "owner")
    return found


def _counts(key: str, *, include_subagents: bool) -> bool:
    if is_cron(key) or is_heartbeat(key) or (is_subagent(key) and not include_subagents):
        return False
    parsed = parse_key(key)
    return parsed is None or not parsed.rest.startswith(_HELPER_SESSIONS)


@dataclass(frozen=True, slots=True)
class Growth:
    """What a transcript has gained since it was indexed.

    Attributes:
        size: bytes when it was last looked at.
        pending_bytes, pending_messages: gained and not indexed.
    """

    size: int = 0
    pending_bytes: int = 0
    pending_messages: int = 0


def grow(growth: Growth, path: Path, delta_bytes: int, delta_messages: int) -> Growth:
    """Look at a transcript again; a shorter file counts as new.

    New lines are only counted while bytes alone do not make it due: that reads the grown part, in 64 KiB pieces.
    """
    size = path.stat().st_size
    start = growth.size if size >= growth.size else 0
    pending = growth.pending_bytes + size - start
    messages = growth.pending_messages
    if delta_messages > 0 and (delta_bytes <= 0 or pending < delta_bytes):
        messages += _count_lines(path, start, size)
    return replace(growth, size=size, pending_bytes=pending, pending_messages=messages)


def growth_is_due(growth: Growth, delta_bytes: int, delta_messages: int) -> bool:
    """Whether a transcript has grown enough to be indexed again; a threshold of 0 means any growth."""
    by_bytes = growth.pending_bytes >= delta_bytes if delta_bytes > 0 else growth.pending_bytes > 0
    by_messages = growth.pending_messages >= delta_messages if delta_messages > 0 else growth.pending_messages > 0
    return by_bytes or by_messages


def _count_lines(path: Path, start: int, end: int) -> int:
    lines = 0
    with path.open("rb") as stream:
        stream.seek(start)
        left = end - start
        while left > 0 and (piece := stream.read(min(_READ_BYTES, left))):
            lines += piece.count(b"\n")
            left -= len(piece)
    return lines
