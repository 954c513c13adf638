"""Run a turn on a copy of a session: it sees the conversation, and nothing of it reaches the transcript.

Source: design decision 4.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from stores.sessions import SessionStore

if TYPE_CHECKING:
    from turngraph.api import Agent, TurnResult
    from turngraph.inbound import Inbound


async def run_detached(agent: Agent, inbound: Inbound, *, timeout_s: float | None = None) -> TurnResult:
    """Run one turn on a working copy of its session; the trace goes where all traces go.

    No turn lock is held: a user who writes meanwhile does not wait. Tools are real.

    Args:
        timeout_s: time the turn has, in place of the agent's own limit.
    """
    from graphs.run_turn import run_turn
    from turngraph.api import TurnResult

    context = agent.context(inbound)
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="turngraph-beat-"))
    try:
        context.sessions = await asyncio.to_thread(_copy_session, agent, context.session_key, folder)
        if timeout_s is not None:
            context.deadline = asyncio.get_running_loop().time() + timeout_s
        outcome = await run_turn(inbound, context, sink=agent.trace_store(), lock=nullcontext())
        reply = outcome.reply
        return TurnResult(
            text=reply.text if reply else "",
            kind=reply.kind if reply else "error",
            session_key=context.session_key,
            session_id=outcome.session.session_id if outcome.session else "",
            trace=outcome.trace,
            messages=tuple(outcome.state.get("messages", ())),
        )
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _copy_session(agent: Agent, key: str, folder: Path) -> SessionStore:
    real = agent.sessions()
    copy = SessionStore(folder / real.path.name, agent.id, agent.clock, agent.ids, durable=False)
    entry = real.get(key)
    if entry.get("sessionId"):
        transcript = real.transcript_of(entry)
        if transcript.is_file():
            shutil.copyfile(transcript, folder / transcript.name)
        with copy.transaction() as entries:
            entries[key] = {**entry, "sessionFile": transcript.name}
    return copy
