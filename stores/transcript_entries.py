"""Entries of a transcript: one JSON object a line, parsed strictly, migrated in memory to the current version.

Source: spec/sessions.md sections 4.1 to 4.5.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

import orjson

from turngraph.clock import parse_iso, to_ms
from turngraph.text import js_trim

CURRENT_VERSION = 3
LEAF_TYPE = "turngraph.leaf"  # custom entry that makes a moved leaf durable: design decision 4
SUMMARY_BOUNDARIES = frozenset({"compaction", "reset"})

_SURROGATE = re.compile("[\ud800-\udfff]")

Raw = Mapping[str, Any]
Row = tuple[int, dict[str, Any]]  # line number from 1, parsed object


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a transcript.

    Attributes:
        id, parent_id, type: as stored, or as given by migration and repair.
        timestamp: ISO text as stored; empty when there is none.
        raw: the whole object, unknown fields too; never edited.
        line: line number from 1; ``None`` when the file was read from its end.
    """

    id: str
    parent_id: str | None
    type: str
    timestamp: str
    raw: Raw
    line: int | None = None

    @property
    def at_ms(self) -> int:
        """Time of the entry in epoch milliseconds; 0 when it cannot be parsed."""
        moment = parse_iso(self.timestamp) if self.timestamp else None
        return to_ms(moment) if moment else 0

    @property
    def message(self) -> Raw | None:
        """The stored message of a ``message`` entry."""
        value = self.raw.get("message") if self.type == "message" else None
        return value if isinstance(value, dict) else None

    def text_field(self, name: str) -> str | None:
        """Return a field that is a non-empty text, else ``None``."""
        value = self.raw.get(name)
        return value if isinstance(value, str) and value else None


def entry_of(raw: Raw, line: int | None = None) -> Entry:
    """Wrap an object that has a text ``id``."""
    parent, kind, timestamp = raw.get("parentId"), raw.get("type"), raw.get("timestamp")
    return Entry(
        raw["id"],
        parent if isinstance(parent, str) and parent else None,
        kind if isinstance(kind, str) else "",
        timestamp if isinstance(timestamp, str) else "",
        raw,
        line,
    )


def has_id(raw: Raw) -> bool:
    """Tell whether an object carries a usable id."""
    value = raw.get("id")
    return isinstance(value, str) and bool(value)


def is_header(raw: Raw) -> bool:
    """Tell whether an object is a session header, good or damaged."""
    return raw.get("type") == "session"


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Parse one line; ``None`` when it is no JSON object.

    Strict as JSON is: ``NaN``, ``Infinity`` and trailing commas are malformed. What only orjson refuses (lone
    surrogates, a byte order mark, bytes that are no UTF-8) is read, with U+FFFD for what is no character.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _parse_odd_line(line)
    return value if isinstance(value, dict) else None


def is_blank(line: bytes) -> bool:
    """Tell whether a line holds white space only, as JavaScript sees it."""
    return not line.strip() or not js_trim(line.decode("utf-8", "replace"))


def _parse_odd_line(line: bytes) -> Any:
    try:
        text = line.decode("utf-8", "replace").lstrip("\ufeff").strip(" \t\r\n")
        value = json.loads(text, parse_constant=_refuse_constant)
        return orjson.loads(_as_text(value))
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def dump_line(raw: Raw) -> bytes:
    """Write an object as one line with its LF, as JavaScript would; half a surrogate pair becomes U+FFFD."""
    try:
        return orjson.dumps(raw, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # surrogates, or integers beyond 64 bits
        return _as_text(raw).encode() + b"\n"


def _as_text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _SURROGATE.sub("\ufffd", text)


def header_version(header: Raw | None) -> int:
    """Return the version a header names; a missing one is 1."""
    value = header.get("version") if header else None
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def derived_id(session_id: str, line: int, taken: Container[str]) -> str:
    """Derive the id of an entry that has none, so that two reads agree (design decision 2)."""
    digest = sha256(f"{session_id}:{line}".encode()).hexdigest()
    length = 8
    while digest[:length] in taken and length < len(digest):
        length += 1
    return digest[:length]


def migrate(rows: Sequence[Row], version: int, session_id: str) -> list[Row]:
    """Bring the objects of a file (headers among them) to the current version; the given ones are not changed.

    Version 1 has neither ids nor parents: entries form one chain in file order, a compaction names the kept
    entry by its index. Version 2 calls custom messages ``hookMessage``.
    Source: spec/sessions.md 4.5.
    """
    if version >= CURRENT_VERSION:
        return list(rows)
    migrated = _chain(rows, session_id) if version < 2 else list(rows)
    return [(line, _rename_hook_message(_set_version(raw))) for line, raw in migrated]


def _chain(rows: Sequence[Row], session_id: str) -> list[Row]:
    ids = _unique_ids(rows, session_id)
    chained: list[Row] = []
    parent: str | None = None
    for index, (line, raw) in enumerate(rows):
        own = ids[index]
        if own is not None:
            raw = raw | {"id": own, "parentId": parent}
            parent = own
            if raw.get("type") == "compaction" and "firstKeptEntryIndex" in raw:
                kept = raw.pop("firstKeptEntryIndex")
                target = ids[kept] if isinstance(kept, int) and 0 <= kept < len(ids) else None
                if target is not None:
                    raw["firstKeptEntryId"] = target
        chained.append((line, raw))
    return chained


def _unique_ids(rows: Sequence[Row], session_id: str) -> list[str | None]:
    """Return the id of each object, ``None`` for headers: its own when no other has it, else a derived one."""
    owners = Counter(raw["id"] for _, raw in rows if has_id(raw) and not is_header(raw))
    taken = set(owners)
    ids: list[str | None] = []
    for line, raw in rows:
        if is_header(raw):
            ids.append(None)
        elif has_id(raw) and owners[raw["id"]] == 1:
            ids.append(raw["id"])
        else:
            ids.append(derived_id(session_id, line, taken))
            taken.add(ids[-1] or "")
    return ids


def _set_version(raw: dict[str, Any]) -> dict[str, Any]:
    return raw | {"version": CURRENT_VERSION} if is_header(raw) else raw


def _rename_hook_message(raw: dict[str, Any]) -> dict[str, Any]:
    message = raw.get("message")
    if raw.get("type") != "message" or not isinstance(message, dict) or message.get("role") != "hookMessage":
        return raw
    return raw | {"message": {"customType": "hook"} | message | {"role": "custom"}}


def fill_ids(rows: Iterable[Row], session_id: str) -> tuple[list[Row], int]:
    """Give a derived id to every entry that lacks one, and link it to the entry before it when it names no parent.

    Returns the rows and how many ids were given.
    """
    rows = list(rows)
    if all(has_id(raw) for _, raw in rows):
        return rows, 0
    taken = {raw["id"] for _, raw in rows if has_id(raw)}
    filled: list[Row] = []
    given = 0
    previous: str | None = None
    for line, raw in rows:
        if not has_id(raw):
            own = derived_id(session_id, line, taken)
            taken.add(own)
            given += 1
            raw = {"parentId": previous} | raw | {"id": own}
        previous = raw["id"]
        filled.append((line, raw))
    return filled, given
