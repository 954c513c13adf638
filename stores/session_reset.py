"""Session reset: a key gets a new session id, and the transcript of the old one becomes an archive.

The table is written first: a crash in between leaves the old transcript where it was, never a table that points to a
file that is gone.
Source: spec/sessions.md 2.4 steps 6, 10 and 12, and 6.2; known-faults 1.2 and 1.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from stores.archives import archive_file
from stores.session_entries import Entry, Lookup, find_entry, merge_entry
from stores.session_paths import is_session_id, transcript_candidates, transcript_name
from stores.sessions import SessionStore, put_entry
from turngraph.clock import to_ms
from turngraph.errors import NotFound, StoreError

# What a session id counted and remembered does not go over to the next one.
_ENDS_WITH_SESSION = frozenset(
    {
        "totalTokens",
        "totalTokensFresh",
        "inputTokens",
        "outputTokens",
        "cacheRead",
        "cacheWrite",
        "estimatedCostUsd",
        "contextTokens",
        "memoryFlushAt",
        "memoryFlushCompactionCount",
        "memoryFlushContextHash",
        "memoryFlushFailureCount",
        "memoryFlushLastFailedAt",
        "memoryFlushLastFailureError",
        "sessionFile",
        "forkedFromParent",
        "resetReason",
        "skillsSnapshot",
        "systemPromptReport",
    }
)
_OVERRIDES = {
    "modelOverrideSource": ("modelOverride", "providerOverride", "modelOverrideSource"),
    "authProfileOverrideSource": (
        "authProfileOverride",
        "authProfileOverrideSource",
        "authProfileOverrideCompactionCount",
    ),
}


@dataclass(frozen=True, slots=True)
class ResetDone:
    """A reset that has happened."""

    session_id: str
    previous_id: str | None
    archived: Path | None


def next_session(entry: Entry | None, session_id: str, reason: str | None, now: datetime) -> dict[str, Any]:
    """Return the entry of a new session: the user's choices stay, what the old session counted goes.

    A model that a program chose goes too; one that the user chose stays, on a command and overnight alike.
    """
    old = dict(entry or {})
    kept = {name: value for name, value in old.items() if name not in _ENDS_WITH_SESSION}
    for source, names in _OVERRIDES.items():
        if kept.get(source) == "auto":
            kept = {name: value for name, value in kept.items() if name not in names}
    fresh: dict[str, Any] = {
        "sessionId": session_id,
        "sessionStartedAt": to_ms(now),
        "systemSent": False,
        "abortedLastRun": False,
        "compactionCount": 0,
    }
    if reason is not None:
        fresh["resetReason"] = reason
        if old.get("sessionId"):
            fresh["previousSessionId"] = old["sessionId"]
    return {**kept, **fresh}


async def reset_session(store: SessionStore, key: str, *, timeout_ms: int, reason: str = "reset") -> ResetDone:
    """End the session of a key from outside a turn; waits for a running turn to end.

    Raises:
        NotFound: there is no such session.
        SessionBusy: its turn runs for longer than ``timeout_ms``.
        StoreError: the transcript could not be archived; the session goes on as it was.
    """
    async with store.turn(key, timeout_ms=timeout_ms, purpose="reset"):
        now = store.clock.now()
        with store.transaction(timeout_ms=timeout_ms) as entries:
            before = find_entry(entries, key)
            if before.entry is None:
                raise NotFound(f"no session {key!r} in {store.path}; `turngraph sessions list` shows the keys")
            changed = next_session(before.entry, store.ids.uuid(), reason, now)
            changed["sessionFile"] = transcript_name(changed["sessionId"], before.entry.get("lastThreadId"))
            put_entry(entries, before, merge_entry(None, changed, now_ms=to_ms(now), new_id=store.ids.uuid))
        archived = set_aside(store, before, now)
    old = before.entry.get("sessionId")
    return ResetDone(changed["sessionId"], str(old) if old else None, archived[0] if archived else None)


def set_aside(store: SessionStore, before: Lookup, now: datetime) -> list[Path]:
    """Archive the transcript of a session that the table no longer names; return the archives.

    Args:
        store: the table, already written with the new session.
        before: what it held before.
        now: time for the archive's name.

    Raises:
        StoreError: a rename failed; the old entry and the old names are back.
    """
    done: list[tuple[Path, Path]] = []
    try:
        for path in unused_files(store, before):
            done.append((path, archive_file(path, "reset", now)))
    except OSError as error:
        for original, archive in done:
            archive.rename(original)
        with store.transaction() as entries:
            entries.pop(before.key, None)
            if before.entry is not None:
                entries[before.key] = before.entry
        raise StoreError(
            f"the reset failed: a transcript in {store.folder} could not be archived ({error.strerror}); the session "
            "goes on as it was. Check the folder and try again."
        ) from error
    return [archive for _, archive in done]


def unused_files(store: SessionStore, before: Lookup) -> list[Path]:
    """Return the transcript files of an ended session that no other entry uses."""
    users = {path for key, entry in store.entries().items() if key != before.key for path in files_of(store, entry)}
    return [path for path in files_of(store, before.entry or {}) if path not in users and path.is_file()]


def files_of(store: SessionStore, entry: Entry) -> list[Path]:
    """Return the files that may be the transcript of an entry; none when its session id is not usable."""
    session_id = str(entry.get("sessionId") or "")
    return transcript_candidates(store.folder, session_id, entry) if is_session_id(session_id) else []
