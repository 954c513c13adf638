"""thread_fork: let a new thread begin with the history of the chat that it hangs under.

Source: spec/sessions.md 2.4 step 8 and 5.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodes.state import TurnContext
from stores.session_entries import Entry
from stores.session_recovery import read_header
from stores.transcript_forks import fork_session
from stores.transcripts import Transcript
from turngraph.decisions import Decision
from turngraph.errors import TranscriptError
from turngraph.tokens import total

NODE = "resolve_session"


@dataclass(frozen=True, slots=True)
class ForkChoice:
    """Whether a thread begins with a copy of its parent's history, and why or why not."""

    fork: bool
    why: str


def fork_choice(parent_tokens: int, limit: int) -> ForkChoice:
    """Decide by the size of the parent's visible history; a limit of 0 is none."""
    if limit and parent_tokens > limit:
        return ForkChoice(False, f"the parent's history of {parent_tokens} tokens is above the limit of {limit}")
    return ForkChoice(True, f"begins with the parent's history of {parent_tokens} tokens")


@dataclass(frozen=True, slots=True)
class Forked:
    """The entry of the thread afterwards, and what was decided."""

    entry: Mapping[str, Any]
    decisions: tuple[Decision, ...] = ()


def fork_from_parent(context: TurnContext, parent: Entry, entry: Mapping[str, Any]) -> Forked:
    """Give a thread that has no history yet that of its parent.

    A thread is asked about once, also when its parent is too large; a copy that fails is tried again next turn as long
    as the thread has no transcript of its own.

    Args:
        context: of the turn.
        parent: entry of the chat that the thread hangs under.
        entry: entry of the thread.
    """
    sessions = context.sessions
    if entry.get("forkedFromParent") or sessions.transcript_of(entry).is_file():
        return Forked(entry)
    source = sessions.transcript_of(parent)
    if not source.is_file():
        return Forked(entry)
    try:
        tokens = _visible_tokens(source, context)
        choice = fork_choice(tokens, context.settings.session.parent_fork_max_tokens)
        if not choice.fork:
            return Forked({**entry, "forkedFromParent": True}, (Decision(NODE, "skipped", choice.why),))
        child = fork_session(source, clock=context.clock, ids=context.ids)
    except TranscriptError as error:
        return Forked(entry, (Decision(NODE, "failed", f"the parent's history could not be copied: {error}"),))
    if child is None:
        return Forked(entry)
    own = {"sessionId": str(read_header(child)["id"]), "sessionFile": child.name, "forkedFromParent": True}
    return Forked({**entry, **own}, (Decision(NODE, "resolved", choice.why, tokens_after=tokens),))


def _visible_tokens(source: Path, context: TurnContext) -> int:
    opened = Transcript.open(source, session_id=source.stem, clock=context.clock, ids=context.ids, read_only=True)
    return total(context.counter, opened.context().messages)
