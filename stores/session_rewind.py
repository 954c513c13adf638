"""Going back: make an earlier entry the end of a session again; nothing of the transcript is removed.

Source: design decision 4, the issue Compaction (`turngraph sessions rewind`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stores.sessions import SessionStore
from stores.transcripts import Transcript


@dataclass(frozen=True, slots=True)
class Rewound:
    """What a rewind did: the old end and the new one, and how many messages are in sight before and after."""

    key: str
    left_id: str | None
    leaf_id: str
    messages_before: int
    messages_after: int


async def rewind_session(store: SessionStore, key: str, entry_id: str, *, timeout_ms: int) -> Rewound:
    """Make ``entry_id`` the newest entry of a session's active branch, durably and for other readers too.

    The entry may lie before a compaction: what that had folded is in sight again.

    Raises:
        NotFound: there is no such session or entry.
        SessionBusy: a turn runs on the session for longer than ``timeout_ms``.
    """
    async with store.turn(key, timeout_ms=timeout_ms, purpose="rewind"):
        entry: Any = store.get(key)
        transcript = Transcript.open(
            store.transcript_of(entry), session_id=str(entry.get("sessionId", "")), clock=store.clock, ids=store.ids
        )
        left_id, before = transcript.leaf_id, len(transcript.context().messages)
        transcript.move_leaf(entry_id)
        after = len(transcript.context().messages)
        store.update(key, {"totalTokensFresh": False}, touch=False)
    return Rewound(key, left_id, entry_id, before, after)
