"""system_events: tell the model what has happened since the last turn: notices of jobs, ends of commands.

Events wait in ``events.jsonl`` and go with the newest message of the next turn that a user starts; they are consumed
when that turn has been answered, so a turn that is killed loses none.
Source: design.md Disk, spec/scheduling.md A2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.state import ContextNote
from stores.events import EventFile
from turngraph.clock import to_ms
from turngraph.decisions import Decision, Origin
from turngraph.untrusted import untrusted_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodes.state import TurnContext
    from turngraph.inbound import Inbound

NAME = "system event"
MAX_EVENT_CHARS = 2_000


def waiting_events(context: TurnContext, inbound: Inbound, key: str) -> tuple[ContextNote, ...]:
    """Return the events that wait for a session as notes, oldest first; only turns of users get them."""
    if not context.live or inbound.kind != "user":
        return ()
    events = EventFile(context.home.events_file(context.agent_id)).waiting("event", key)
    return tuple(
        ContextNote(
            NAME, untrusted_block("System event", event.text, MAX_EVENT_CHARS), Origin("inbound", name=event.id)
        )
        for event in events
    )


def consume_events(notes: Sequence[ContextNote], context: TurnContext) -> tuple[Decision, ...]:
    """Mark the events that went with an answered turn as dealt with."""
    told = [note.origin.name for note in notes if note.name == NAME and note.origin.name]
    if not told:
        return ()
    EventFile(context.home.events_file(context.agent_id)).consume(told, to_ms(context.clock.now()))
    return (Decision("system_events", "injected", f"{len(told)} system events went with the message"),)
