"""What a replay reads: the user turns of a recorded transcript, and what was recorded for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stores.transcript_entries import Entry
from stores.transcripts import Transcript
from turngraph.clock import Clock, DerivedIds, from_ms
from turngraph.errors import NotFound
from turngraph.messages import Message


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One recorded user turn.

    Attributes:
        number: position in the transcript, from 1.
        user: the user's message as recorded.
        answers: assistant messages, oldest first; results: tool results, oldest first.
        compactions: recorded compaction entries that fell into this turn.
        at: when the user's message was written.
    """

    number: int
    user: Message
    answers: tuple[Message, ...]
    results: tuple[Message, ...]
    compactions: tuple[Entry, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A transcript opened for replay."""

    path: Path
    session_id: str
    turns: tuple[RecordedTurn, ...]
    broken_lines: tuple[int, ...]


def transcripts_in(paths: Sequence[Path]) -> list[Path]:
    """Return the transcript files that ``paths`` name: files as they are, folders by their ``*.jsonl``, sorted.

    Raises:
        NotFound: a path does not exist, or a folder holds no transcript.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(child for child in path.rglob("*.jsonl") if child.is_file())
            if not inside:
                raise NotFound(f"no transcript (*.jsonl) in {path}")
            found.extend(inside)
        elif path.is_file():
            found.append(path)
        else:
            raise NotFound(f"no such transcript: {path}")
    return found


def read_session(path: Path, clock: Clock) -> RecordedSession:
    """Read a transcript of any version for replay; the file is not changed.

    Raises:
        NotFound: there is no user turn in it.
    """
    transcript = Transcript.open(
        path, session_id=path.stem, clock=clock, ids=DerivedIds(path.stem), full=True, read_only=True
    )
    turns = tuple(_turns(transcript))
    if not turns:
        raise NotFound(f"{path} holds no user turn to replay")
    return RecordedSession(path, transcript.session_id, turns, transcript.report.broken_lines)


def _turns(transcript: Transcript) -> Iterator[RecordedTurn]:
    last = from_ms(0)
    for number, entries in enumerate(transcript.turns(), start=1):
        messages = [transcript.message(entry) for entry in entries if entry.type == "message"]
        user = messages[0]
        at = from_ms(user.timestamp_ms or entries[0].at_ms)
        last = max(last, at)  # a clock that was set back while recording does not run backwards in the replay
        yield RecordedTurn(
            number=number,
            user=user,
            answers=tuple(message for message in messages if message.role == "assistant"),
            results=tuple(message for message in messages if message.role == "toolResult"),
            compactions=tuple(entry for entry in entries if entry.type == "compaction"),
            at=last,
        )
