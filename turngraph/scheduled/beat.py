"""One heartbeat: its gates, the turn on a detached copy, and what of the reply goes out.

Source: spec/scheduling.md A3, known-faults 10, design decision 4.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from nodes.flush_prompts import time_line
from stores.events import AgentEvent, EventFile
from stores.session_entries import number
from turngraph.bootstrap_files import HEARTBEAT
from turngraph.clock import to_ms
from turngraph.errors import TurngraphError
from turngraph.heartbeat_text import TOKEN, beat_prompt, is_effectively_empty, normalise_reply
from turngraph.inbound import Inbound
from turngraph.messages import text_block, user_message
from turngraph.scheduled.beat_state import BeatState, BeatStates
from turngraph.scheduled.delivery import append_to_session, deliver, mirror
from turngraph.scheduled.detached import run_detached
from turngraph.scheduled.reply_parts import reasoning, tool_warning
from turngraph.scheduled.run_sessions import record_run
from turngraph.schedules.active_hours import active_part
from turngraph.schedules.heartbeat import DUPLICATE_MS, Visibility, beat_timeout_s, is_idle, visibility_of
from turngraph.schedules.wakes import reason_kind
from turngraph.session_keys import main_session_key, parse_key, store_key

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from turngraph.api import Agent, TurnResult

log = logging.getLogger("turngraph.heartbeat")

Status = Literal["ran", "skipped", "failed"]
_CALLS_FOR_IT = frozenset({"exec-event", "cron", "wake", "hook"})  # reasons that need no task file


@dataclass(frozen=True, slots=True)
class BeatResult:
    """What came of a heartbeat.

    Attributes:
        status: ran, skipped or failed.
        reason: why it was skipped or failed; of one that ran: ok-empty, ok-token, duplicate, sent, or why nothing
            was sent.
        text: what was delivered.
        trace_id: of the turn, when there was one.
    """

    status: Status
    reason: str
    text: str = ""
    trace_id: str | None = None


async def run_beat(
    agent: Agent,
    reason: str = "interval",
    *,
    flow_run_id: str | None = None,
    session_key: str | None = None,
    target: str | None = None,
) -> BeatResult:
    """Run one heartbeat of an agent, unless a gate stops it.

    Args:
        agent: whose; with the model it would use for a turn.
        reason: what asked for it.
        flow_run_id: Prefect flow run, for the trace.
        session_key: session to look into, in place of the configured one.
        target: where an alert goes, in place of the configured target.

    Raises nothing: a failure is a result.
    """
    states = BeatStates(agent.home)
    before = states.of(agent.id)
    now_ms = to_ms(agent.clock.now())
    key = beat_session(agent, session_key)
    events = EventFile(agent.home.events_file(agent.id))
    waiting = events.waiting("event", key)
    refusal = gate(agent, reason, key, waiting, now_ms)
    if refusal is not None:
        states.write(agent.id, before.ended("skipped", refusal, now_ms))
        return BeatResult("skipped", refusal)
    started = before.started(now_ms)
    states.write(agent.id, started)
    try:
        result, after = await _beat(agent, key, waiting, started, flow_run_id, target)
    except (TurngraphError, OSError, TimeoutError) as error:
        result, after = BeatResult("failed", f"{type(error).__name__}: {error}"), started
    except Exception as error:  # a fault of a plugin or of ours: back off as after every failure
        log.exception("heartbeat of %s failed", agent.id)
        result, after = BeatResult("failed", type(error).__name__), started
    if result.status == "ran":
        events.consume([event.id for event in waiting], to_ms(agent.clock.now()))
    states.write(agent.id, after.ended(result.status, result.reason, to_ms(agent.clock.now())))
    return result


def beat_session(agent: Agent, forced: str | None = None) -> str:
    """Return the session a heartbeat looks into: a forced or configured one of this agent, else its main session."""
    session = agent.settings.session
    if session.scope == "global":
        return "global"
    for wanted in (forced, agent.settings.heartbeat.session):
        if wanted and wanted != "main":
            key = store_key(agent.id, wanted, session.main_key)
            parsed = parse_key(key)
            if parsed is not None and parsed.agent_id == agent.id:
                return key
    return main_session_key(agent.id, session.main_key)


def gate(agent: Agent, reason: str, key: str, waiting: Sequence[AgentEvent], now_ms: int) -> str | None:
    """Return why there is no heartbeat now; ``None`` lets it run."""
    settings = agent.settings
    beat = settings.heartbeat
    kind = reason_kind(reason)
    if not settings.beats or not beat.every:
        return "disabled"
    hours = beat.active_hours
    active = active_part(hours.start, hours.end, hours.timezone, settings.zone) if hours else None
    if active is not None and not active.holds(now_ms):
        return "quiet-hours"
    store = agent.sessions()
    if store.is_running(key):
        return "requests-in-flight"
    if kind != "manual" and is_idle(number(store.get(key), "lastInteractionAt"), beat.idle_gate, now_ms):
        return "session-idle"
    if kind not in _CALLS_FOR_IT and not any((event.tag or "").startswith("cron:") for event in waiting):
        path = agent.home.workspace(agent.id, settings) / HEARTBEAT
        if is_effectively_empty(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None):
            return "empty-heartbeat-file"
    channel = str(store.get(key).get("lastChannel") or "") or None
    return "alerts-disabled" if visibility_of(settings.channels, channel, beat.account_id).is_nothing else None


async def _beat(
    agent: Agent,
    key: str,
    waiting: Sequence[AgentEvent],
    state: BeatState,
    flow_run_id: str | None,
    target: str | None,
) -> tuple[BeatResult, BeatState]:
    settings, beat = agent.settings, agent.settings.heartbeat
    route = _route(agent, key, target or beat.target)
    workspace = agent.home.workspace(agent.id, settings)
    prompt = beat_prompt(
        [event.text for event in waiting],
        configured=beat.prompt,
        heartbeat_file=str(workspace / HEARTBEAT),
        time_line=time_line(agent.clock.now(), settings.zone),
        can_deliver=route.for_alerts is None or route.has_sink,
    )
    isolated = beat.isolated_session
    inbound = Inbound(
        text=prompt,
        session_key=f"{key}:heartbeat" if isolated else key,
        kind="heartbeat",
        flow_run_id=flow_run_id,
        light_context=beat.light_context,
    )
    outcome = await _turn(agent, inbound, isolated=isolated)
    trace_id = outcome.trace.trace_id
    if outcome.kind in ("error", "cancelled"):
        return BeatResult("failed", outcome.text or "the turn gave no reply", trace_id=trace_id), state
    text = outcome.text
    if not text.strip() and outcome.kind != "silent" and not beat.suppress_tool_error_warnings:
        text = tool_warning(outcome.messages) or ""
    said = normalise_reply(text, prefix=settings.messages.response_prefix, ack_max_chars=beat.ack_max_chars)
    if said.skip:
        if route.shows_ok:
            await _send(agent, key, prompt, [TOKEN], route.refusal)
        return BeatResult("ran", "ok-empty" if not text.strip() else "ok-token", trace_id=trace_id), state
    now_ms = to_ms(agent.clock.now())
    if said.text.strip() == state.sent_text and now_ms - (state.sent_ms or 0) < DUPLICATE_MS:
        return BeatResult("ran", "duplicate", trace_id=trace_id), state
    thought = reasoning(outcome.messages) if beat.include_reasoning else None
    refusal = await _send(agent, key, prompt, [*([thought] if thought else []), said.text], route.for_alerts)
    if refusal is not None:
        return BeatResult("ran", refusal, trace_id=trace_id), state
    sent = replace(state, sent_text=said.text.strip(), sent_ms=now_ms)
    return BeatResult("ran", "sent", said.text, trace_id), sent


async def _turn(agent: Agent, inbound: Inbound, *, isolated: bool) -> TurnResult:
    timeout_s = beat_timeout_s(agent.settings)
    if not isolated:
        return await run_detached(agent, inbound, timeout_s=timeout_s)
    async with asyncio.timeout(timeout_s):
        result = await agent.turn(inbound)
    await asyncio.to_thread(record_run, agent.sessions(), result)
    return result


@dataclass(frozen=True, slots=True)
class Route:
    """Where replies of a heartbeat go.

    Attributes:
        refusal: why they reach nobody by the target.
        shows: what the channel shows.
        has_sink: whether they go to a sink as well.
    """

    refusal: str | None
    shows: Visibility
    has_sink: bool

    @property
    def for_alerts(self) -> str | None:
        """Why an alert reaches nobody by the target."""
        return self.refusal or (None if self.shows.show_alerts else "alerts-disabled")

    @property
    def shows_ok(self) -> bool:
        """Whether somebody is told that nothing needs attention."""
        return self.shows.show_ok and (self.refusal is None or self.has_sink)


def _route(agent: Agent, key: str, target: str) -> Route:
    """Return where replies go.

    Without a connector for channels the user reads alerts in the session itself, so that is where they go.
    """
    beat = agent.settings.heartbeat
    entry = agent.sessions().get(key)
    channel = str(entry.get("lastChannel") or "") or None
    refusal = None
    if target == "none":
        refusal = "target-none"
    elif not entry.get("sessionId") or (target != "last" and channel is not None and target != channel):
        refusal = "no-target"
    elif beat.direct_policy == "block" and entry.get("chatType", "direct") == "direct":
        refusal = "dm-blocked"
    shows = visibility_of(agent.settings.channels, channel, beat.account_id)
    return Route(refusal, shows, beat.sink is not None)


async def _send(agent: Agent, key: str, prompt: str, texts: Sequence[str], refusal: str | None) -> str | None:
    """Deliver texts, to the sink and to the session; return why they reached nobody."""
    sink = agent.settings.heartbeat.sink
    problem = refusal
    if sink is not None:
        raw = sink.model_dump(by_alias=True, exclude_none=True)
        whole = "\n\n".join(texts)
        event: Mapping[str, Any] = {"action": "heartbeat", "agentId": agent.id, "summary": whole}
        done = await deliver(whole, raw, agent, event=event, heading="Heartbeat")
        problem = None if done.status == "delivered" else done.error
    if problem is not None:
        return problem
    if refusal is None:
        asked = user_message([text_block(prompt)], agent.clock.now(), provenance={"kind": "internal_system"})
        await append_to_session(agent, key, (asked, *(mirror(text, agent) for text in texts)))
    return None
