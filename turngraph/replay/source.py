"""What a replay reads: the user turns of a recorded transcript, and what was recorded for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from stores.transcripts import Transcript
from turngraph.clock import Clock, DerivedIds, from_ms
from turngraph.errors import NotFound
from turngraph.messages import Message
from turngraph.replay.recorded_summaries import Place, is_flush, recorded_summaries


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One recorded user turn.

    Attributes:
        number: position in the transcript, from 1.
        user: the user's message as recorded.
        answers: assistant messages, oldest first; results: tool results, oldest first.
        at: when the user's message was written.
    """

    number: int
    user: Message
    answers: tuple[Message, ...]
    results: tuple[Message, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A transcript opened for replay.

    Attributes:
        turns: user turns of the active branch; flush turns are none.
        summaries: of recorded compactions, by the first message that each kept.
    """

    path: Path
    session_id: str
    turns: tuple[RecordedTurn, ...]
    broken_lines: tuple[int, ...]
    summaries: Mapping[Place, str] = field(default_factory=dict)


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
    summaries = recorded_summaries(transcript.branch(), transcript.message)
    return RecordedSession(path, transcript.session_id, turns, transcript.report.broken_lines, summaries)


def _turns(transcript: Transcript) -> Iterator[RecordedTurn]:
    last = from_ms(0)
    number = 0
    for entries in transcript.turns():
        messages = [transcript.message(entry) for entry in entries if entry.type == "message"]
        user = messages[0]
        if is_flush(user):
            continue
        number += 1
        at = from_ms(user.timestamp_ms or entries[0].at_ms)
        last = max(last, at)  # a clock that was set back while recording does not run backwards in the replay
        yield RecordedTurn(
            number=number,
            user=user,
            answers=tuple(message for message in messages if message.role == "assistant"),
            results=tuple(message for message in messages if message.role == "toolResult"),
            at=last,
        )
