"""Session entries: what ``sessions.json`` says about a session, as plain values.

An entry is a mapping with the field names of the file; fields that we do not know are kept. Nothing here does I/O.
Source: spec/sessions.md 3.2 to 3.4.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.session_keys import fold_key
from turngraph.text import js_trim

Entry = Mapping[str, Any]
Entries = Mapping[str, Entry]

_OLD_NAMES = (("provider", "channel"), ("lastProvider", "lastChannel"), ("room", "groupChannel"))


def number(entry: Entry | None, field: str) -> float | None:
    """Return a finite number of an entry; ``None`` for anything else."""
    value = (entry or {}).get(field)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return value if usable else None


def updated_ms(entry: Entry | None) -> float:
    """Return when an entry last counted as active, in epoch milliseconds; 0 when it does not say."""
    return number(entry, "updatedAt") or 0


def fresh_total_tokens(entry: Entry | None) -> float | None:
    """Return the size of the session's context in tokens, unless it is marked as out of date."""
    total = number(entry, "totalTokens")
    return None if total is None or total < 0 or (entry or {}).get("totalTokensFresh") is False else total


def merge_entry(
    existing: Entry | None, patch: Entry, *, now_ms: int, new_id: Callable[[], str], touch: bool = True
) -> dict[str, Any]:
    """Lay ``patch`` over an entry.

    Args:
        existing: the entry so far.
        patch: fields to set; ``None`` is a value like others.
        now_ms: the present time, which ``updatedAt`` becomes.
        new_id: called when neither names a session id.
        touch: whether this counts as activity; if not, ``updatedAt`` stays.

    Source: spec/sessions.md 3.4.
    """
    old = existing or {}
    merged = {**old, **patch}
    merged["sessionId"] = patch.get("sessionId") or old.get("sessionId") or new_id()
    before, given = number(old, "updatedAt"), number(patch, "updatedAt")
    if touch:
        merged["updatedAt"] = max(before or 0, given or 0, now_ms)
    else:
        merged["updatedAt"] = next((value for value in (before, given) if value is not None), now_ms)
    return _tidy_model(merged, old, patch)


def _tidy_model(merged: dict[str, Any], old: Entry, patch: Entry) -> dict[str, Any]:
    """Drop a provider that belongs to another model, and blank names."""
    for field in ("model", "modelProvider"):
        if isinstance(merged.get(field), str):
            merged[field] = js_trim(merged[field])
            if not merged[field]:
                del merged[field]
    changed = "model" in patch and "modelProvider" not in patch and merged.get("model") != old.get("model")
    if changed or ("model" not in merged and "model" in {**old, **patch}):
        merged.pop("modelProvider", None)
    return merged


def current_names(entry: Entry) -> Entry:
    """Give fields of older releases their present names; the same object when there are none."""
    if not any(old in entry for old, _ in _OLD_NAMES):
        return entry
    renamed = dict(entry)
    for old, new in _OLD_NAMES:
        if isinstance(entry.get(old), str) and not isinstance(entry.get(new), str):
            renamed[new] = renamed.pop(old)
    renamed.pop("room", None)
    return renamed


def slim(entry: Entry) -> Entry:
    """Drop what a prompt of the past resolved from skills: it is derived and large (known-faults 1.6)."""
    snapshot = entry.get("skillsSnapshot")
    if not isinstance(snapshot, dict) or "resolvedSkills" not in snapshot:
        return entry
    kept = {key: value for key, value in snapshot.items() if key != "resolvedSkills"}
    return {**entry, "skillsSnapshot": kept}


@dataclass(frozen=True, slots=True)
class Lookup:
    """What a store holds under a key.

    Attributes:
        key: the key as it is written now.
        entry: the newest entry of any spelling.
        legacy_keys: the other spellings; they go when the entry is next written.
    """

    key: str
    entry: Entry | None
    legacy_keys: tuple[str, ...] = ()


def find_entry(entries: Entries, key: str) -> Lookup:
    """Find an entry by its key, however its case is written; the normal spelling wins a tie.

    Source: spec/sessions.md 3.4.
    """
    wanted = fold_key(key)
    lowered = wanted.lower()  # spares the exact folding of keys that are other ones anyway
    found = [name for name in entries if lowered == name.strip().lower() and fold_key(name) == wanted]
    if not found:
        return Lookup(wanted, None)
    newest = max(found, key=lambda name: (updated_ms(entries[name]), name == wanted))
    return Lookup(wanted, entries[newest], tuple(name for name in found if name != wanted))


def store_text(entries: Entries) -> bytes:
    """Write a store as JavaScript does with two spaces: UTF-8, no line end at the end."""
    import orjson

    try:
        return orjson.dumps(entries, option=orjson.OPT_INDENT_2)
    except (TypeError, orjson.JSONEncodeError):
        # Half of a surrogate pair or an integer beyond 64 bits: rare, and must come back as it was.
        return json.dumps(entries, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")


def parse_store(data: bytes) -> dict[str, Entry] | None:
    """Read a store; ``None`` when it is not a JSON object. Values that are no entries are dropped."""
    import orjson

    try:
        raw = orjson.loads(data)
    except orjson.JSONDecodeError:
        raw = _parse_odd_store(data)
    if not isinstance(raw, dict):
        return None
    return {key: current_names(value) for key, value in raw.items() if isinstance(value, dict)}


def _parse_odd_store(data: bytes) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=refuse)
    except ValueError:
        return None


def entry_bytes(key: str, entry: Entry) -> int:
    """Return the bytes that an entry takes in the file, without the comma and line end between entries."""
    return len(store_text({key: entry})) - 4  # the braces and line ends around it


def store_bytes(entries: Entries) -> int:
    """Return the size of a store in the file."""
    return len(store_text(entries))
