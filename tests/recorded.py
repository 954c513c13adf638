"""Transcripts written by hand for replays: a few short lines each, and ways to play them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from tests.builders import START_MS
from turngraph.clock import SystemClock, from_ms, iso_ms
from turngraph.messages import Message
from turngraph.replay.source import RecordedSession, read_session

USAGE = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}
STEP_MS = 20_000


def write_transcript(path: Path, messages: Sequence[Message], *, step_ms: int = STEP_MS) -> Path:
    """Write a version 3 transcript of ``messages``, one every 20 seconds."""
    at = START_MS
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": path.stem, "timestamp": iso_ms(from_ms(at)), "cwd": "/"}
    ]
    parent = None
    for number, message in enumerate(messages, start=1):
        at += step_ms
        raw = {**message.raw, "timestamp": at}
        if message.role == "assistant":
            raw = {"usage": USAGE, "api": "anthropic-messages", **raw}
        entry = f"{number:08x}"
        stamp = iso_ms(from_ms(at))
        lines.append({"type": "message", "id": entry, "parentId": parent, "timestamp": stamp, "message": raw})
        parent = entry
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def recorded(path: Path, messages: Sequence[Message], **options: Any) -> RecordedSession:
    """Write a transcript and read it for replay."""
    return read_session(write_transcript(path, messages, **options), SystemClock())
