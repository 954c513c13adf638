"""End a session from outside a turn: as ``/reset`` does it, with the note in the memory.

Source: spec/sessions.md 6.2 and 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodes.session_note import leave_note
from nodes.state import SessionFacts
from stores.session_reset import reset_session
from turngraph.api import Agent
from turngraph.errors import ModelError
from turngraph.inbound import Inbound
from turngraph.models.registry import OFFLINE
from turngraph.session_keys import store_key


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """A session that has ended.

    Attributes:
        key, session_id: the session key, and the id that begins with its next message.
        previous_id, archived: the id that ended, and the archive its transcript became.
        note: path of the note in the workspace; ``None`` when the user said nothing, or notes are off.
        problem: why there is no note though there should be one.
    """

    key: str
    session_id: str
    previous_id: str | None
    archived: Path | None
    note: str | None = None
    problem: str | None = None


async def end_session(agent: Agent, session_key: str) -> SessionEnd:
    """Archive the transcript of a session and leave its note; waits for a running turn to end.

    Raises:
        NotFound: there is no such session.
        SessionBusy: its turn runs for longer than ``session.busyTimeoutMs``.
        StoreError: the transcript could not be archived; the session goes on as it was.
    """
    session = agent.settings.session
    key = store_key(agent.id, session_key, session.main_key)
    store = agent.sessions()
    before = store.get(key)
    done = await reset_session(store, key, timeout_ms=session.busy_timeout_ms)
    entry = store.get(key)
    facts = SessionFacts(
        key=key,
        session_id=done.session_id,
        path=store.transcript_of(entry),
        entry=entry,
        is_new=True,
        reset_reason="reset",
        previous=before,
        archived=done.archived,
    )
    try:
        context = agent.context(Inbound("", session_key=key))
    except ModelError:  # only a note that a model names needs one, and it does without
        plain = Agent(agent.home, agent.settings, model=OFFLINE, clock=agent.clock, ids=agent.ids)
        context = plain.context(Inbound("", session_key=key))
    told = next(iter(await leave_note(facts, context, "cli")), None)
    failed = told.why if told is not None and told.what == "failed" else None
    return SessionEnd(
        key, done.session_id, done.previous_id, done.archived, told.path if told is not None else None, failed
    )
