"""Session recovery: what a damaged ``sessions.json`` held, from its newest backup or from the transcripts beside it.

Reading only: the store renames the bad file when it next writes.
Source: spec/sessions.md 3.2 Choice, known-faults 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from stores.archives import STORE_NAME, Artifact, artifact
from stores.session_entries import Entry, parse_store
from stores.session_paths import is_session_id
from turngraph.clock import parse_iso, to_ms

HEADER_BYTES = 65_536  # most of a first line that is read to find the header


@dataclass(frozen=True, slots=True)
class Recovered:
    """Entries of a damaged store, and one sentence on where they come from."""

    entries: dict[str, Entry]
    source: str


def recover(folder: Path, agent_id: str, name: str = STORE_NAME) -> Recovered:
    """Return the entries of the newest readable backup, else what names and headers of transcripts tell."""
    for backup in newest_backups(folder, name):
        try:
            entries = parse_store(backup.read_bytes())
        except OSError:
            continue
        if entries is not None:
            return Recovered(entries, f"restored {len(entries)} entries from {backup.name}")
    entries = rebuild(folder, agent_id)
    return Recovered(entries, f"rebuilt {len(entries)} entries from transcripts")


def newest_backups(folder: Path, name: str = STORE_NAME) -> list[Path]:
    """Return the backups of a store, newest first."""
    if not folder.is_dir():
        return []
    found = []
    for path in folder.glob(f"{name}.bak*"):
        named = artifact(path.name)
        written = to_ms(named.at) if named.at else path.stat().st_mtime * 1000
        found.append((written, path))
    return [path for _, path in sorted(found, reverse=True)]


def rebuild(folder: Path, agent_id: str) -> dict[str, Entry]:
    """Make entries from the transcripts of a folder.

    A header of ours names its session key. Another transcript gets the key ``agent:<id>:session:<session id>``: which
    chat it belonged to cannot be known, and a guess could put one person's history before another.
    """
    entries: dict[str, Entry] = {}
    primaries = [found for path in folder.iterdir() if path.is_file() and (found := artifact(path.name)).is_primary]
    by_age = sorted(primaries, key=lambda found: (folder / found.name).stat().st_mtime, reverse=True)
    for found in by_age:
        session_id, topic = _name_parts(found)
        if not is_session_id(session_id):
            continue
        header = read_header(folder / found.name)
        own = header.get("turngraph")
        key = own.get("sessionKey") if isinstance(own, dict) else None
        if not isinstance(key, str) or key in entries:
            key = f"agent:{agent_id}:session:{session_id.lower()}" + (f":topic:{topic}" if topic else "")
        started = parse_iso(str(header.get("timestamp") or ""))
        entries[key] = {
            "sessionId": session_id,
            "sessionFile": found.name,
            "updatedAt": int((folder / found.name).stat().st_mtime * 1000),
            **({"sessionStartedAt": to_ms(started)} if started else {}),
        }
    return entries


def _name_parts(found: Artifact) -> tuple[str, str | None]:
    stem = found.name.removesuffix(".jsonl")
    session_id, marker, topic = stem.partition("-topic-")
    return session_id, unquote(topic) if marker else None


def read_header(path: Path) -> Mapping[str, Any]:
    """Return the header of a transcript; empty when its first line is none."""
    import orjson

    try:
        with path.open("rb") as file:
            first = file.readline(HEADER_BYTES)
        header = orjson.loads(first.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, ValueError):
        return {}
    return header if isinstance(header, dict) and header.get("type") == "session" else {}
