"""session_hooks: tell plugins that a session ended and another one began.

Source: spec/sessions.md 2.4 step 13 and 6.2.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from nodes.state import SessionFacts, TurnContext
from stores.transcripts import Transcript
from turngraph.decisions import Decision


async def tell_hooks(facts: SessionFacts, context: TurnContext) -> list[Decision]:
    """Tell plugins that a session ended and another began; they see the archive, which is where the old one is."""
    if not facts.is_new:
        return []
    hooks, here = context.hooks, context.hook_context
    decisions: list[Decision] = []
    previous = str((facts.previous or {}).get("sessionId") or "") or None
    if facts.archived is not None and previous is not None:
        if hooks.handles("before_reset"):
            old = await asyncio.to_thread(
                Transcript.open,
                facts.archived,
                session_id=previous,
                clock=context.clock,
                ids=context.ids,
                read_only=True,
            )
            decisions += await hooks.observe(
                "before_reset",
                replace(here, session_id=previous),
                session_file=facts.archived,
                messages=old.context().messages,
                reason=facts.reset_reason,
            )
        decisions += await hooks.observe("session_end", replace(here, session_id=previous), message_count=0)
    decisions += await hooks.observe("session_start", replace(here, session_id=facts.session_id), resumed_from=previous)
    return decisions
