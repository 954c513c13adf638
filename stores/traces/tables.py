"""Traces as Arrow tables: turns, nodes, decisions, segments, and the texts of a run that travels alone.

The schemas are explicit, so that a column of nulls keeps its type. Every table has ``trace_id``; the others but
``turns`` and ``texts`` have ``ordinal``, the place within the trace, so that a row can be told from its copy.
Source: spec/seeing.md 1.2 to 1.6, spec/spike.md section 6.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from stores.archives import sync_folder
from stores.traces.rows import SCHEMA_VERSION, Row, check_version
from turngraph.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

PARTS = ("nodes", "decisions", "segments")
TABLES = (*PARTS, "turns")  # in the order of writing: the turns make the others visible
TEXTS = "texts"
VERSION_KEY = b"turngraph.trace.schema"
ROW_GROUP_ROWS = 8_192

# Facts of a turn that have a column of their own; all of them stand in ``facts`` as JSON too.
FACT_COLUMNS = {
    "trigger": "text",
    "flow_run_id": "text",
    "model": "text",
    "window_tokens": "int",
    "settings_digest": "text",
    "graph_digest": "text",
    "counter": "text",
    "prompt_tokens": "int",
    "context_tokens": "int",
    "model_calls": "int",
    "reply": "text",
    "overflows": "int",
    "compactions": "int",
    "flushes": "int",
    "error": "text",
}
_COLUMNS: dict[str, dict[str, str]] = {
    "turns": {
        **dict.fromkeys(("trace_id", "agent_id", "session_key", "session_id"), "text"),
        "turn": "int",
        **dict.fromkeys(("started", "ended"), "time"),
        **FACT_COLUMNS,
        "facts": "text",
    },
    "nodes": {
        "trace_id": "text",
        "ordinal": "int",
        "node": "text",
        "started": "time",
        "duration_ms": "float",
        **dict.fromkeys(("messages_in", "messages_out", "tokens_in", "tokens_out"), "int"),
        **dict.fromkeys(("digest", "route", "why", "error"), "text"),
    },
    "decisions": {
        "trace_id": "text",
        **dict.fromkeys(("ordinal", "node_ordinal"), "int"),
        **dict.fromkeys(("node", "what", "why"), "text"),
        "entry_ids": "texts",
        "path": "text",
        "lines": "ints",
        **dict.fromkeys(
            ("count_before", "count_after", "tokens_before", "tokens_after", "chars_before", "chars_after"), "int"
        ),
        "data": "text",
    },
    "segments": {
        "trace_id": "text",
        "ordinal": "int",
        **dict.fromkeys(("kind", "role", "name"), "text"),
        **dict.fromkeys(("tokens", "chars", "block"), "int"),
        "sha256": "text",
        "derived": "bool",
        **dict.fromkeys(("origin_kind", "origin_entry_id", "origin_path"), "text"),
        "origin_lines": "ints",
        **dict.fromkeys(("origin_sha256", "origin_name"), "text"),
        "origin_replaced": "texts",
    },
    TEXTS: {"sha256": "text", "text": "text"},
}


class DamagedTable(StoreError):
    """A Parquet file that cannot be read."""


@cache
def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table, with the schema version in its metadata."""
    import pyarrow as pa

    kinds = {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "texts": pa.list_(pa.string()),
        "ints": pa.list_(pa.int64()),
    }
    columns = [pa.field(name, kinds[kind]) for name, kind in _COLUMNS[table].items()]
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()})


def to_tables(rows: Sequence[Row]) -> dict[str, pa.Table]:
    """Return the four tables of some traces, in the order of :data:`TABLES`."""
    made = {
        "nodes": [{"trace_id": row["trace_id"], **_node(node)} for row in rows for node in row["nodes"]],
        "decisions": [_decision(row, at, d) for row in rows for at, d in enumerate(row["decisions"])],
        "turns": [_turn(row) for row in rows],
    }
    tables = {name: to_table(name, records) for name, records in made.items()} | {"segments": _segments(rows)}
    return {name: tables[name] for name in TABLES}


def _segments(rows: Sequence[Row]) -> pa.Table:
    """Return the table of segments. A row that stands in many traces is translated once."""
    import pyarrow as pa

    places: dict[int, int] = {}
    distinct: list[Row] = []
    taken: list[int] = []
    for row in rows:
        for segment in row["segments"]:
            place = places.setdefault(id(segment), len(distinct))
            if place == len(distinct):
                distinct.append(_segment(segment))
            taken.append(place)
    table = to_table("segments", distinct).take(pa.array(taken, pa.int64()))
    own = {
        "trace_id": [row["trace_id"] for row in rows for _ in row["segments"]],
        "ordinal": [at for row in rows for at, _ in enumerate(row["segments"])],
    }
    for name, values in own.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
    return table


