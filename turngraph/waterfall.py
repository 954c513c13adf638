"""The waterfall of a turn: what its prompt was made of, token by token, and what each node took away.

Made from the trace alone, so that a turn of last month is drawn as it was. Source: spec/seeing.md section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.decisions import Decision, Segment, TurnTrace

# In the order in which the model reads them, but for tool schemas, which providers place themselves.
GROUPS = (
    "system section",
    "bootstrap file",
    "skill",
    "tool schema",
    "summary",
    "history message",
    "recalled memory",
    "hook context",
    "current message",
)
BY_NAME = frozenset({"system section", "bootstrap file", "skill", "tool schema", "recalled memory", "hook context"})
MARKS = {"compaction": "compaction above (window less reserve)", "flush": "memory flush from"}
TAKING = frozenset({"limited", "dropped", "trimmed", "cleared", "truncated", "summarised", "skipped"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of the prompt.

    Attributes:
        group: kind of segment; name: section, file, tool, or role of the messages.
        tokens, chars: as sent, with the heading; count: segments in it.
        raw_chars, injected_chars: of a bootstrap file on disk, and of what the prompt holds of it.
    """

    group: str
    name: str
    tokens: int
    chars: int
    count: int = 1
    raw_chars: int | None = None
    injected_chars: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A threshold on the way to the full window, in tokens."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class NodeChange:
    """What one node did to the working set: its size before and after, and the decisions that took something away."""

    node: str
    tokens_in: int | None
    tokens_out: int | None
    decisions: tuple[Decision, ...]

    @property
    def took_away(self) -> bool:
        """Whether it made the working set smaller, or decided to leave something out."""
        return bool(self.decisions) or (self.tokens_out or 0) < (self.tokens_in or 0)


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The prompt of a turn from the empty window down to the head-room.

    Attributes:
        window_tokens: of the model; ``used_tokens``: sum of the bars, by the turn's counter.
        bars: parts in the order of :data:`GROUPS`.
        marks: thresholds, lowest first.
        changes: nodes that changed the working set or took something away, in order.
    """

    window_tokens: int
    used_tokens: int
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    changes: tuple[NodeChange, ...]

    @property
    def headroom_tokens(self) -> int:
        return self.window_tokens - self.used_tokens

    def as_json(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        return {
            "windowTokens": self.window_tokens,
            "usedTokens": self.used_tokens,
            "headroomTokens": self.headroom_tokens,
            "parts": [
                {"group": b.group, "name": b.name, "tokens": b.tokens, "chars": b.chars, "count": b.count}
                | ({"rawChars": b.raw_chars, "injectedChars": b.injected_chars} if b.raw_chars is not None else {})
                for b in self.bars
            ],
            "marks": [{"name": mark.name, "tokens": mark.tokens} for mark in self.marks],
            "nodes": [
                {
                    "node": change.node,
                    "tokensIn": change.tokens_in,
                    "tokensOut": change.tokens_out,
                    "decisions": [
                        {
                            "what": d.what,
                            "why": d.why,
                            "entryIds": list(d.entry_ids),
                            "tokensBefore": d.tokens_before,
                            "tokensAfter": d.tokens_after,
                        }
                        for d in change.decisions
                    ],
                }
                for change in self.changes
            ],
        }


def waterfall(trace: TurnTrace) -> Waterfall:
    """Return the waterfall of a traced turn."""
    decisions = [decision for _, decision in trace.decisions]
    bars = tuple(_bars(trace.segments, _file_sizes(decisions)))
    window = trace.facts.get("window_tokens")
    return Waterfall(
        window_tokens=window if isinstance(window, int) else 0,
        used_tokens=sum(bar.tokens for bar in bars),
        bars=bars,
        marks=_marks(decisions),
        changes=tuple(_changes(trace)),
    )


def _bars(segments: Iterable[Segment], file_sizes: Mapping[str, tuple[int, int]]) -> Iterator[Bar]:
    found: dict[tuple[str, str], list[Segment]] = {}
    for segment in segments:
        name = (segment.name or segment.kind) if segment.kind in BY_NAME else segment.role
        found.setdefault((segment.kind, name), []).append(segment)
    for group in GROUPS:
        for (kind, name), parts in found.items():
            if kind == group:
                raw, injected = file_sizes.get(parts[0].origin.path or "", (None, None))
                yield Bar(
                    group,
                    name,
                    sum(part.tokens for part in parts),
                    sum(len(part.text) if part.chars is None else part.chars for part in parts),
                    len(parts),
                    *((raw, injected) if kind == "bootstrap file" else ()),
                )


def _file_sizes(decisions: Iterable[Decision]) -> dict[str, tuple[int, int]]:
    reports = (d.data["files"] for d in decisions if d.node == "load_bootstrap" and "files" in d.data)
    return {item["path"]: (item["raw"], item["injected"]) for report in reports for item in report}


def _marks(decisions: Iterable[Decision]) -> tuple[Mark, ...]:
    limits = [d.data["limits"] for d in decisions if d.node == "budget" and "limits" in d.data]
    if not limits:
        return ()
    marks = (Mark(MARKS[name], tokens) for name, tokens in limits[-1].items() if name in MARKS and tokens)
    return tuple(sorted(marks, key=lambda mark: mark.tokens))


def _changes(trace: TurnTrace) -> Iterator[NodeChange]:
    for run in trace.nodes:
        taken = tuple(d for ordinal, d in trace.decisions if ordinal == run.ordinal and d.what in TAKING)
        if taken or (run.tokens_in is not None and run.tokens_in != run.tokens_out):
            yield NodeChange(run.node, run.tokens_in, run.tokens_out, taken)
