"""session_continuity: whether an entry goes on, and what a message changes in it. Pure.

Source: spec/sessions.md 2.4 steps 3 to 8, known-faults 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any

from nodes.reset_policy import Freshness, ResetPolicy, freshness
from stores.session_entries import Entry, number
from turngraph.clock import to_ms
from turngraph.inbound import Inbound
from turngraph.session_keys import is_cron, is_heartbeat

_DELIVERY = ("lastChannel", "lastTo", "lastAccountId", "lastThreadId", "deliveryContext")

SYSTEM_RUNS = frozenset({"heartbeat", "cron", "flush"})


def counts_as_interaction(inbound: Inbound) -> bool:
    """Tell whether a run was started by somebody who talks to the agent; heartbeats, jobs and flushes are not."""
    return inbound.kind not in SYSTEM_RUNS


def begins_anew(inbound: Inbound, key: str) -> bool:
    """Tell whether a run always gets a session of its own: isolated jobs and isolated heartbeats."""
    return (inbound.kind == "cron" and is_cron(key)) or (inbound.kind == "heartbeat" and is_heartbeat(key))


def entry_freshness(
    entry: Entry | None, inbound: Inbound, policy: ResetPolicy, now: datetime, zone: tzinfo, header_ms: float | None
) -> Freshness:
    """Hold an entry against the policy; heartbeats and flushes continue whatever is there.

    Args:
        entry: as stored; without one there is nothing to continue.
        inbound: what started the run.
        policy, now, zone: see :func:`nodes.reset_policy.freshness`.
        header_ms: when the transcript says that it began, for entries that do not say it themselves.
    """
    if entry is None:
        return Freshness(False)
    if inbound.kind in ("heartbeat", "flush"):
        return Freshness(True)
    updated, started = number(entry, "updatedAt"), number(entry, "sessionStartedAt")
    interaction = number(entry, "lastInteractionAt")
    if interaction is None and started is None:
        interaction = updated  # an older program's entry: its last write is the best that is known
    return freshness(
        policy,
        now,
        policy.zone(zone),
        updated_ms=updated,
        started_ms=started if started is not None else header_ms,
        interaction_ms=interaction,
    )


def with_inbound_facts(
    entry: Mapping[str, Any], inbound: Inbound, key: str, chat: str, now: datetime
) -> dict[str, Any]:
    """Bring an entry up to date with where and when the message came; a system run does not move the conversation."""
    changed = dict(entry)
    changed.setdefault("chatType", chat)
    if not counts_as_interaction(inbound):
        if begins_anew(inbound, key):
            changed = {name: value for name, value in changed.items() if name not in _DELIVERY}
        return changed
    changed |= {"chatType": chat, "lastInteractionAt": to_ms(now)}
    facts = {"channel": inbound.channel, "to": inbound.peer, "accountId": inbound.account, "threadId": inbound.thread}
    known = {name: value for name, value in facts.items() if value is not None}
    if known:
        changed["deliveryContext"] = {**dict(changed.get("deliveryContext") or {}), **known}
    names = {"channel": "lastChannel", "to": "lastTo", "accountId": "lastAccountId", "threadId": "lastThreadId"}
    changed.update({names[name]: value for name, value in known.items()})
    if chat != "direct":
        if inbound.channel:
            changed["channel"] = inbound.channel
        if inbound.peer:
            changed["groupId"] = inbound.peer
    return changed
