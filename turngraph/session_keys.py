"""Session keys: what a key says about the conversation it names.

A key names a bucket (``agent:main:telegram:direct:42``); the store maps it to the session id that is current there.
Source: spec/sessions.md section 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from turngraph.errors import NotFound
from turngraph.text import JS_SPACE, js_trim

KeyShape = Literal["missing", "agent", "malformed_agent", "legacy_or_alias"]
KeyChatType = Literal["direct", "group", "channel", "unknown"]
GroupKind = Literal["group", "channel"]

DEFAULT_AGENT = "main"
DEFAULT_ACCOUNT = "default"
DEFAULT_MAIN = "main"
ID_CHARS = 64  # longest agent or account id

_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_ID = re.compile(r"[^a-z0-9_-]+")
_RESERVED_IDS = frozenset({"__proto__", "prototype", "constructor"})

# Room ids of Matrix and group ids of Signal are case-sensitive at the provider: folding them would merge two rooms.
_MATRIX_ROOM = re.compile(r"((?:agent:+[^:]+:+)?matrix:(?:channel|group):)(.+)", re.IGNORECASE | re.DOTALL)
_SIGNAL_GROUP = re.compile(r"(?:^|:)signal:group:([^:]+)", re.IGNORECASE)
_THREAD_WORD = re.compile(r":thread:", re.IGNORECASE)
_THREAD_MARK = re.compile(r":(?:thread|topic):", re.IGNORECASE)
_DISCORD_ROOM = re.compile(r"discord:(?:[^:]+:)?guild-[^:]+:channel-[^:]+")
_NUMBERED_THREAD = re.compile(r":(?:thread|topic):[0-9]+$", re.IGNORECASE)
_CHAT_KINDS = frozenset({"direct", "dm", "group", "channel"})
_CRON_RUN = re.compile(r"cron:[^:]+:run:[^:]+(?::.*)?", re.DOTALL)


def _clean_id(text: str) -> str:
    trimmed = js_trim(text)
    if _PLAIN_ID.fullmatch(trimmed):
        return trimmed.lower()
    return _NOT_ID.sub("-", trimmed.lower()).strip("-")[:ID_CHARS]


def normalize_agent_id(text: str | None) -> str:
    """Turn any text into a safe agent id; ``main`` when nothing is left.

    >>> normalize_agent_id("Research Team"), normalize_agent_id("研究")
    ('research-team', 'main')

    Two names may give the same id: the settings refuse that. Source: spec/sessions.md 1.4.
    """
    return _clean_id(text or "") or DEFAULT_AGENT


def account_id(text: str | None) -> str | None:
    """Turn any text into a safe account id; ``None`` when nothing is left or the word is reserved."""
    cleaned = _clean_id(text or "")
    return None if not cleaned or cleaned in _RESERVED_IDS else cleaned


def normalize_account_id(text: str | None) -> str:
    """Turn any text into a safe account id; ``default`` when nothing is left."""
    return account_id(text) or DEFAULT_ACCOUNT


def normalize_main_key(text: str | None) -> str:
    """Return the last part of an agent's main session key."""
    return js_trim(text or "").lower() or DEFAULT_MAIN


def fold_key(text: str) -> str:
    """Trim and lower-case a key, keeping the case of Signal group ids and of Matrix room and thread ids.

    >>> fold_key(" Agent:Main:Discord:Channel:XyZ "), fold_key("agent:main:matrix:channel:!RoOm:Ex.Org")
    ('agent:main:discord:channel:xyz', 'agent:main:matrix:channel:!RoOm:Ex.Org')

    Source: spec/sessions.md 1.2 Choice.
    """
    trimmed = js_trim(text)
    if match := _MATRIX_ROOM.fullmatch(trimmed):
        return match[1].lower() + _THREAD_WORD.sub(":thread:", match[2])
    if match := _SIGNAL_GROUP.search(trimmed):
        return trimmed[: match.start(1)].lower() + match[1].strip(JS_SPACE) + trimmed[match.end(1) :].lower()
    return trimmed.lower()


@dataclass(frozen=True, slots=True)
class AgentKey:
    """A key of the form ``agent:<agent_id>:<rest>``."""

    agent_id: str
    rest: str

    def __str__(self) -> str:
        return f"agent:{self.agent_id}:{self.rest}"


def parse_key(text: str) -> AgentKey | None:
    """Split an agent key into agent and rest; ``None`` for every other key. Repeated colons collapse.

    >>> parse_key("AGENT:Main:MAIN")
    AgentKey(agent_id='main', rest='main')
    """
    parts = [part for part in fold_key(text).split(":") if part]
    if len(parts) < 3 or parts[0] != "agent":
        return None
    return AgentKey(parts[1], ":".join(parts[2:]))


def request_key(text: str) -> str:
    """Return what stands behind ``agent:<id>:``, or the whole key when it is not an agent key."""
    parsed = parse_key(text)
    return parsed.rest if parsed else js_trim(text)


