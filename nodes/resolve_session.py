"""resolve_session: find the session that a message continues, or begin a new one.

Everything from reading the table to setting the old transcript aside happens under the lock of the table, so two
messages for one key never make two session ids.
Source: spec/sessions.md 2.4, known-faults section 1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.chat_commands import Asked, asked_of
from nodes.reset_policy import ResetPolicy, policy_of, reset_type
from nodes.session_continuity import (
    begins_anew,
    counts_as_interaction,
    entry_freshness,
    with_inbound_facts,
)
from nodes.session_hooks import tell_hooks
from nodes.session_note import leave_note
from nodes.state import Attempts, Route, SessionFacts, TurnContext, TurnState
from nodes.system_events import waiting_events
from nodes.thread_fork import Forked, fork_from_parent
from stores.locks import TRANSCRIPT_HOLD_MS
from stores.session_entries import Entry, Lookup, find_entry, merge_entry
from stores.session_maintenance import maintain_if_due
from stores.session_paths import is_session_id, transcript_name
from stores.session_recovery import read_header
from stores.session_reset import files_of, next_session, set_aside
from stores.sessions import SessionStore, put_entry
from stores.transcripts import Transcript
from turngraph.clock import parse_iso, to_ms
from turngraph.decisions import Decision
from turngraph.errors import StoreError
from turngraph.inbound import ChatType, Inbound
from turngraph.session_keys import chat_type, key_route
from turngraph.session_routing import inbound_key

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

NODE = "resolve_session"
HOLD_BEYOND_TIMEOUT_MS = 120_000  # spec/sessions.md 3.5

log = logging.getLogger("turngraph.sessions")


async def resolve_session(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: session, command and text of the turn; opens the transcript into the context."""
    context, inbound = runtime.context, state["inbound"]
    asked = asked_of(inbound, context.settings)
    found, context.transcript = await asyncio.to_thread(_resolve_and_open, Resolution(context, inbound, asked))
    decisions = [*found.decisions, *_opening_decisions(context.opened)]
    decisions += await tell_hooks(found.facts, context)
    decisions += await leave_note(found.facts, context, inbound.channel)
    route, why = _route(asked)
    return {
        "session": found.facts,
        "command": asked.command,
        "command_text": asked.text if asked.command else "",
        "text": "" if route != "turn" else asked.text,
        "route": route,
        "why": why,
        "attempts": Attempts(),
        "notes": waiting_events(context, inbound, found.facts.key),
        "decisions": tuple(decisions),
    }


@dataclass(frozen=True, slots=True)
class Resolved:
    """The session of a turn, and how it was found."""

    facts: SessionFacts
    decisions: tuple[Decision, ...]


@dataclass(slots=True)
class Resolution:
    """One walk from an inbound message to its session; does I/O and blocks."""

    context: TurnContext
    inbound: Inbound
    asked: Asked

    def run(self) -> Resolved:
        """Resolve, write the table, set an ended transcript aside, tidy up.

        Raises:
            SessionBusy: another process holds the table or the transcript.
            StoreError: a reset that was asked for could not be done; the old session stands.
        """
        settings, store = self.context.settings, self.context.sessions
        key = inbound_key(self.inbound, self.context.agent_id, settings.session)
        timeout_ms = settings.session.busy_timeout_ms
        current = store.get(key)
        if files_of(store, current):
            self._hold(key, store.transcript_of(current))
        with store.locked(timeout_ms=timeout_ms):
            with store.transaction() as entries:
                before = find_entry(entries, key)
                resolved = self._decide(key, before.entry, self._parent(key, entries))
                put_entry(entries, before, resolved.facts.entry)
            if resolved.facts.reset_reason is not None:
                resolved = self._set_aside(resolved, before)
        self._hold(key, resolved.facts.path)
        if self.context.live:
            maintain_if_due(store, settings.session.maintenance, active_key=key, main_key=settings.session.main_key)
        return resolved

    def _hold(self, key: str, path: Path) -> None:
        """Keep other programs from the transcript until the turn ends, or until it should long have ended."""
        settings = self.context.settings
        longest_ms = max(TRANSCRIPT_HOLD_MS, settings.timeout_seconds * 1000 + HOLD_BEYOND_TIMEOUT_MS)
        wait_ms = settings.session.busy_timeout_ms
        most_ms = longest_ms if self.context.live else None
        self.context.sessions.hold_transcript(key, path, timeout_ms=wait_ms, max_hold_ms=most_ms)

    def _decide(self, key: str, entry: Entry | None, parent: Entry | None) -> Resolved:
        context, inbound = self.context, self.inbound
        now, chat = context.clock.now(), _chat_type(key, inbound)
        policy = self._policy(key, chat)
        usable = entry is not None and is_session_id(str(entry.get("sessionId") or ""))
        started = _header_ms(context.sessions, entry)
        fresh = entry_freshness(entry, inbound, policy, now, context.settings.zone, started)
        anew = begins_anew(inbound, key)
        stale = fresh.reason if usable and not anew else None
        ended = str(self.asked.command) if self.asked.resets else stale
        is_new = not usable or anew or ended is not None
        if is_new:
            changed = next_session(entry, context.ids.uuid(), ended, now)
            changed["sessionFile"] = transcript_name(changed["sessionId"], inbound.thread)
            changed |= _override(self.asked.model)
        else:
            changed = {**(entry or {}), **({} if started is None else {"sessionStartedAt": started})}
        changed = with_inbound_facts(changed, inbound, key, chat, now)
        forked = fork_from_parent(context, parent, changed) if parent else Forked(changed)
        touch = counts_as_interaction(inbound)
        merged = merge_entry(None, forked.entry, now_ms=to_ms(now), new_id=context.ids.uuid, touch=touch)
        facts = SessionFacts(
            key=key,
            session_id=merged["sessionId"],
            path=context.sessions.transcript_of(merged),
            entry=merged,
            is_new=is_new,
            reset_reason=ended,
            previous=entry if is_new else None,
            bare_reset=self.asked.resets and not self.asked.text and not inbound.attachments,
            chat_type=chat,
        )
        chosen = Decision(NODE, "reset" if ended else "resolved", _why(facts, policy.mode, policy.configured))
        return Resolved(facts, (chosen, *forked.decisions, *_refused(self.asked)))

    def _policy(self, key: str, chat: ChatType) -> ResetPolicy:
        inbound, route = self.inbound, key_route(key)
        kind = reset_type(key, threaded=inbound.thread is not None, in_group=chat != "direct")
        channel = inbound.channel or (route.channel if route else None)
        return policy_of(self.context.settings.session, "direct" if inbound.kind == "cron" else kind, channel)

    def _parent(self, key: str, entries: Mapping[str, Entry]) -> Entry | None:
        """Return the entry of the chat that the message says its thread hangs under."""
        named = self.inbound.parent_session_key
        found = find_entry(entries, named) if named else None
        return found.entry if found and found.key != key else None

    def _set_aside(self, resolved: Resolved, before: Lookup) -> Resolved:
        """Archive the transcript of the session that ended; a command that cannot do it changes nothing."""
        try:
            archived = set_aside(self.context.sessions, before, self.context.clock.now())
        except StoreError as error:
            if self.asked.resets:
                raise
            return self._go_on(before, str(error))
        if not archived:
            return resolved
        note = Decision(NODE, "written", f"the ended session is archived as {archived[0].name}", path=archived[0].name)
        return Resolved(replace(resolved.facts, archived=archived[0]), (*resolved.decisions, note))

    def _go_on(self, before: Lookup, problem: str) -> Resolved:
        """Continue a session whose automatic reset failed: it is tried again with the next message."""
        entry = before.entry or {}
        facts = SessionFacts(
            key=before.key,
            session_id=str(entry["sessionId"]),
            path=self.context.sessions.transcript_of(entry),
            entry=entry,
            chat_type=_chat_type(before.key, self.inbound),
        )
        log.warning(problem)
        return Resolved(facts, (Decision(NODE, "failed", problem),))


