"""What a turn decided, as data: origins, decisions, node runs, prompt segments and the trace of a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

OriginKind = Literal[
    "entry", "bootstrap", "skill", "system", "tool_schema", "hook", "summary", "recall", "synthetic", "inbound"
]
What = Literal[
    "kept",
    "limited",
    "dropped",
    "repaired",
    "trimmed",
    "cleared",
    "truncated",
    "summarised",
    "injected",
    "recalled",
    "skipped",
    "resolved",
    "reset",
    "routed",
    "flushed",
    "written",
    "called",
    "ended",
    "failed",
    "warned",
]
SegmentKind = Literal[
    "system section",
    "bootstrap file",
    "skill",
    "tool schema",
    "summary",
    "history message",
    "hook context",
    "recalled memory",
    "current message",
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message or a prompt segment came from.

    Attributes:
        kind: what kind of source it is.
        entry_id: transcript entry, for ``entry``, ``summary`` and what was made from one.
        path: file relative to the workspace, for ``bootstrap``, ``skill`` and ``recall``.
        lines: first and last line of that file, from 1.
        sha256: of the source text (the file as injected), when it is not in a transcript.
        name: hook, section or tool name; for ``synthetic`` the node that made it.
        replaced: ids of the entries a summary stands for.
    """

    kind: OriginKind
    entry_id: str | None = None
    path: str | None = None
    lines: tuple[int, int] | None = None
    sha256: str | None = None
    name: str | None = None
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One thing a node did, and why.

    Attributes:
        node: the node that decided.
        what: the kind of act; one word of ``What``.
        why: one sentence with the numbers that decided.
        entry_ids: transcript entries it touched.
        path: file it is about, with ``lines`` where known.
        count_before, count_after: messages, files or sections.
        tokens_before, tokens_after: of what it touched.
        chars_before, chars_after: of what it touched, in the unit that ``why`` names.
        data: further numbers by name, plain JSON values.
    """

    node: str
    what: What
    why: str
    entry_ids: tuple[str, ...] = ()
    path: str | None = None
    lines: tuple[int, int] | None = None
    count_before: int | None = None
    count_after: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    chars_before: int | None = None
    chars_after: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One execution of a graph node.

    Attributes:
        ordinal: position in the turn, from 0.
        node: name; nodes of a subgraph carry its prefix (``prompt:model``).
        started: aware UTC time; duration_ms: wall time.
        messages_in/out, tokens_in/out: of the working set before and after, ``None`` where there is none.
        digest: SHA-256 of the working set afterwards, to compare two runs node by node.
        route: the edge label the node chose, with ``why`` (the numbers).
        error: class and message when it raised, ``cancelled`` when it was cancelled.
    """

    ordinal: int
    node: str
    started: datetime
    duration_ms: float
    messages_in: int | None = None
    messages_out: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    digest: str | None = None
    route: str | None = None
    why: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a prompt as it was sent.

    Attributes:
        kind, role, origin: what it is and where it came from.
        name: section, file, skill or tool name.
        text: the part as sent.
        tokens: by the turn's counter.
        block: index of the content block inside the transcript entry, when it is one.
        derived: whether ``text`` differs from what the transcript holds (cut, cleared, repaired).
        sha256, chars: of the text as it was sent, on a segment that was read from a trace; its ``text`` is empty
            until it is looked up.
    """

    kind: SegmentKind
    role: str
    text: str
    tokens: int
    origin: Origin
    name: str | None = None
    block: int | None = None
    derived: bool = False
    sha256: str | None = None
    chars: int | None = None


# Decisions that only say what was there or which way a turn went; a node with another one did something.
QUIET: frozenset[What] = frozenset({"kept", "resolved", "routed", "written", "called", "injected", "skipped"})


def acting_nodes(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """Return the nodes that did something to the prompt or the session, in order, each once."""
    return tuple(dict.fromkeys(decision.node for decision in decisions if decision.what not in QUIET))


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """Everything that is kept of one turn; ``stores.traces`` writes and reads it.

    Source: spec/seeing.md section 1. ``facts`` holds the columns of the turn row that are plain values
    (trigger, model, window, digests, counts, reply kind, attempts, error, flow-run id).
    """

    trace_id: str
    agent_id: str
    session_key: str
    session_id: str
    turn: int
    started: datetime
    ended: datetime
    facts: Mapping[str, Any]
    # Megabytes of text, which asyncio would write out whenever it shows a task that returned them.
    nodes: tuple[NodeRun, ...] = field(repr=False)
    decisions: tuple[tuple[int, Decision], ...] = field(repr=False)
    segments: tuple[Segment, ...] = field(repr=False)
