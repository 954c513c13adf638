"""What comes in: one inbound message of a channel with all the facts a turn needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

RunKind = Literal["user", "heartbeat", "cron", "flush", "replay", "subagent"]
ChatType = Literal["direct", "group", "channel"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that comes with a message.

    Attributes:
        data: its bytes; ``None`` when it got lost on the way.
        name: file name as the sender gave it.
        media_type: type as the channel said; the stored type is found from the content.
    """

    data: bytes | None
    name: str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """One inbound message.

    Attributes:
        text: what the user wrote; may be empty when there are attachments.
        session_key: explicit session key; wins over what the other facts would give (spec/sessions.md 1.5).
        channel, account, chat_type, peer, thread, parent_session_key, sender: routing facts of the channel.
        sender_authorised: whether the sender may give commands; ``None`` lets the settings decide.
        speaker_prefixed: whether the connector put ``Name: `` in front of the text itself (spec/sessions.md 2.1).
        voice: whether the text is a voice transcript; such a text never triggers a reset.
        at: when it was sent; ``None`` means now.
        kind: what started the run.
        provenance: where a message that no external user wrote comes from (spec/sessions.md 4.3).
        flow_run_id: Prefect flow run that started the turn, for the trace.
        recorded: in a replay, the user message as the transcript holds it; it is appended as it stands.
        light_context: whether the run gets the light set of bootstrap files only (spec/context.md 2.3).
    """

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    session_key: str | None = None
    channel: str | None = None
    account: str | None = None
    chat_type: ChatType = "direct"
    peer: str | None = None
    thread: str | None = None
    parent_session_key: str | None = None
    sender: str | None = None
    sender_authorised: bool | None = None
    speaker_prefixed: bool = False
    voice: bool = False
    at: datetime | None = None
    kind: RunKind = "user"
    provenance: dict[str, str] | None = None
    flow_run_id: str | None = None
    recorded: Mapping[str, Any] | None = None
    light_context: bool = False
