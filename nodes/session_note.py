"""session_note: the note that an ended session leaves in the workspace's memory.

What it says and how it is named is decided by pure functions; :func:`leave_note` reads the archive and writes the file,
once, when the session has been set aside. Trouble is a decision, never an error.
Source: spec/sessions.md 6.5, known-faults 6.6 to 6.8.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.silent import is_silent
from stores.session_notes import write_note
from stores.transcripts import Transcript
from turngraph.decisions import Decision
from turngraph.errors import ModelError, TurngraphError
from turngraph.heartbeat_text import DEFAULT_PROMPT, is_ack
from turngraph.messages import Message, text_block, user_message
from turngraph.models.model import Finished, Model, ModelRequest
from turngraph.text import head, js_trim

if TYPE_CHECKING:
    from nodes.state import SessionFacts, TurnContext

NODE = "session_note"
SLUG_CHARS = 30
SLUG_SOURCE_CHARS = 2_000
SLUG_TIMEOUT_S = 15.0
SLUG_QUESTION = (
    "Name this conversation in one or two words, joined by a dash, for a file name. Answer with the name only."
)

_NOT_IN_SLUG = re.compile(r"[\W_]+")
_MARKUP = re.compile(r"<\|[^|<>]*\|>|</?(?:system|assistant|user|tool)>|\[\[[a-z_]+(?::[^\]]*)?\]\]", re.IGNORECASE)
_LINE_ENDS = {"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_NOBODY = frozenset({"inter_session", "internal_system"})  # user messages that no user wrote


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a conversation."""

    role: str
    text: str

    @property
    def line(self) -> str:
        """The text quoted on one line, so that it cannot pass for a heading or another speaker."""
        quoted = json.dumps(self.text, ensure_ascii=False)
        return f"{self.role}: " + "".join(_LINE_ENDS.get(char, char) for char in quoted)


def conversation(messages: Sequence[Message]) -> tuple[Said, ...]:
    """Return what user and agent said to each other, oldest first: no tools, commands, silence or heartbeats."""
    found: list[Said] = []
    for message in messages:
        text = js_trim(_MARKUP.sub("", _first_text(message)))
        if message.role not in ("user", "assistant") or not text:
            continue
        if message.role == "user":
            provenance = message.raw.get("provenance")
            kind = provenance.get("kind") if isinstance(provenance, dict) else None
            if kind in _NOBODY or text.startswith(("/", DEFAULT_PROMPT)):
                continue
        elif is_silent(text) or is_ack(text, 0) or _is_repeated(message, text, found):
            continue
        found.append(Said(message.role, text))
    return tuple(found)


def _first_text(message: Message) -> str:
    return next((str(block.get("text") or "") for block in message.blocks if block.get("type") == "text"), "")


def _is_repeated(message: Message, text: str, found: Sequence[Said]) -> bool:
    """Tell whether a message only mirrors the delivery of the reply right before it."""
    return message.raw.get("model") == "delivery-mirror" and bool(found) and found[-1] == Said("assistant", text)


def excerpt(said: Sequence[Said], count: int) -> str | None:
    """Return the last ``count`` texts as lines; ``None`` when there are none."""
    return "\n".join(item.line for item in said[-count:]) or None if count > 0 else None


def slug(text: str) -> str | None:
    """Return a text as part of a file name: letters and digits of every script, at most 30 characters.

    >>> slug("--Bug__Fix!!"), slug("旅行计划"), slug("---")
    ('bug-fix', '旅行计划', None)
    """
    return head(_NOT_IN_SLUG.sub("-", text.lower()).strip("-"), SLUG_CHARS).strip("-") or None


@dataclass(frozen=True, slots=True)
class Note:
    """A note before it is written: ``stem`` is its file name without suffix."""

    stem: str
    content: str


def compose_note(
    said: Sequence[Said],
    *,
    now: datetime,
    zone: tzinfo,
    key: str,
    session_id: str,
    source: str,
    count: int,
    reason: str | None = None,
    name: str | None = None,
) -> Note | None:
    """Write the note of a session; ``None`` when no user said anything in it.

    Args:
        said: the conversation, oldest first.
        now, zone: date and time of the note are the user's.
        reason: ``daily`` or ``idle``; a command gives none.
        name: what a model called it; else the first words of the user name it, else the time.
    """
    lines = excerpt(said, count)
    if lines is None or not any(item.role == "user" for item in said):
        return None
    local = now.astimezone(zone)
    first = next(item.text for item in said if item.role == "user")
    called = (slug(name) if name else None) or slug(first) or f"{local:%H%M}"
    facts = [f"- **Session Key**: {key}", f"- **Session ID**: {session_id}", f"- **Source**: {source}"]
    if reason in ("daily", "idle"):
        facts.append(f"- **Reason**: {reason}")
    zone_name = getattr(zone, "key", None) or f"{local:%Z}"
    heading = f"# Session: {local:%Y-%m-%d %H:%M:%S} {zone_name}"
    content = "\n".join((heading, "", *facts, "", "## Conversation Summary", "", lines, ""))
    return Note(f"{local:%Y-%m-%d}-{called}", content)


async def leave_note(facts: SessionFacts, context: TurnContext, source: str | None) -> list[Decision]:
    """Write the note of the session that has just been set aside, if there is one and the settings want it."""
    internal = context.settings.hooks.internal
    wanted = internal.entries.session_memory
    if facts.archived is None or not context.live or not (internal.enabled and wanted.enabled):
        return []
    try:
        said = await asyncio.to_thread(_read, facts.archived, context)
        name = await _named(said, context) if wanted.llm_slug and said else None
        note = compose_note(
            said,
            now=context.clock.now(),
            zone=context.settings.zone,
            key=facts.key,
            session_id=str((facts.previous or {}).get("sessionId") or "unknown"),
            source=source or "unknown",
            count=wanted.messages,
            reason=facts.reset_reason,
            name=name,
        )
        if note is None:
            return [Decision(NODE, "skipped", "no note: the user said nothing in the ended session")]
        path = await asyncio.to_thread(write_note, context.workspace, note.stem, note.content)
    except (TurngraphError, OSError) as error:
        return [Decision(NODE, "failed", f"no note of the ended session: {error}")]
    if context.file_changed is not None:
        await context.file_changed(path)
    why = f"the ended session left a note of {len(note.content)} characters ({facts.reset_reason})"
    return [Decision(NODE, "written", why, path=path, chars_after=len(note.content))]


def _read(archive: Path, context: TurnContext) -> tuple[Said, ...]:
    transcript = Transcript.open(
        archive, session_id="archived", clock=context.clock, ids=context.ids, full=True, read_only=True
    )
    return conversation([transcript.message(entry) for entry in transcript.branch() if entry.type == "message"])


async def _named(said: Sequence[Said], context: TurnContext) -> str | None:
    """Ask a model for the name; ``None`` when it fails or says too much for a name."""
    model: Model = context.summariser or context.model
    asked = "\n".join(item.line for item in said)[:SLUG_SOURCE_CHARS]
    message = user_message([text_block(f"{SLUG_QUESTION}\n\n{asked}")], context.clock.now())
    request = ModelRequest(system="", messages=(message,), tools=(), stable_system_chars=0, purpose="slug")
    try:
        async with asyncio.timeout(SLUG_TIMEOUT_S):
            async for event in model.stream(request):
                if isinstance(event, Finished) and event.message.stop_reason == "stop":
                    return event.message.text if len(event.message.text.split()) <= 4 else None
    except (ModelError, TimeoutError):
        return None
    return None
