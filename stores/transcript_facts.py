"""Facts of one transcript for lists, and its lines for display.

Source: spec/sessions.md 4.7 (listing facts) and 7.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stores.transcript_entries import Entry, Raw
from stores.transcripts import Transcript
from turngraph.clock import Clock, Ids, from_ms, parse_iso
from turngraph.messages import Message

NO_MESSAGES = "(no messages)"
_LATEST_MS = 253_402_300_799_000  # the last second of year 9999; anything later is no time


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """What a list of sessions says of one transcript.

    Attributes:
        session_id, cwd, name: of the header and the last session info.
        message_count: stored messages of every role, on all branches.
        first_message: text of the first user message, ``(no messages)`` when there is none.
        text: all texts of users and answers, joined by a space.
        created: time of the header; modified: newest user or assistant message.
    """

    session_id: str
    cwd: str | None
    name: str | None
    message_count: int
    first_message: str
    text: str
    created: datetime | None
    modified: datetime


def summarise_transcript(path: Path, *, clock: Clock, ids: Ids) -> SessionSummary:
    """Read a transcript whole and sum it up.

    Raises:
        TranscriptError: the file cannot be read.
    """
    transcript = Transcript.open(path, session_id=path.stem, clock=clock, ids=ids, full=True, read_only=True)
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC) if path.exists() else clock.now()
    name = transcript.context().name
    return summarise(transcript.header, transcript.entries(), name=name, changed=changed)


def summarise(header: Raw, entries: Iterable[Entry], *, name: str | None, changed: datetime) -> SessionSummary:
    """Sum up the entries of a transcript.

    Args:
        header: of the file.
        entries: all of them, in file order.
        name: of the session.
        changed: when the file was last changed; stands in where neither messages nor header tell a time.
    """
    spoken: list[str] = []
    first: str | None = None
    count = 0
    newest_ms = 0.0
    for entry in entries:
        if entry.message is None:
            continue
        count += 1
        message = Message(entry.message)
        if message.role not in ("user", "assistant"):
            continue
        newest_ms = max(newest_ms, message.timestamp_ms or entry.at_ms)
        text = spoken_text(message)
        if text:
            spoken.append(text)
            if first is None and message.role == "user":
                first = text
    created = parse_iso(str(header.get("timestamp", "")))
    cwd = header.get("cwd")
    return SessionSummary(
        session_id=str(header.get("id", "")),
        cwd=cwd if isinstance(cwd, str) else None,
        name=name,
        message_count=count,
        first_message=first or NO_MESSAGES,
        text=" ".join(spoken),
        created=created,
        modified=from_ms(newest_ms) if 0 < newest_ms <= _LATEST_MS else created or changed,
    )


def spoken_text(message: Message) -> str:
    """Return the text blocks of a message, joined by a space."""
    return " ".join(str(block.get("text", "")) for block in message.blocks if block.get("type") == "text")


def display_messages(entries: Sequence[Entry], limit: int = 200) -> list[dict[str, Any]]:
    """Return the last messages for display, oldest first, each with ``seq`` (from 1 over all of them) and ``id``.

    A compaction is shown as a system message with the text ``Compaction``.
    """
    shown: list[dict[str, Any]] = []
    for entry in entries:
        if entry.message is not None:
            shown.append({"seq": len(shown) + 1, "id": entry.id, "message": entry.message})
        elif entry.type == "compaction":
            marker = {"role": "system", "content": [{"type": "text", "text": "Compaction"}], "timestamp": entry.at_ms}
            shown.append({"seq": len(shown) + 1, "id": entry.id, "message": marker})
    return shown[-limit:] if limit > 0 else []