def _header_ms(store: SessionStore, entry: Entry | None) -> int | None:
    """Return when a session began as its transcript says, for an entry that does not say it."""
    if entry is None or "sessionStartedAt" in entry:
        return None
    for path in files_of(store, entry):
        moment = parse_iso(str(read_header(path).get("timestamp") or ""))
        if moment is not None:
            return to_ms(moment)
    return None


def _chat_type(key: str, inbound: Inbound) -> ChatType:
    """Return the kind of chat; what is shared by either account is treated as shared."""
    named = chat_type(key)
    if inbound.chat_type != "direct" or named == "unknown":
        return inbound.chat_type
    return named


def _override(model: str | None) -> dict[str, Any]:
    if model is None:
        return {}
    provider, _, name = model.partition(":")
    return {"providerOverride": provider, "modelOverride": name, "modelOverrideSource": "user"}


def _why(facts: SessionFacts, mode: str, configured: bool) -> str:
    old = (facts.previous or {}).get("sessionId")
    if facts.reset_reason and old:
        return f"{facts.key}: session {old} ended ({facts.reset_reason}), {facts.session_id} begins"
    if facts.is_new:
        return f"{facts.key}: no session to continue, {facts.session_id} begins"
    source = "configured" if configured else "default"
    return f"{facts.key}: session {facts.session_id} continues (automatic reset {mode}, {source})"


def _refused(asked: Asked) -> tuple[Decision, ...]:
    if asked.refused is None:
        return ()
    return (Decision(NODE, "skipped", f"{asked.refused} is read as text: the sender may not give commands"),)


def _route(asked: Asked) -> tuple[Route, str]:
    if asked.command in ("status", "context"):
        return "command", f"/{asked.command} is answered without a model"
    if asked.command == "compact":
        return "compact now", "/compact was asked for"
    return "turn", "an ordinary turn"


def _resolve_and_open(resolution: Resolution) -> tuple[Resolved, Transcript]:
    found, context = resolution.run(), resolution.context
    facts = found.facts
    return found, context.transcripts.open(
        facts.path,
        session_id=facts.session_id,
        clock=context.clock,
        ids=context.ids,
        cwd=str(context.workspace) if context.live else None,
        session_key=facts.key,
    )


def _opening_decisions(transcript: Transcript) -> tuple[Decision, ...]:
    report = transcript.report
    broken = report.broken_lines
    notes = []
    if broken:
        where = ", ".join(str(line) for line in broken[:10])
        notes.append(
            Decision(NODE, "warned", f"{len(broken)} broken lines left out: {where}", count_before=len(broken))
        )
    if report.torn_bytes:
        notes.append(Decision(NODE, "warned", f"an unfinished last line of {report.torn_bytes} bytes left out"))
    notes += [Decision(NODE, "repaired", repair) for repair in report.repairs]
    return tuple(notes)