def to_table(name: str, records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return one table; a key that a record lacks is null."""
    import pyarrow as pa

    return pa.Table.from_pylist(list(records), schema=schema(name))


def from_tables(records: Mapping[str, Iterable[Row]]) -> list[Row]:
    """Return the rows of traces from the records of the four tables; each trace and each part of it once."""
    turns = {record["trace_id"]: record for record in records["turns"]}
    parts: dict[str, dict[str, dict[int, Row]]] = {id_: {name: {} for name in PARTS} for id_ in turns}
    for name in PARTS:
        for record in records[name]:
            if record["trace_id"] in parts:
                parts[record["trace_id"]][name][record["ordinal"]] = record
    return [_row(turn, {name: _in_order(found) for name, found in parts[id_].items()}) for id_, turn in turns.items()]


def _in_order(records: Mapping[int, Row]) -> list[Row]:
    return [records[ordinal] for ordinal in sorted(records)]


def _turn(row: Row) -> Row:
    plain = {key: row[key] for key in ("trace_id", "agent_id", "session_key", "session_id", "turn")}
    facts = row["facts"]
    return {
        **plain,
        "started": datetime.fromisoformat(row["started"]),
        "ended": datetime.fromisoformat(row["ended"]),
        **{name: facts.get(name) for name in FACT_COLUMNS},
        "facts": _json(facts),
    }


def _node(node: Row) -> Row:
    return {**node, "started": datetime.fromisoformat(node["started"])}


def _decision(row: Row, at: int, decision: Row) -> Row:
    data = decision.get("data")
    return {
        **decision,
        "trace_id": row["trace_id"],
        "node_ordinal": decision["ordinal"],
        "ordinal": at,
        "data": _json(data) if data else None,
    }


def _segment(segment: Row) -> Row:
    return segment | {f"origin_{key}": value for key, value in segment["origin"].items()}


def _row(turn: Row, parts: Mapping[str, list[Row]]) -> Row:
    plain = {key: turn[key] for key in ("trace_id", "agent_id", "session_key", "session_id", "turn")}
    return {
        "version": SCHEMA_VERSION,
        **plain,
        "started": turn["started"].isoformat(),
        "ended": turn["ended"].isoformat(),
        "facts": orjson.loads(turn["facts"]),
        "nodes": [_said(node) | {"started": node["started"].isoformat()} for node in parts["nodes"]],
        "decisions": [_decision_row(decision) for decision in parts["decisions"]],
        "segments": [_segment_row(segment) for segment in parts["segments"]],
    }


def _said(record: Row) -> Row:
    return {key: value for key, value in record.items() if value is not None and key != "trace_id"}


def _decision_row(record: Row) -> Row:
    said = _said(record)
    said["ordinal"] = said.pop("node_ordinal")
    if "data" in said:
        said["data"] = orjson.loads(said["data"])
    return said


def _segment_row(record: Row) -> Row:
    said = _said(record)
    del said["ordinal"]
    origin = {key.removeprefix("origin_"): said.pop(key) for key in list(said) if key.startswith("origin_")}
    return {**said, "origin": origin}


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def write_table(table: pa.Table, path: Path) -> None:
    """Write one Parquet file; nobody sees half of it (temporary file, fsync, rename)."""
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    parquet.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def read_table(path: Path, *, filters: Any = None, columns: Sequence[str] | None = None) -> list[Row]:
    """Read the records of one Parquet file; a file that is not there has none.

    Raises:
        DamagedTable: when it is no Parquet file.
        StoreError: for one of a newer schema version.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            metadata = parquet.read_schema(file).metadata or {}
            check_version(_version(metadata), str(path))
            file.seek(0)
            table = parquet.read_table(file, filters=filters, columns=list(columns) if columns else None)
    except FileNotFoundError:
        return []
    except pa.ArrowException as error:
        raise DamagedTable(f"{path} cannot be read as Parquet; its traces are missing, it can be deleted") from error
    records: list[Row] = table.to_pylist()
    return records


def _version(metadata: Mapping[bytes, bytes]) -> Any:
    text = metadata.get(VERSION_KEY, b"").decode(errors="replace")
    return int(text) if text.isdigit() else text or "of another program"
