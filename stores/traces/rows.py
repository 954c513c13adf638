"""A turn's trace as one plain row, and back: what the open days hold and what the tables are made of.

Source: spec/seeing.md section 1. Texts of segments are not part of a row, only their digest and size.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from turngraph.decisions import Decision, NodeRun, Origin, Segment, TurnTrace
from turngraph.errors import StoreError

SCHEMA_VERSION = 1  # of open days, spools and tables

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which traces a reader asks for; ``None`` leaves a condition out. ``newest`` is how many of a day."""

    session_key: str | None = None
    trace_id: str | None = None
    turn: int | None = None
    newest: int | None = None

    @property
    def values(self) -> dict[str, str | int]:
        """The columns of a turn that are compared, with their values."""
        asked = {"session_key": self.session_key, "trace_id": self.trace_id, "turn": self.turn}
        return {name: value for name, value in asked.items() if value is not None}

    def select(self, rows: Iterable[Row]) -> list[Row]:
        """Return the wanted rows (of traces, or of the table of turns), oldest first."""
        fitting = [row for row in rows if all(row[name] == value for name, value in self.values.items())]
        fitting.sort(key=lambda row: (row["started"], row["turn"], row["trace_id"]))
        return fitting if self.newest is None else fitting[max(0, len(fitting) - self.newest) :]


EVERYTHING = Wanted()


def to_line(trace: TurnTrace) -> bytes:
    """Write a trace as one line of JSON with sorted keys, line end included: equal traces give equal bytes.

    Wall times stand in the fields ``duration_ms`` of the nodes and nowhere else.

    Raises:
        TypeError: when ``facts`` or the ``data`` of a decision hold a value that JSON does not have.
    """
    return json_line(to_row(trace), sort_keys=True)


def json_line(row: Mapping[str, Any], *, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> bytes:
    """Write a row as one line of JSON; half a surrogate pair, which a model may have answered, becomes a "?".

    Raises:
        TypeError: when the row holds a value that JSON does not have.
    """
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | (orjson.OPT_SORT_KEYS if sort_keys else 0)
    try:
        return orjson.dumps(row, default=default, option=option)
    except TypeError:
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys, default=default)
        return text.encode("utf-8", "replace") + b"\n"


def to_row(trace: TurnTrace) -> Row:
    """Return a trace as plain values; what is absent or empty is left out."""
    return _row(trace, _segment_row)


def to_rows(traces: Sequence[TurnTrace]) -> list[Row]:
    """Return traces as plain values; a segment that several prompts share has one row, the same object in each."""
    made: dict[int, Row] = {}

    def segment_row(segment: Segment) -> Row:
        key = id(segment)  # the traces keep it alive
        if key not in made:
            made[key] = _segment_row(segment)
        return made[key]

    return [_row(trace, segment_row) for trace in traces]


def _row(trace: TurnTrace, segment_row: Callable[[Segment], Row]) -> Row:
    return {
        "version": SCHEMA_VERSION,
        "trace_id": trace.trace_id,
        "agent_id": trace.agent_id,
        "session_key": trace.session_key,
        "session_id": trace.session_id,
        "turn": trace.turn,
        "started": _utc(trace.started),
        "ended": _utc(trace.ended),
        "facts": dict(trace.facts),
        "nodes": [_plain(run) for run in trace.nodes],
        "decisions": [{**_plain(decision), "ordinal": ordinal} for ordinal, decision in trace.decisions],
        "segments": [segment_row(segment) for segment in trace.segments],
    }


def from_row(row: Mapping[str, Any], source: str) -> TurnTrace:
    """Build a trace from its row; the segments have digest and size in place of their text.

    Raises:
        StoreError: when the row has a newer schema version; ``source`` names where it stands.
        KeyError, TypeError, ValueError: when the row is not one of ours.
    """
    check_version(row["version"], source)
    return TurnTrace(
        trace_id=row["trace_id"],
        agent_id=row["agent_id"],
        session_key=row["session_key"],
        session_id=row["session_id"],
        turn=row["turn"],
        started=datetime.fromisoformat(row["started"]),
        ended=datetime.fromisoformat(row["ended"]),
        facts=row["facts"],
        nodes=tuple(NodeRun(**{**run, "started": datetime.fromisoformat(run["started"])}) for run in row["nodes"]),
        decisions=tuple(_decision(decision) for decision in row["decisions"]),
        segments=tuple(_segment(segment) for segment in row["segments"]),
    )


def check_version(version: Any, source: str) -> None:
    """Refuse what a newer program wrote.

    Raises:
        StoreError: for a version above :data:`SCHEMA_VERSION`.
    """
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise StoreError(
            f"{source} has trace schema {version}, this program reads up to {SCHEMA_VERSION}; "
            "read it with the newer turngraph that wrote it"
        )


def text_digest(segment: Segment) -> str:
    """Return the SHA-256 of a segment's text, also when the text itself is not at hand."""
    return segment.sha256 or sha256(segment.text.encode("utf-8", "surrogatepass")).hexdigest()


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _plain(value: Any) -> Row:
    """Return the fields of a frozen record that say something; ``None`` and empty ones follow from the type."""
    plain: Row = {}
    for name in _FIELDS[type(value)]:
        item = getattr(value, name)
        if type(item) in _SCALARS:
            plain[name] = item
        elif isinstance(item, datetime):
            plain[name] = _utc(item)
        elif item:
            plain[name] = list(item) if isinstance(item, tuple) else dict(item)
    return plain


_SCALARS = frozenset({str, int, float, bool})
_OF_SEGMENT_ROW = frozenset({"text", "origin", "sha256", "chars"})  # fields that a segment's row fills by itself
_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(field.name for field in fields(kind) if kind is not Segment or field.name not in _OF_SEGMENT_ROW)
    for kind in (NodeRun, Decision, Segment, Origin)
}


def _segment_row(segment: Segment) -> Row:
    return {
        **_plain(segment),
        "origin": _plain(segment.origin),
        "sha256": text_digest(segment),
        "chars": len(segment.text) if segment.sha256 is None else segment.chars or 0,
    }


def _segment(row: Mapping[str, Any]) -> Segment:
    return Segment(**{**row, "text": "", "origin": _origin(row["origin"])})


def _origin(row: Mapping[str, Any]) -> Origin:
    return Origin(**{**row, **_tuples(row, "lines", "replaced")})


def _decision(row: Mapping[str, Any]) -> tuple[int, Decision]:
    named = {key: value for key, value in row.items() if key != "ordinal"}
    return row["ordinal"], Decision(**{**named, **_tuples(row, "entry_ids", "lines")})


def _tuples(row: Mapping[str, Any], *names: str) -> Row:
    return {name: tuple(row[name]) for name in names if name in row}
