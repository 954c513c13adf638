"""limit_history: keep the newest user turns, moving the cut in batches so that the prompt cache holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from nodes.history.pairing import pair_results
from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.step import Step, as_tuple, chain
from nodes.history.turn_rules import apply_turn_rules
from nodes.state import TurnContext, TurnState
from turngraph.clock import to_ms
from turngraph.decisions import Decision
from turngraph.messages import Message, entry_ids

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "limit_history"
BATCH = 1.5  # spec/context.md 4.5: the window grows to this before it is cut back to its size
_THREAD = re.compile(r":(?:thread|topic):\d+$", re.IGNORECASE)
_DIRECT, _SHARED = frozenset({"dm", "direct"}), frozenset({"group", "channel"})


@dataclass(frozen=True, slots=True)
class Limited:
    """The kept messages (same objects, same order) and a decision if any went."""

    messages: tuple[Message, ...]
    decision: Decision | None = None


def limit_turns(messages: Sequence[Message], max_user_turns: float | None) -> Limited:
    """Keep about the last ``max_user_turns`` user turns and all that follows the first of them.

    Nothing is cut until half as many again have come; then the window goes back to its size. What stands before the
    first user or assistant message (summaries) is kept. A turn starts at a user message, so the result never opens
    with a tool result that lost its call.

    Args:
        messages: the working set, oldest first.
        max_user_turns: turns to keep; ``None``, 0 or less keeps everything.

    Source: spec/context.md 4.5 (newer release).
    """
    target = int(max_user_turns or 0)
    starts = [index for index, message in enumerate(messages) if message.raw.get("role") == "user"]
    most = ceil(target * BATCH)
    if target <= 0 or len(starts) <= most:
        return Limited(as_tuple(messages))
    kept_turns = target + (len(starts) - target) % (most - target + 1)
    cut = starts[-kept_turns]
    prelude = next((i for i, m in enumerate(messages) if m.raw.get("role") in ("user", "assistant")), 0)
    dropped = messages[prelude:cut]
    if not dropped:
        return Limited(as_tuple(messages))
    kept = (*messages[:prelude], *messages[cut:])
    return Limited(
        kept,
        Decision(
            NODE,
            "limited",
            f"{len(starts)} user turns, limit {target} (cut back when above {most}); {kept_turns} kept",
            entry_ids=entry_ids(dropped),
            count_before=len(messages),
            count_after=len(kept),
            data={"user_turns": len(starts), "limit": target, "kept_turns": kept_turns},
        ),
    )


def history_limit(session_key: str, channels: Mapping[str, Any] | None) -> int | None:
    """Return the number of user turns that the channel of a session key allows, ``None`` for no limit.

    Args:
        session_key: with or without ``agent:<id>:`` in front; with or without an account between channel and kind.
        channels: settings by channel, with the keys of the settings file.

    Source: spec/context.md 4.5.
    """
    parts = [part for part in (session_key or "").split(":") if part]
    if len(parts) >= 3 and parts[0].lower() == "agent":
        parts = parts[2:]
    if len(parts) < 2:
        return None
    channel = (channels or {}).get(parts[0].lower())
    if not isinstance(channel, Mapping):
        return None
    kinds = _DIRECT | _SHARED
    scopes: tuple[Mapping[str, Any], ...]
    if parts[1].lower() in kinds:
        scopes, kind, rest = (channel,), parts[1].lower(), parts[2:]
    elif len(parts) > 2 and parts[2].lower() in kinds:
        account = (channel.get("accounts") or {}).get(parts[1])
        scopes = (account, channel) if isinstance(account, Mapping) else (channel,)
        kind, rest = parts[2].lower(), parts[3:]
    else:
        return None
    return _scoped_limit(scopes, kind, _THREAD.sub("", ":".join(rest)))


def _scoped_limit(scopes: Sequence[Mapping[str, Any]], kind: str, peer: str) -> int | None:
    for scope in scopes:
        if kind in _SHARED:
            found = scope.get("historyLimit")
        else:
            own = (scope.get("dms") or {}).get(peer)
            found = own.get("historyLimit") if isinstance(own, Mapping) else None
            found = scope.get("dmHistoryLimit") if found is None else found
        if found is not None:
            return int(found)
    return None


def limit_and_settle(
    messages: Sequence[Message], max_user_turns: float | None, policy: TranscriptPolicy, now_ms: float
) -> Step:
    """Limit a repaired history, pair calls and results again if that cut it, and apply the provider's turn rules."""

    limited = limit_turns(messages, max_user_turns)
    if limited.decision is None:
        return apply_turn_rules(messages, policy, now_ms)
    settled = chain(
        limited.messages,
        lambda current: pair_results(current, now_ms).step(len(current)),
        lambda current: apply_turn_rules(current, policy, now_ms),
    )
    return Step(settled.messages, (limited.decision, *settled.decisions))


async def limit_history(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node around :func:`limit_and_settle`."""
    context = runtime.context
    facts = context.model.facts
    limited = limit_and_settle(
        state["messages"],
        history_limit(state["session"].key, channel_settings(context.settings)),
        resolve_policy(facts.provider, facts.api, facts.model_id),
        to_ms(context.clock.now()),
    )
    return {"messages": limited.messages, "decisions": limited.decisions}


def channel_settings(settings: Any) -> Mapping[str, Any]:
    """Return the channels of the settings with the keys of the settings file."""
    channels = settings.channels
    dump = getattr(channels, "model_dump", None)
    return dump(by_alias=True, exclude_none=True) if dump else channels or {}
