"""Session routing: the key of the conversation that a message belongs to, from what its channel tells.

Source: spec/sessions.md 1.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from turngraph.session_keys import (
    AgentKey,
    GroupKind,
    fold_key,
    main_session_key,
    normalize_account_id,
    normalize_agent_id,
    parse_key,
    store_key,
    thread_parent,
)
from turngraph.text import js_trim

if TYPE_CHECKING:
    from turngraph.config.schema_session import Session
    from turngraph.inbound import Inbound

DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
GroupScope = Literal["per-group", "main"]

SENTINELS = frozenset({"global", "unknown"})  # one session for everything; no sender
CHANNELS = frozenset(  # spec/sessions.md 1.5 step 7
    {"telegram", "whatsapp", "discord", "irc", "googlechat", "slack", "signal", "imessage", "line", "webchat"}
)


def linked_name(peer: str, channel: str, links: Mapping[str, object]) -> str | None:
    """Return the name of the person that ``links`` gives for a peer id; the first list that has it wins."""
    wanted = {peer.lower(), f"{channel}:{peer.lower()}"}
    for name, ids in links.items():
        if not js_trim(name) or not isinstance(ids, list | tuple):
            continue
        if any(isinstance(known, str) and js_trim(known).lower() in wanted for known in ids):
            return js_trim(name)
    return None


def peer_key(
    agent_id: str,
    *,
    channel: str | None = None,
    account: str | None = None,
    kind: Literal["direct", "group", "channel"] = "direct",
    peer: str | None = None,
    main_key: str | None = None,
    dm_scope: DmScope = "main",
    group_scope: GroupScope = "per-group",
    identity_links: Mapping[str, object] | None = None,
) -> str:
    """Build the session key of a chat with a person, a group or a room.

    >>> peer_key("main", channel="telegram", peer="123", dm_scope="per-channel-peer")
    'agent:main:telegram:direct:123'

    Source: spec/sessions.md 1.5 steps 1 to 3.
    """
    agent = f"agent:{normalize_agent_id(agent_id)}"
    where = js_trim(channel or "").lower() or "unknown"
    who = js_trim(peer or "")
    main = main_session_key(agent_id, main_key)
    if kind != "direct":
        return main if group_scope == "main" else fold_key(f"{agent}:{where}:{kind}:{who or 'unknown'}")
    if dm_scope == "main":
        return main
    who = (linked_name(who, where, identity_links or {}) or who).lower() if who else ""
    if not who:
        return main
    scopes = {
        "per-peer": agent,
        "per-channel-peer": f"{agent}:{where}",
        "per-account-channel-peer": f"{agent}:{where}:{normalize_account_id(account)}",
    }
    return f"{scopes[dm_scope]}:direct:{who}"


def thread_key(base: str, thread: str | None, marker: Literal["thread", "topic"] = "thread") -> str:
    """Return the key of a thread under ``base``; ``base`` itself when the thread id is blank."""
    thread = js_trim(thread or "")
    return fold_key(f"{base}:{marker}:{thread}") if thread else base


@dataclass(frozen=True, slots=True)
class GroupAddress:
    """A group or room as a channel addresses it."""

    channel: str
    kind: GroupKind
    id: str

    @property
    def key(self) -> str:
        """The key without its agent."""
        return f"{self.channel}:{self.kind}:{self.id}"


def group_address(address: str | None, channel: str | None = None, kind: str | None = None) -> GroupAddress | None:
    """Read the group out of an address such as ``telegram:group:-100`` or ``1203@g.us``; ``None`` when it is none.

    Args:
        address: where the message came from, as the channel writes it.
        channel: channel name, used when the address does not begin with one.
        kind: chat type, when the channel says it.

    Source: spec/sessions.md 1.5 step 7.
    """
    text = js_trim(address or "")
    lowered = text.lower()
    said = js_trim(kind or "").lower()
    whatsapp = lowered.endswith("@g.us")
    if not (said in ("group", "channel") or ":group:" in lowered or ":channel:" in lowered or whatsapp):
        return None
    parts = [part for part in text.split(":") if part]
    head = parts[0].lower() if parts else ""
    second = parts[1].lower() if len(parts) > 1 else ""
    if head in CHANNELS:
        where, own = head, ":".join(parts[2 if second in ("group", "channel") else 1 :])
    else:
        where, own = js_trim(channel or "").lower() or ("whatsapp" if whatsapp else ""), text
    if not where or not own:
        return None
    room = second == "channel" or (second != "group" and (":channel:" in lowered or said == "channel"))
    found: GroupKind = "channel" if room else "group"
    return GroupAddress(where, found, fold_key(f"{where}:{found}:{own}").split(":", 2)[2])


def explicit_key(key: str, *, channel: str | None = None, kind: str | None = None, sender: str | None = None) -> str:
    """Clean a key that the caller gave; direct chats of Discord get their present spelling.

    Source: spec/sessions.md 1.5 step 6.
    """
    folded = fold_key(key)
    parsed = parse_key(folded)
    body = parsed.rest if parsed else folded
    in_discord = js_trim(channel or "").lower() == "discord" or body.startswith("discord:")
    if kind != "direct" or not in_discord:
        return folded
    body = re.sub(r"^((?:discord:)?)dm:", r"\1direct:", body)
    if sender and body == f"discord:channel:{sender.lower()}":
        body = f"discord:direct:{sender.lower()}"
    return str(AgentKey(parsed.agent_id, body)) if parsed else body


def inbound_key(inbound: Inbound, agent_id: str, session: Session) -> str:
    """Return the key of the conversation that an inbound message belongs to.

    An explicit key wins; scope ``global`` puts everything into one session; else channel, chat and peer decide. A
    thread gets a key of its own under that of its chat.

    Source: spec/sessions.md 1.5 step 6.
    """
    if js_trim(inbound.session_key or ""):
        named = explicit_key(
            inbound.session_key or "", channel=inbound.channel, kind=inbound.chat_type, sender=inbound.sender
        )
        return named if named in SENTINELS else store_key(agent_id, named, session.main_key)
    if session.scope == "global":
        return "global"
    said = inbound.chat_type if inbound.chat_type != "direct" else None
    group = group_address(inbound.peer, inbound.channel, said)
    base = peer_key(
        agent_id,
        channel=group.channel if group else inbound.channel,
        account=inbound.account,
        kind=group.kind if group else inbound.chat_type,
        peer=group.id if group else inbound.peer,
        main_key=session.main_key,
        dm_scope=session.dm_scope,
        group_scope=session.group_scope,
        identity_links=session.identity_links,
    )
    if thread_parent(base) is not None:
        return base
    in_forum = group is not None and group.channel == "telegram"
    return thread_key(base, inbound.thread, "topic" if in_forum else "thread")
