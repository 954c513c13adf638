"""What a message does that comes in while its session is busy: wait, steer the turn, or end it.

Pure: the waiting messages, a new one and the settings in; the new list and what to do with the turn out.
Source: spec/context.md section 8.3, spec/settings.md section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from turngraph.inbound import Inbound
from turngraph.text import head

QueueMode = Literal["collect", "followup", "steer", "steer-backlog", "interrupt"]
QueueDrop = Literal["summarize", "old", "new"]

_SUMMARY_CHARS = 80  # of each message that was dropped


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait for the end of a turn, oldest first, and what became of those beyond the cap.

    Attributes:
        messages: what waits.
        dropped: one line for each message that had to go, when the settings ask for a summary.
        refused: how many went without a trace.
    """

    messages: tuple[Inbound, ...] = ()
    dropped: tuple[str, ...] = ()
    refused: int = 0

    def add(self, inbound: Inbound, cap: int, drop: QueueDrop) -> Waiting:
        """Return the queue with ``inbound`` behind it, cut to ``cap`` messages."""
        if len(self.messages) < cap:
            return replace(self, messages=(*self.messages, inbound))
        if drop == "new":
            return replace(self, refused=self.refused + 1)
        oldest, *rest = (*self.messages, inbound)
        if drop == "old":
            return replace(self, messages=tuple(rest), refused=self.refused + 1)
        line = " ".join(head(oldest.text, _SUMMARY_CHARS).split()) or "a message without text"
        return replace(self, messages=tuple(rest), dropped=(*self.dropped, line))


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a message does to a running turn: whether it steers it, ends it, or waits for its end."""

    steers: bool
    waits: bool
    interrupts: bool = False


def arrival(mode: QueueMode) -> Arrival:
    """Return what a message of a session with this mode does.

    >>> arrival("steer"), arrival("steer-backlog").waits
    (Arrival(steers=True, waits=False, interrupts=False), True)
    """
    return Arrival(
        steers=mode in ("steer", "steer-backlog"),
        waits=mode in ("collect", "followup", "steer-backlog", "interrupt"),
        interrupts=mode == "interrupt",
    )


def next_turns(
    waiting: Waiting, mode: QueueMode, alone: Callable[[Inbound], object] = lambda _: False
) -> tuple[Inbound, ...]:
    """Return the turns that the waiting messages make: one for all of them, or one each.

    A message that ``alone`` picks out, such as a command, is never joined with others.
    Messages that were dropped are named in front of the first turn. With ``interrupt`` only the newest counts; what it
    overtakes stands in front of it, so that nothing a user wrote is lost.
    """
    if not waiting.messages:
        return ()
    separate = mode in ("followup", "steer-backlog")
    turns = waiting.messages if separate else tuple(_merged(run) for run in _runs(waiting.messages, alone))
    if not waiting.dropped:
        return turns
    lines = "\n".join(f"- {line}" for line in waiting.dropped)
    note = f"[{len(waiting.dropped)} earlier messages did not fit the queue:\n{lines}]"
    first = next((index for index, turn in enumerate(turns) if not alone(turn)), 0)
    told = replace(turns[first], text=f"{note}\n\n{turns[first].text}")
    return (*turns[:first], told, *turns[first + 1 :])


def _runs(messages: Sequence[Inbound], alone: Callable[[Inbound], object]) -> list[list[Inbound]]:
    runs: list[list[Inbound]] = []
    open_run = False
    for message in messages:
        single = bool(alone(message))
        if open_run and not single:
            runs[-1].append(message)
        else:
            runs.append([message])
        open_run = not single
    return runs


def _merged(messages: Sequence[Inbound]) -> Inbound:
    if len(messages) == 1:
        return messages[0]
    text = "\n\n".join(message.text for message in messages if message.text)
    files = tuple(attachment for message in messages for attachment in message.attachments)
    return replace(messages[-1], text=text, attachments=files)
