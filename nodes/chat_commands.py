"""chat_commands: what a message asks for besides being read: a new session, a compaction, the status, the context.

Pure. A command stands at the start of the text and counts only from somebody who may give commands.
Source: spec/sessions.md 2.1, spec/settings.md section 5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nodes.model_choice import choose_model, known_models
from nodes.state import CommandName
from turngraph.inbound import Inbound
from turngraph.text import JS_SPACE, js_trim

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

PLAIN_COMMANDS: Mapping[str, CommandName] = {"/compact": "compact", "/status": "status", "/context": "context"}

_SPACE = f"[{JS_SPACE}]"
_CURRENT_MESSAGE = "[Current message - respond to this]"
_ENVELOPE = re.compile(rf"(?:{_SPACE}|\\n|\[[^\]]+\])+")
_SPEAKER = re.compile(rf"[A-Za-z0-9+()\-_. ]+:{_SPACE}*")
_MENTION = re.compile(r"<@!?[A-Za-z0-9]+>|@(?:\d{5,}|\+\d*)")


@dataclass(frozen=True, slots=True)
class Command:
    """A word that stands at the start of a message, with the text behind it as the user wrote it."""

    word: str
    text: str


def match_command(
    body: str,
    words: Sequence[str],
    *,
    in_group: bool = False,
    speaker_prefixed: bool = False,
    mention_patterns: Sequence[str] = (),
) -> Command | None:
    """Find a command word at the start of ``body``: alone, or followed by white space and text.

    In front of it may stand what a connector adds: notes in brackets, in groups mentions, and the speaker's name when
    the connector says that it wrote one. A name that the user typed is text.

    >>> match_command("[Mon 09:00] /NEW\\nplan\\n  b", ("/new",))
    Command(word='/new', text='plan\\n  b')

    Source: spec/sessions.md 2.1 (the decision as 2026.3, the text as 2026.9).
    """
    mentions = [_MENTION, *(re.compile(pattern, re.IGNORECASE) for pattern in mention_patterns)] if in_group else []
    for start in (js_trim(body), _behind_envelope(body, mentions, speaker_prefixed)):
        for word in words:
            rest = start[len(word) :]
            if not word or start[: len(word)].lower() != word.lower():
                continue
            if rest and rest[0] not in JS_SPACE and not rest.startswith("\\n"):
                continue
            text = js_trim(rest.removeprefix("\\n"))
            return Command(word, "" if mentions and not _without(mentions, text) else text)
    return None


def _behind_envelope(body: str, mentions: Sequence[re.Pattern[str]], speaker_prefixed: bool) -> str:
    text = body.partition(_CURRENT_MESSAGE)[2] if _CURRENT_MESSAGE in body else body
    prefixes = [_ENVELOPE, *mentions]
    named = not speaker_prefixed
    while True:
        match = next((found for pattern in prefixes if (found := pattern.match(text)) and found.end()), None)
        if match is None and not named:
            match, named = _SPEAKER.match(text), True
        if match is None:
            return text
        text = text[match.end() :]


def _without(patterns: Sequence[re.Pattern[str]], text: str) -> str:
    for pattern in patterns:
        text = pattern.sub("", text)
    return js_trim(text)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a message asks for.

    Attributes:
        command: the command, if there is one.
        text: what stands behind the command, else the whole message.
        refused: the command word, when the sender may not give it: it is read as text then.
        model: the model that stood behind a reset, as ``provider:model``.
    """

    command: CommandName | None
    text: str
    refused: str | None = None
    model: str | None = None

    @property
    def resets(self) -> bool:
        """Whether a new session is asked for."""
        return self.command in ("new", "reset")


def asked_of(inbound: Inbound, settings: AgentSettings) -> Asked:
    """Read the command out of a message.

    Only what a user wrote holds commands: not a transcribed voice, not what a transcript recorded as a prompt, not the
    text of a heartbeat or a job.
    """
    plain = Asked(None, inbound.text)
    if inbound.kind not in ("user", "replay") or inbound.voice or inbound.recorded is not None:
        return plain
    triggers = settings.session.reset_triggers
    found = match_command(
        inbound.text,
        (*triggers, *PLAIN_COMMANDS),
        in_group=inbound.chat_type != "direct",
        speaker_prefixed=inbound.speaker_prefixed,
        mention_patterns=settings.messages.group_chat.mention_patterns,
    )
    if found is None:
        return plain
    if not may_command(inbound, settings):
        return Asked(None, inbound.text, refused=found.word)
    if found.word in triggers:
        choice = choose_model(found.text, *known_models(settings))
        return Asked("reset" if "reset" in found.word.lower() else "new", choice.text, model=choice.model)
    return Asked(PLAIN_COMMANDS[found.word], found.text)


def may_command(inbound: Inbound, settings: AgentSettings) -> bool:
    """Tell whether the sender may give commands.

    The channel's word counts first, then ``commands.allowFrom`` of the channel or of ``*``; without either everybody in
    a direct chat and at the command line may, and in groups the owners.
    """
    if inbound.sender_authorised is not None:
        return inbound.sender_authorised
    commands = settings.commands
    channel = js_trim(inbound.channel or "").lower()
    allowed = commands.allow_from.get(channel, commands.allow_from.get("*"))
    if allowed is None:
        if inbound.chat_type == "direct":
            return True
        allowed = commands.owner_allow_from or ()
    return "*" in allowed or _is_among(inbound.sender, channel, allowed)


def _is_among(sender: str | None, channel: str, allowed: Sequence[str]) -> bool:
    who = js_trim(sender or "").lower()
    return bool(who) and not {who, f"{channel}:{who}"}.isdisjoint(js_trim(name).lower() for name in allowed)
