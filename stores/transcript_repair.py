"""Mending a transcript: in memory when it is opened, on disk (after a backup) before our first append.

Source: design decision 2; spec/sessions.md 4.4, 4.5, 5.6; known-faults 2.1 and 2.2.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from stores.archives import archive_path, sync_folder
from stores.transcript_entries import (
    CURRENT_VERSION,
    Entry,
    Raw,
    Row,
    dump_line,
    entry_of,
    fill_ids,
    has_id,
    header_version,
    is_header,
    migrate,
    parse_line,
)

_SHOWN_LINES = 10


@dataclass(frozen=True, slots=True)
class Mended:
    """The entries of a file after mending.

    Attributes:
        header: the session header, ``None`` when the file has none that can be used.
        entries: in file order.
        version: version the file was written in.
        changed: line numbers of objects that differ from what the file holds.
        repairs: what was done, one sentence each; empty when the file is as it should be.
    """

    header: Raw | None
    entries: list[Entry]
    version: int
    changed: frozenset[int]
    repairs: tuple[str, ...]


def mend(rows: Sequence[Row], broken: Sequence[int], torn_bytes: int, session_id: str) -> Mended:
    """Turn the parsed objects of a whole file into entries of the current version with unbroken chains.

    Args:
        rows: objects in file order with their line numbers.
        broken: numbers of the lines that could not be parsed.
        torn_bytes: size of an unfinished last line.
        session_id: seeds the ids of entries that have none when the header is lost.
    """
    header = next((raw for _, raw in rows if is_header(raw) and has_id(raw)), None)
    seed = str(header["id"]) if header else session_id
    version = header_version(header) if header else _version_without_header(rows)
    migrated = migrate(rows, version, seed)
    own, given = fill_ids([row for row in migrated if not is_header(row[1])], seed)
    entries, linked = _relink([entry_of(raw, line or None) for line, raw in own], broken)
    old = version < CURRENT_VERSION
    changed = linked | _changed(rows, own) if old or given else linked
    first_is_header = bool(rows) and is_header(rows[0][1]) and has_id(rows[0][1])
    repairs = (
        broken and f"left out {_count(broken, 'broken line')} ({_numbers(broken)})",
        torn_bytes and f"left out an unfinished last line of {torn_bytes} bytes",
        rows and not first_is_header and "the first line is no session header; the entries are used without it",
        header and old and f"read version {version} as version {CURRENT_VERSION}",
        given and f"gave ids to entries that had none: {given}",
        linked and f"linked entries over a gap ({_numbers(sorted(linked))})",
    )
    return Mended(
        header and {**header, "version": max(version, CURRENT_VERSION)},
        entries,
        version,
        frozenset(changed),
        tuple(text for text in repairs if isinstance(text, str)),
    )


def _changed(before: Sequence[Row], after: Sequence[Row]) -> set[int]:
    stored = dict(before)
    return {line for line, raw in after if raw is not stored[line]}


def _count(lines: Sequence[int], noun: str) -> str:
    return f"{len(lines)} {noun}{'s' * (len(lines) != 1)}"


def _numbers(lines: Sequence[int]) -> str:
    shown = ", ".join(str(line) for line in lines[:_SHOWN_LINES])
    rest = len(lines) - _SHOWN_LINES
    return f"lines {shown} and {rest} more" if rest > 0 else f"line{'s' * (len(lines) > 1)} {shown}"


def _version_without_header(rows: Sequence[Row]) -> int:
    """Entries that carry ids and parents are of the current version even when their header is lost."""
    linked = all(has_id(raw) and "parentId" in raw for _, raw in rows if not is_header(raw))
    return CURRENT_VERSION if linked else 1


def _relink(entries: list[Entry], broken: Sequence[int]) -> tuple[list[Entry], set[int]]:
    """Link an entry whose parent went with a broken line to the entry before it."""
    if not broken:
        return entries, set()
    known = {entry.id for entry in entries}
    first_gap = min(broken)
    linked: set[int] = set()
    relinked: list[Entry] = []
    for entry in entries:
        orphan = entry.parent_id is not None and entry.parent_id not in known
        if orphan and relinked and (entry.line or 0) > first_gap:
            parent = relinked[-1].id
            entry = replace(entry, parent_id=parent, raw={**entry.raw, "parentId": parent})
            linked.add(entry.line or 0)
        relinked.append(entry)
    return relinked, linked


def write_mended(path: Path, mended: Mended, header: Raw, now: datetime, unique: str) -> Path:
    """Put the mended transcript in the place of the damaged one and keep that as ``<file>.bak.<timestamp>``.

    Lines that needed no change are copied byte for byte (with LF). The caller holds the transcript lock.

    Args:
        header: written as the first line.
        now: names the backup.
        unique: makes the name of the temporary file unique.

    Returns:
        The backup.
    """
    temporary = path.with_name(f"{path.name}.{unique}.tmp")
    by_line = {entry.line: entry for entry in mended.entries}
    try:
        with path.open("rb") as source, temporary.open("xb") as target:
            os.fchmod(target.fileno(), path.stat().st_mode & 0o777)
            first = source.readline()
            target.write(_whole(first) if parse_line(first) == header else dump_line(header))
            source.seek(0)
            for number, line in enumerate(source, 1):
                entry = by_line.get(number)
                if entry is not None:
                    target.write(dump_line(entry.raw) if number in mended.changed else _whole(line))
            target.flush()
            os.fsync(target.fileno())
        backup = keep_backup(path, now)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return backup


def _whole(line: bytes) -> bytes:
    return line.rstrip(b"\r\n") + b"\n"


def keep_backup(path: Path, now: datetime) -> Path:
    """Keep the present content of a file under ``<file>.bak.<timestamp>``, where the sweep of archives finds it."""
    while True:
        backup = archive_path(path, "bak", now)
        try:
            os.link(path, backup)
        except FileExistsError:  # another process took the name just now
            continue
        except OSError:  # a file system without hard links
            shutil.copy2(path, backup)
        return backup
