"""Session keys: grammar, facts, ids and how keys are built (spec/sessions.md 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodes.reset_policy import reset_type
from tests.vectors.runner import Case
from turngraph import session_keys as keys
from turngraph import session_routing as routing

TOPIC = "sessions"


def _parsed(case: Case) -> dict[str, str] | None:
    parsed = keys.parse_key(case.input["sessionKey"] or "")
    return {"agentId": parsed.agent_id, "rest": parsed.rest} if parsed else None


def _facts(case: Case) -> dict[str, Any]:
    key = case.input["sessionKey"] or ""
    base, thread = keys.thread_parts(key)
    return {
        "chatType": keys.chat_type(key),
        "shape": keys.key_shape(key),
        "agentId": keys.agent_of(key),
        "isCronRun": keys.is_cron_run(key),
        "isCron": keys.is_cron(key),
        "isSubagent": keys.is_subagent(key),
        "isAcp": keys.is_acp(key),
        "subagentDepth": keys.subagent_depth(key),
        "threadParent": keys.thread_parent(key),
        "requestKey": keys.request_key(key) or None,
        "thread": {"base": base or None, "threadId": thread},
        "resetType": reset_type(key),
    }


def _peer_key(case: Case) -> str:
    given = case.input
    return routing.peer_key(
        given["agentId"],
        channel=given.get("channel"),
        account=given.get("accountId"),
        kind=given.get("peerKind", "direct"),
        peer=given.get("peerId"),
        main_key=given.get("mainKey"),
        dm_scope=given.get("dmScope", "main"),
        group_scope=given.get("groupScope", "per-group"),
        identity_links=given.get("identityLinks"),
    )


def _thread_keys(case: Case) -> dict[str, Any]:
    given = case.input
    suffix = given.get("useSuffix", True)
    base = given["baseSessionKey"]
    key = routing.thread_key(base, given.get("threadId")) if suffix else base
    return {"sessionKey": key, "parentSessionKey": given.get("parentSessionKey")}


def _group(case: Case) -> dict[str, str] | None:
    given = case.input
    found = routing.group_address(given.get("From"), given.get("Provider"), given.get("ChatType"))
    return {"key": found.key, "channel": found.channel, "id": found.id, "chatType": found.kind} if found else None


def _resolved(case: Case) -> str:
    context = case.input["ctx"]
    kind = context.get("ChatType")
    if context.get("SessionKey"):
        sender = context.get("SenderId")
        return routing.explicit_key(context["SessionKey"], channel=context.get("Provider"), kind=kind, sender=sender)
    if case.input["scope"] == "global":
        return "global"
    group = routing.group_address(context.get("From"), context.get("Provider"), kind)
    return f"agent:main:{group.key}" if group else keys.main_session_key("main", case.input.get("mainKey"))


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "parse_agent_session_key": _parsed,
    "session_key_facts": _facts,
    "normalize_agent_id": lambda case: keys.normalize_agent_id(case.input["value"]),
    "normalize_account_id": lambda case: {
        "required": keys.normalize_account_id(case.input["value"]),
        "optional": keys.account_id(case.input["value"]),
    },
    "build_agent_peer_session_key": _peer_key,
    "build_agent_peer_session_key@2026.9": _peer_key,
    "normalize_session_key@2026.9": lambda case: keys.fold_key(case.input["sessionKey"]),
    "subagent_depth@2026.9": lambda case: keys.subagent_depth(case.input["sessionKey"]),
    "to_agent_store_session_key": lambda case: keys.store_key(
        case.input["agentId"], case.input["requestKey"], case.input.get("mainKey")
    ),
    "resolve_thread_session_keys": _thread_keys,
    "resolve_group_session_key": _group,
    "resolve_session_key": _resolved,
}
