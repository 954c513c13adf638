"""Session retention: which entries and files of a sessions folder are too old or too many. Pure: plans only.

Source: spec/sessions.md 3.6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stores.archives import artifact
from stores.session_entries import Entries, entry_bytes, find_entry, number, store_bytes, updated_ms
from turngraph.session_keys import normalize_main_key, parse_key

Protects = Callable[[str], bool]

_SMALL_CAP = 49  # up to here one entry too many is enough to act; spec/sessions.md 3.6
_LEAST_SLACK = 25
_SEPARATOR_BYTES = 2  # comma and line end between two entries
EMPTY_STORE_BYTES = 2


def _nothing(_key: str) -> bool:
    return False


def is_main(key: str, main_key: str = "main") -> bool:
    """Tell whether a key is an agent's main session, or the one session of scope ``global``."""
    parsed = parse_key(key)
    return key == "global" or (parsed is not None and parsed.rest == normalize_main_key(main_key))


def stale_keys(entries: Entries, max_age_ms: float, now_ms: float, protects: Protects = _nothing) -> tuple[str, ...]:
    """Return the keys not touched for longer than ``max_age_ms``; an entry without a time stays."""
    oldest = now_ms - max_age_ms
    return tuple(
        key
        for key, entry in entries.items()
        if (at := number(entry, "updatedAt")) is not None and at < oldest and not protects(key)
    )


def overflow_keys(entries: Entries, max_entries: int, protects: Protects = _nothing) -> tuple[str, ...]:
    """Return the keys beyond the newest ``max_entries``, in file order; an entry without a time is the oldest.

    A protected entry stays and counts as one of those that are kept.
    """
    newest_first = sorted(entries, key=lambda key: updated_ms(entries[key]), reverse=True)
    beyond = {key for key in newest_first[max(0, max_entries) :] if not protects(key)}
    return tuple(key for key in entries if key in beyond)


def entry_high_water(max_entries: int) -> int:
    """Return the count of entries at which an ordinary write looks at the cap at all."""
    if max_entries <= _SMALL_CAP:
        return max(1, max_entries + 1) if max_entries > 0 else 1
    return max_entries + max(_LEAST_SLACK, -(-max_entries // 10))


@dataclass(frozen=True, slots=True)
class ActiveWarning:
    """That maintenance would remove the session in use."""

    key: str
    updated_ms: float | None
    total_entries: int
    would_prune: bool
    would_cap: bool


def active_warning(
    entries: Entries, active_key: str, *, prune_after_ms: float, max_entries: int, now_ms: float
) -> ActiveWarning | None:
    """Tell whether the session in use is one that maintenance would remove; ``None`` when it is not."""
    found = find_entry(entries, active_key)
    if found.entry is None:
        return None
    name = next(key for key, entry in entries.items() if entry is found.entry)
    prune = name in stale_keys(entries, prune_after_ms, now_ms)
    cap = name in overflow_keys(entries, max_entries)
    if not prune and not cap:
        return None
    return ActiveWarning(found.key, number(found.entry, "updatedAt"), len(entries), prune, cap)


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A regular file directly in a sessions folder."""

    name: str
    bytes: int
    changed_ms: float


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """What makes a folder small enough.

    Attributes:
        total_before, total_after: bytes of the folder, with the store at the size it will have.
        files, keys: what goes, in this order: archives and orphans, then entries with their transcripts.
        freed_bytes: of the files.
        over_budget: whether the folder is above ``max_bytes`` to begin with.
    """

    total_before: int
    total_after: int
    files: tuple[str, ...]
    keys: tuple[str, ...]
    freed_bytes: int
    max_bytes: int
    high_water_bytes: int
    over_budget: bool


def plan_budget(
    entries: Entries,
    files: Sequence[FolderFile],
    transcript_names: Callable[[str], Sequence[str]],
    *,
    max_bytes: int,
    high_water_bytes: int,
    protects: Protects = _nothing,
    warn_only: bool = False,
) -> BudgetPlan:
    """Choose what goes until the folder is down to ``high_water_bytes``; nothing when it is within ``max_bytes``.

    First archives and transcripts that no entry refers to, oldest change first; then entries, least recently used
    first, each with its transcript unless another entry uses that too. Other files count and never go.

    Args:
        entries: the table.
        files: the folder without the table.
        transcript_names: file names of an entry's transcript, by key.
        max_bytes, high_water_bytes: the budget and the target.
        protects: keys that must stay.
        warn_only: only say whether the folder is over its budget.
    """
    sizes = {file.name: file.bytes for file in files}
    before = sum(sizes.values()) + store_bytes(entries)
    over = before > max_bytes
    if not over or warn_only:
        return BudgetPlan(before, before, (), (), 0, max_bytes, high_water_bytes, over)
    users: dict[str, set[str]] = {}
    for key in entries:
        for name in transcript_names(key):
            users.setdefault(name, set()).add(key)
    total, gone_files, gone_keys = before, [], []
    for file in sorted(files, key=lambda file: file.changed_ms):
        if total <= high_water_bytes:
            break
        found = artifact(file.name)
        if found.is_archive or (found.is_primary and file.name not in users):
            gone_files.append(file.name)
            total -= file.bytes
    table = store_bytes(entries)
    for key in sorted(entries, key=lambda key: updated_ms(entries[key])):
        if total <= high_water_bytes:
            break
        if protects(key):
            continue
        gone_keys.append(key)
        smaller = max(EMPTY_STORE_BYTES, table - entry_bytes(key, entries[key]) - _SEPARATOR_BYTES)
        total -= table - smaller
        table = smaller
        for name in transcript_names(key):
            users[name].discard(key)
            if not users[name] and name in sizes and name not in gone_files:
                gone_files.append(name)
                total -= sizes[name]
    freed = sum(sizes[name] for name in gone_files)
    return BudgetPlan(before, total, tuple(gone_files), tuple(gone_keys), freed, max_bytes, high_water_bytes, over)
