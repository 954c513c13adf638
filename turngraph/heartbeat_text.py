"""Texts of heartbeats: the acknowledgement token, the task file, queued events, and what of a reply goes out.

Source: spec/scheduling.md A3, known-faults 10.3 and 10.4.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from turngraph.text import js_trim

TOKEN = "HEARTBEAT_OK"
ACK_MAX_CHARS = 300
DEFAULT_PROMPT = (
    "Heartbeat: look into HEARTBEAT.md in the workspace, if it is there, and do exactly what it says. "
    "Do not take up or repeat tasks from earlier conversations that it does not name. "
    f"If nothing needs attention, answer {TOKEN}."
)

_TAG = re.compile(r"<[^>]*>")
_MARKS = "*`~_"
_AT_START = re.compile(rf"{TOKEN}(?![A-Za-z0-9_])")
_AT_END = re.compile(rf"(?<![A-Za-z0-9_]){TOKEN}([^\w]{{0,4}})$", re.ASCII)
_SPACES = re.compile(r"\s+")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_EMPTY_LINE = re.compile(r"\s*|\s*#+(?:\s.*)?|\s*[-*+]\s*(?:\[[ xX]?\]\s*)?|\s*(?:```|~~~)[\w-]*\s*")
_ACK = re.compile(rf"\s*{TOKEN}(?![A-Za-z0-9_])", re.IGNORECASE)
_SILENT = re.compile(r"\s*NO_REPLY\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text without the token.

    Attributes:
        skip: whether nothing is left that should be sent.
        text: what is left.
        found: whether a token was taken off.
    """

    skip: bool
    text: str
    found: bool = False


def strip_token(
    text: str, mode: Literal["heartbeat", "message"] = "heartbeat", ack_max_chars: int = ACK_MAX_CHARS
) -> Stripped:
    """Take the acknowledgement token off both ends of a text; inside a sentence or glued to a word it is text.

    >>> strip_token("**HEARTBEAT_OK**").skip, strip_token("Disk is full").text
    (True, 'Disk is full')

    In heartbeat mode a rest of at most ``ack_max_chars`` belongs to the acknowledgement.
    """
    trimmed = js_trim(text)
    if not trimmed:
        return Stripped(True, "")
    bare = js_trim(js_trim(_TAG.sub(" ", trimmed).replace("&nbsp;", " ")).strip(_MARKS))
    left = _without_token(trimmed)
    if not left:
        left = _without_token(bare) if left is None or bare != trimmed else left
    if left is None:
        return Stripped(False, trimmed)
    if not left or (mode == "heartbeat" and len(left) <= ack_max_chars):
        return Stripped(True, "", True)
    return Stripped(False, left, True)


def _without_token(text: str) -> str | None:
    """Return the text without tokens at its ends; ``None`` when there are none."""
    left, found = text, False
    while True:
        if match := _AT_START.match(left):
            left = js_trim(left[match.end() :])
        elif match := _AT_END.search(left):
            before = left[: match.start()].rstrip()
            left = js_trim(f"{before}{match[1].lstrip()}") if before else ""
        else:
            return _SPACES.sub(" ", left).strip() if found else None
        found = True


def is_ack(text: str, ack_max_chars: int = ACK_MAX_CHARS) -> bool:
    """Tell whether a reply only says that nothing needs attention."""
    return _SILENT.fullmatch(text) is not None or strip_token(text, "heartbeat", ack_max_chars).skip


@dataclass(frozen=True, slots=True)
class BeatReply:
    """What of a heartbeat's reply goes out; ``skip`` when it acknowledges only."""

    skip: bool
    text: str
    has_media: bool = False


def normalise_reply(
    text: str, *, prefix: str | None = None, ack_max_chars: int = ACK_MAX_CHARS, has_media: bool = False
) -> BeatReply:
    """Take prefix and token off a reply, and put the prefix back in front of what goes out."""
    body = text
    if prefix and js_trim(body).startswith(prefix):
        body = js_trim(body)[len(prefix) :]
    if _SILENT.fullmatch(body):
        return BeatReply(not has_media, "", has_media)
    stripped = strip_token(body, "heartbeat", ack_max_chars)
    if stripped.skip and not has_media:
        return BeatReply(True, "", has_media)
    shown = stripped.text
    return BeatReply(False, f"{prefix} {shown}" if prefix and shown else shown, has_media)


def is_effectively_empty(content: str | None) -> bool:
    """Tell whether a task file holds nothing to do: blank lines, headings, empty list items, comments, fences.

    A file that is not there is not empty: the prompt may still ask for something.
    """
    if content is None:
        return False
    return all(_EMPTY_LINE.fullmatch(line) for line in _COMMENT.sub("", content).split("\n"))


@dataclass(frozen=True, slots=True)
class EventKind:
    """What a queued event is to a heartbeat."""

    ack: bool
    noise: bool
    exec_done: bool
    reminder: bool


def event_kind(text: str) -> EventKind:
    """Sort a queued event: protocol, the end of a command, or a reminder to relay."""
    lowered = text.lower()
    ack = _ACK.match(text) is not None
    noise = ack or "heartbeat poll" in lowered or "heartbeat wake" in lowered
    done = "exec finished" in lowered
    return EventKind(ack, noise, done, bool(js_trim(text)) and not noise and not done)


def beat_prompt(
    events: Sequence[str], *, configured: str | None, heartbeat_file: str, time_line: str, can_deliver: bool
) -> str:
    """Return what the agent is asked: to relay what has come in, else to look at its tasks.

    Args:
        events: texts of queued events, oldest first.
        configured: the user's own prompt.
        heartbeat_file: path of HEARTBEAT.md, named when the prompt speaks of it.
        time_line: the present time, as the last line.
        can_deliver: whether a reply reaches somebody.
    """
    done = [text for text in events if event_kind(text).exec_done]
    reminders = [text for text in events if event_kind(text).reminder]
    if done:
        what = "Tell the user what came of it." if can_deliver else "Deal with it; nobody reads a reply now."
        body = "\n".join(("A command that ran in the background has ended:", *done, what))
    elif reminders:
        what = "Pass it on to the user in your own words." if can_deliver else "Deal with it; nobody reads a reply now."
        body = "\n".join(("A reminder is due:", *reminders, what))
    else:
        body = configured or DEFAULT_PROMPT
        if "heartbeat.md" in body.lower():
            body = f"{body}\nThe file is {heartbeat_file}."
    return f"{body}\n{time_line}"
