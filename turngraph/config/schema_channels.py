"""Settings of channels, of the queue in front of a turn and of chat commands.

Source: spec/settings.md section 5.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
)

from turngraph.config.fields import (
    Natural,
    Positive,
    Secret,
    Section,
    Texts,
)


class PeerHistory(Section):
    """History limit of one person."""

    history_limit: Natural | None = None


class ChannelHeartbeat(Section):
    """What of a heartbeat a channel shows; an absent value is that of the level above."""

    show_ok: bool | None = None
    show_alerts: bool | None = None
    use_indicator: bool | None = None


class ChannelAccount(Section):
    """History limits and heartbeat display of one account; an absent value is the channel's."""

    history_limit: Natural | None = None
    dm_history_limit: Natural | None = None
    dms: dict[str, PeerHistory] = Field(default_factory=dict)
    heartbeat: ChannelHeartbeat = Field(default_factory=ChannelHeartbeat)


class Channel(ChannelAccount):
    """A channel; the entry ``defaults`` holds what all channels share."""

    accounts: dict[str, ChannelAccount] = Field(default_factory=dict)
    allow_from: Texts | None = None


QueueMode = Annotated[
    Literal["collect", "followup", "steer", "steer-backlog", "interrupt"],
    BeforeValidator(lambda value: "steer" if value == "queue" else value),
]


class Queue(Section):
    """What a message does that arrives during a turn."""

    mode: QueueMode = "collect"
    debounce_ms: Natural = 1_000
    cap: Positive = 20
    drop: Literal["summarize", "old", "new"] = "summarize"
    by_channel: dict[str, QueueMode] = Field(default_factory=dict)


class GroupChat(Section):
    """Patterns of mentions in groups (regular expressions)."""

    mention_patterns: Texts = ()


class Messages(Section):
    """Incoming and outgoing messages."""

    queue: Queue = Field(default_factory=Queue)
    response_prefix: str | None = None
    group_chat: GroupChat = Field(default_factory=GroupChat)


class Commands(Section):
    """Who may use the chat commands, and who the owners are."""

    allow_from: dict[str, Texts] = Field(default_factory=dict)
    owner_allow_from: Texts | None = None
    owner_display: Literal["raw", "hash"] = "raw"
    owner_display_secret: Secret | None = None