def key_shape(text: str) -> KeyShape:
    """Tell what kind of key ``text`` is."""
    trimmed = js_trim(text).lower()
    if not trimmed:
        return "missing"
    if parse_key(trimmed):
        return "agent"
    return "malformed_agent" if trimmed.startswith("agent:") else "legacy_or_alias"


def agent_of(text: str, default_agent: str = DEFAULT_AGENT) -> str:
    """Return the agent that a key belongs to; ``default_agent`` when the key names none.

    Raises:
        NotFound: the key begins with ``agent:`` and is no agent key.
    """
    parsed = parse_key(text)
    if parsed is None and key_shape(text) == "malformed_agent":
        raise NotFound(f"session key {text!r} names no session; write agent:<agent id>:<key>")
    return normalize_agent_id(parsed.agent_id if parsed else default_agent)


def chat_type(text: str) -> KeyChatType:
    """Tell what kind of chat a key is for; a key with both ``group`` and ``direct`` is a group."""
    body = request_key(text).lower()
    parts = body.split(":")
    if "group" in parts:
        return "group"
    if "channel" in parts:
        return "channel"
    if "direct" in parts or "dm" in parts:
        return "direct"
    return "channel" if _DISCORD_ROOM.fullmatch(body) else "unknown"


def is_cron(text: str) -> bool:
    """Tell whether a key belongs to a scheduled job."""
    parsed = parse_key(text)
    return parsed is not None and parsed.rest.startswith("cron:")


def is_cron_run(text: str) -> bool:
    """Tell whether a key belongs to one run of a job, or to something that run started."""
    parsed = parse_key(text)
    return parsed is not None and _CRON_RUN.fullmatch(parsed.rest) is not None


def is_subagent(text: str) -> bool:
    """Tell whether a key belongs to a spawned helper session."""
    return request_key(text).lower().startswith("subagent:")


def is_acp(text: str) -> bool:
    """Tell whether a key belongs to an external coding harness."""
    return request_key(text).lower().startswith("acp:")


def is_heartbeat(text: str) -> bool:
    """Tell whether a key is the isolated heartbeat session of another key."""
    return fold_key(text).endswith(":heartbeat")


def subagent_depth(text: str) -> int:
    """Count the helper sessions that a key is nested in."""
    return f":{fold_key(text)}".count(":subagent:")


def thread_parts(text: str) -> tuple[str, str | None]:
    """Split a key at its last ``:thread:`` or ``:topic:`` into base and thread id (``None`` without one).

    >>> thread_parts("agent:main:slack:channel:C0:thread:17.1")
    ('agent:main:slack:channel:C0', '17.1')
    """
    marks = list(_THREAD_MARK.finditer(text))
    if not marks:
        return text, None
    return text[: marks[-1].start()], text[marks[-1].end() :]


def thread_parent(text: str) -> str | None:
    """Return the key that a thread hangs under, in its own case; ``None`` when the key is no thread."""
    base, thread = thread_parts(js_trim(text))
    return (js_trim(base) or None) if thread is not None else None


@dataclass(frozen=True, slots=True)
class KeyRoute:
    """Where the chat of a key takes place; ``peer`` keeps its case and lacks a numbered thread at its end."""

    channel: str
    account: str | None
    kind: GroupKind | Literal["direct"]
    peer: str


def key_route(text: str) -> KeyRoute | None:
    """Read channel, account, kind of chat and peer out of a key; ``None`` when it does not name a chat.

    >>> key_route("agent:main:telegram:bot:direct:12:thread:9")
    KeyRoute(channel='telegram', account='bot', kind='direct', peer='12')

    Source: spec/context.md 4.5 (which history limit applies).
    """
    parts = [part for part in js_trim(text).split(":") if part]
    if len(parts) >= 3 and parts[0].lower() == "agent":
        parts = parts[2:]
    at = next((i for i in (1, 2) if i < len(parts) and parts[i].lower() in _CHAT_KINDS), None)
    if at is None:
        return None
    word = parts[at].lower()
    kind: GroupKind | Literal["direct"] = "group" if word == "group" else "channel" if word == "channel" else "direct"
    peer = _NUMBERED_THREAD.sub("", ":".join(parts[at + 1 :]))
    return KeyRoute(parts[0].lower(), parts[1].lower() if at == 2 else None, kind, peer)


def main_session_key(agent_id: str, main_key: str | None = None) -> str:
    """Return the key of an agent's main session."""
    return f"agent:{normalize_agent_id(agent_id)}:{normalize_main_key(main_key)}"


def store_key(agent_id: str, requested: str, main_key: str | None = None) -> str:
    """Return the key under which ``sessions.json`` holds what a caller named.

    >>> store_key("work", "telegram:Direct:5")
    'agent:work:telegram:direct:5'

    Source: spec/sessions.md 1.5 step 5.
    """
    folded = fold_key(requested)
    if folded in ("", DEFAULT_MAIN):
        return main_session_key(agent_id, main_key)
    if parsed := parse_key(folded):
        return str(parsed)
    return folded if folded.startswith("agent:") else f"agent:{normalize_agent_id(agent_id)}:{folded}"
