"""cycle: which compaction cycle a session is in, and whether this one has had its memory flush.

Source: spec/compaction.md 1.5, known-faults 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stores.transcript_entries import Entry


def compaction_count(entry: Mapping[str, Any] | None, path: Sequence[Entry]) -> int:
    """Return how often the session was compacted.

    The session entry counts; a process that was killed between the transcript and the session table has left the
    higher number in its compaction.
    """
    stored = (entry or {}).get("compactionCount")
    own = next((e.raw.get("turngraph") for e in reversed(path) if e.type == "compaction"), None)
    noted = own.get("count") if isinstance(own, dict) else None
    return max((int(n) for n in (stored, noted) if isinstance(n, (int, float)) and n > 0), default=0)


def is_flushed(entry: Mapping[str, Any], count: int) -> bool:
    """Whether the cycle after ``count`` compactions has had its flush."""
    flushed_at = entry.get("memoryFlushCompactionCount")
    return isinstance(flushed_at, (int, float)) and not isinstance(flushed_at, bool) and flushed_at == count
