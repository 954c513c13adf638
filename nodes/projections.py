"""Projections: how a tool result is shown from now on, recorded once and replayed before every request.

What was shortened once stays shortened with the same bytes, so that the provider can cache the prefix again.
Source: spec/context.md 6.2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nodes.history.step import Step, as_tuple
from turngraph.decisions import Decision
from turngraph.messages import Message, entry_ids, text_block

if TYPE_CHECKING:
    from stores.transcripts import Transcript

PROJECTION_TYPE = "turngraph.projection"


@dataclass(frozen=True, slots=True)
class Projection:
    """How one tool result is shown from now on.

    Attributes:
        tool_call_id, timestamp_ms: which result; ids alone are reused by some models.
        text: what stands in its place.
        entry_id: transcript entry of the result; it holds where the id of the call is rewritten for a provider.
    """

    tool_call_id: str
    timestamp_ms: float | None
    text: str
    entry_id: str | None = None

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """What the result may be found by."""
        by_call = (self.tool_call_id, self.timestamp_ms)
        return (by_call,) if self.entry_id is None else (self.entry_id, by_call)

    def to_data(self) -> dict[str, Any]:
        """Return the data of its ``turngraph.projection`` entry."""
        data = {"toolCallId": self.tool_call_id, "timestamp": self.timestamp_ms, "text": self.text}
        return data if self.entry_id is None else data | {"entryId": self.entry_id}


Projections = Mapping[Hashable, Projection]


def by_key(projections: Iterable[Projection]) -> dict[Hashable, Projection]:
    """Return projections under each of their keys; the last one of a key wins."""
    return {key: projection for projection in projections for key in projection.keys}


def read_projections(entries: Iterable[Any]) -> dict[Hashable, Projection]:
    """Collect projections from the data of ``turngraph.projection`` entries, oldest first; the last one wins.

    An entry may hold one or a list under ``results``; what cannot be read is left out.
    """
    found: list[Projection] = []
    for data in entries:
        items = data.get("results", [data]) if isinstance(data, Mapping) else ()
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, Mapping) or not isinstance(item.get("text"), str):
                continue
            at, entry_id = item.get("timestamp"), item.get("entryId")
            found.append(
                Projection(
                    str(item.get("toolCallId", "")),
                    at if isinstance(at, (int, float)) and not isinstance(at, bool) else None,
                    item["text"],
                    entry_id if isinstance(entry_id, str) else None,
                )
            )
    return by_key(found)


def replay_projections(messages: Sequence[Message], projections: Projections) -> Step:
    """Show every tool result as it was projected before, byte for byte."""
    if not projections:
        return Step(as_tuple(messages))
    out: list[Message] = []
    shown: list[Message] = []
    for message in messages:
        if message.raw.get("role") == "toolResult":
            projection = projections.get(message.entry_id) if message.entry_id else None
            projection = projection or projections.get((message.tool_call_id, message.timestamp_ms))
            if projection is not None and message.raw.get("content") != [text_block(projection.text)]:
                shown.append(message)
                message = message.evolve(content=[text_block(projection.text)])
        out.append(message)
    if not shown:
        return Step(as_tuple(messages))
    why = f"{len(shown)} tool results shown as they were shortened before, so that the cached prefix holds"
    return Step(tuple(out), (Decision("prune", "kept", why, entry_ids(shown)),))


def record_projections(transcript: Transcript, projections: Sequence[Projection]) -> None:
    """Append new projections as one ``turngraph.projection`` entry."""
    data = {"results": [projection.to_data() for projection in projections]}
    transcript.append_custom(PROJECTION_TYPE, data)
