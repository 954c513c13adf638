"""Write a transcript as searchable text: who said what, with the line of the transcript for every line of text.

Tool results, thinking, summaries and the protocol of heartbeats and jobs stay out; secrets are masked.
Source: spec/memory.md 1.6 and 1.7, spec/sessions.md 7.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from stores.transcript_entries import entry_of, has_id, parse_line
from stores.transcript_tree import path_to
from turngraph.clock import parse_iso, to_ms
from turngraph.credentials import mask_credentials
from turngraph.text import JS_SPACE, floor_cut

MAX_LINE_CHARS = 800  # spec/sessions.md 7.2
_SECONDS_BELOW = 1e11  # a time stamp under this counts seconds

_SPACES = re.compile(f"[{JS_SPACE}]+")
_NOTICE = re.compile(r"System(?: \(untrusted\))?: \[[^\]]*\]")
_JOB_PROMPT = re.compile(r"\[cron:[^\]]*\]")
_SILENT = re.compile(r"\s*NO_REPLY\s*", re.IGNORECASE)
_ENVELOPE = re.compile(r"^[^\n]*\(untrusted[^)\n]*\):\n```json\n.*?\n```\n*", re.DOTALL | re.MULTILINE)
_INTERNAL = re.compile(r"<<<BEGIN_[A-Z_]*INTERNAL[A-Z_]*>>>.*?<<<END_[A-Z_]*INTERNAL[A-Z_]*>>>\n*", re.DOTALL)
_HEARTBEAT_PROMPT = re.compile(r"heartbeat (?:poll|wake)", re.IGNORECASE)
_SKIPPED_TURNS = frozenset({"heartbeat", "recalled_memory"})


@dataclass(frozen=True, slots=True)
class SessionText:
    """A transcript as text.

    Attributes:
        content: lines ``User: ...`` and ``Assistant: ...``.
        line_map: line of the transcript, from 1, for every line of ``content``.
        times_ms: epoch milliseconds of every line, 0 where unknown.
    """

    content: str
    line_map: tuple[int, ...]
    times_ms: tuple[int, ...]

    @property
    def hash(self) -> str:
        parts = (self.content, ",".join(map(str, self.line_map)), ",".join(map(str, self.times_ms)))
        return sha256("\n".join(parts).encode()).hexdigest()


def session_text(data: bytes) -> SessionText:
    """Write the active path of a transcript as text.

    Where ids repeat or a parent is missing there is no path to trust, and the order of the file is used.
    """
    lines: list[str] = []
    line_map: list[int] = []
    times: list[int] = []
    skipping = False
    for number, record in _active_path(_records(data)):
        message = record.get("message")
        if record.get("type") != "message" or not isinstance(message, dict):
            continue
        role, kind = message.get("role"), _provenance(message)
        if role == "user":
            skipping = kind in _SKIPPED_TURNS
        if skipping or role not in ("user", "assistant") or kind == "inter_session":
            continue
        text = _spoken(message.get("content"), is_user=role == "user")
        if not text:
            continue
        label = "User" if role == "user" else "Assistant"
        time = _time_ms(message.get("timestamp")) or _time_ms(record.get("timestamp"))
        for piece in wrap_line(mask_credentials(_storable(text))):
            lines.append(f"{label}: {piece}")
            line_map.append(number)
            times.append(time)
    return SessionText("\n".join(lines), tuple(line_map), tuple(times))


def spoken_texts(data: bytes) -> list[str]:
    """Return every text of every message of a transcript as it stands, whoever said it and on whatever branch."""
    messages = (record.get("message") for _, record in _records(data))
    contents = (message.get("content") for message in messages if isinstance(message, dict))
    blocks = (content if isinstance(content, list) else [{"text": content}] for content in contents)
    texts = (block.get("text") for content in blocks for block in content if isinstance(block, dict))
    return [text for text in texts if isinstance(text, str)]


def plain_text(content: Any) -> str | None:
    """Return the text of a message on one line: text blocks joined, white space collapsed; ``None`` when empty."""
    if isinstance(content, str):
        text = content
    elif isinstance(content, list):
        blocks = (block for block in content if isinstance(block, dict) and block.get("type") == "text")
        text = "\n".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    else:
        return None
    return _SPACES.sub(" ", text).strip(" ") or None


def wrap_line(text: str, limit: int = MAX_LINE_CHARS) -> list[str]:
    """Wrap a long line at blanks, or inside a word that is longer than the limit.

    Source: spec/sessions.md 7.2, split_long_session_line.
    """
    pieces: list[str] = []
    rest = text
    while len(rest) > limit:
        blank = rest.rfind(" ", 0, limit + 1)
        cut = blank if blank > 0 else floor_cut(rest, limit) or limit
        pieces.append(rest[:cut].strip(JS_SPACE))
        rest = rest[cut:].strip(JS_SPACE)
    return [piece for piece in (*pieces, rest.strip(JS_SPACE)) if piece]


def _spoken(content: Any, *, is_user: bool) -> str | None:
    """Return what a person or the agent really said, ``None`` for protocol."""
    if is_user and isinstance(content, str):
        content = _INTERNAL.sub("", _ENVELOPE.sub("", content))
    elif is_user and isinstance(content, list):
        content = [
            {**block, "text": _INTERNAL.sub("", _ENVELOPE.sub("", block["text"]))}
            if isinstance(block, dict) and isinstance(block.get("text"), str)
            else block
            for block in content
        ]
    text = plain_text(content)
    if text is None or _SILENT.fullmatch(text):
        return None
    if is_user:
        prompted = _NOTICE.match(text) or _JOB_PROMPT.match(text) or _HEARTBEAT_PROMPT.search(text)
        return None if prompted else text
    return None if text == "HEARTBEAT_OK" else text


def _storable(text: str) -> str:
    """Replace what JSON can escape and UTF-8 cannot hold: lone surrogates, and NUL."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def _records(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    parsed = ((number, parse_line(line)) for number, line in enumerate(data.split(b"\n"), 1))
    return [(number, record) for number, record in parsed if record is not None]


def _active_path(records: Sequence[tuple[int, dict[str, Any]]]) -> Sequence[tuple[int, dict[str, Any]]]:
    entries = [entry_of(raw, number) for number, raw in records if has_id(raw) and raw.get("type") != "session"]
    by_id = {entry.id: entry for entry in entries}
    said = [raw for _, raw in records if raw.get("type") == "message"]
    linked = all(map(has_id, said)) and all("parentId" in entry.raw for entry in entries)
    unique = len(by_id) == len(entries)
    if not entries or not linked or not unique or any(e.parent_id and e.parent_id not in by_id for e in entries):
        return records
    active = {entry.id for entry in path_to(by_id, entries[-1].id)}
    return [(number, raw) for number, raw in records if raw.get("id") in active]


def _provenance(message: Mapping[str, Any]) -> str | None:
    provenance = message.get("provenance")
    kind = provenance.get("kind") if isinstance(provenance, dict) else None
    return kind if isinstance(kind, str) else None


def _time_ms(value: Any) -> int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value * 1000 if value < _SECONDS_BELOW else value)
    moment = parse_iso(value) if isinstance(value, str) else None
    return to_ms(moment) if moment else 0
