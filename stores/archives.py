"""Archives: the names of what a sessions folder holds, setting a transcript aside, and sweeping what is too old.

``abc.jsonl`` becomes ``abc.jsonl.reset.2026-03-16T09-40-00.000Z``; the age of an archive is the time in its name.
Source: spec/sessions.md 6.1 and 6.4, known-faults 12.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from turngraph.clock import iso_ms

ArchiveReason = Literal["reset", "deleted", "bak", "corrupt"]

STORE_NAME = "sessions.json"
_STAMP = r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:\.\d{3})?Z"
_ARCHIVE = re.compile(
    rf"(?P<base>.*)\.(?P<reason>reset|deleted|bak|corrupt)\.(?P<stamp>{_STAMP})(?:\.[0-9a-f]{{32}})?(?:\.zst)?"
)
_STORE_BACKUP = re.compile(r"sessions\.json\.bak\.(\d+)")
_NOT_PRIMARY = re.compile(r"\.trajectory\.jsonl$|\.checkpoint\.[0-9a-fA-F-]{36}\.jsonl$")
_TEMPORARY = re.compile(r".+\.(?:tmp|bak|stale)|.+\.jsonl\.bak-\d+-\d+")


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a file name in a sessions folder means.

    Attributes:
        name: the file name.
        reason: why it was set aside; ``None`` when it was not.
        at: when it was set aside.
        base: the name it had before.
        is_primary: whether it is a live transcript.
    """

    name: str
    base: str
    reason: ArchiveReason | None = None
    at: datetime | None = None
    is_primary: bool = False

    @property
    def is_archive(self) -> bool:
        """Whether it was set aside."""
        return self.reason is not None

    @property
    def session_id(self) -> str | None:
        """The session whose history it holds: live, reset and deleted transcripts count."""
        counts = self.is_primary or self.reason in ("reset", "deleted")
        return self.base.removesuffix(".jsonl") if counts and self.base.endswith(".jsonl") else None


def artifact(name: str) -> Artifact:
    """Read a file name.

    >>> artifact("abc.jsonl.reset.2026-03-16T09-40-00Z").session_id
    'abc'
    """
    if match := _ARCHIVE.fullmatch(name):
        reason: ArchiveReason = match["reason"]  # type: ignore[assignment]
        return Artifact(name, match["base"], reason, parse_stamp(match["stamp"]))
    if match := _STORE_BACKUP.fullmatch(name):
        return Artifact(name, STORE_NAME, "bak", _epoch_ms(int(match[1])))
    primary = name.endswith(".jsonl") and not _NOT_PRIMARY.search(name)
    return Artifact(name, name, is_primary=primary)


def archive_stamp(moment: datetime) -> str:
    """Write a time as archive names do: ``2026-03-16T09-40-00.000Z``."""
    return iso_ms(moment).replace(":", "-")


def parse_stamp(text: str) -> datetime | None:
    """Read the time in an archive name; ``None`` when there is no such time."""
    day, _, clock = text.partition("T")
    try:
        return datetime.fromisoformat(f"{day}T{clock.replace('-', ':')}")
    except ValueError:
        return None


def _epoch_ms(value: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(value / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def archive_path(path: Path, reason: ArchiveReason, now: datetime) -> Path:
    """Return a free name for setting ``path`` aside: that of ``now``, or of the next free millisecond."""
    while True:
        target = path.with_name(f"{path.name}.{reason}.{archive_stamp(now)}")
        if not target.exists():
            return target
        now += timedelta(milliseconds=1)


def archive_file(path: Path, reason: ArchiveReason, now: datetime) -> Path:
    """Rename a file to its archive name and return that.

    Raises:
        OSError: the rename failed; the file is where it was.
    """
    target = archive_path(path, reason, now)
    path.rename(target)
    sync_folder(path.parent)
    return target


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the system can do that."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)


@dataclass(frozen=True, slots=True)
class Expired:
    """An archive or a leftover past its retention; ``name`` is relative to the sessions folder."""

    name: str
    reason: ArchiveReason | Literal["temporary", "media"]
    at: datetime
    bytes: int


def expired(found: Artifact, reason: ArchiveReason, retention: timedelta, now: datetime) -> bool:
    """Tell whether an archive of ``reason`` is older than its retention; a name without a time never is."""
    return found.reason == reason and found.at is not None and now - found.at > retention


def expired_archives(
    folder: Path, now: datetime, *, resets: timedelta | None, leftovers: timedelta | None
) -> list[Expired]:
    """List what a sweep of ``folder`` removes, oldest first; nothing is removed here.

    Args:
        folder: a sessions folder; one that does not exist holds nothing.
        now: the present time.
        resets: how long ``.reset.`` archives are kept; ``None`` keeps them.
        leftovers: the same for ``.deleted.``, ``.bak.``, ``.corrupt.`` and temporary files (which have no time in
            their names: theirs is that of their last change).
    """
    retention = {"reset": resets, "deleted": leftovers, "bak": leftovers, "corrupt": leftovers}
    found: list[Expired] = []
    for name, facts in files_in(folder):
        named = artifact(name)
        if named.reason is not None:
            keep = retention[named.reason]
            if keep is not None and named.at is not None and expired(named, named.reason, keep, now):
                found.append(Expired(name, named.reason, named.at, facts.st_size))
        elif leftovers is not None and _TEMPORARY.fullmatch(name):
            changed = datetime.fromtimestamp(facts.st_mtime, UTC)
            if now - changed > leftovers:
                found.append(Expired(name, "temporary", changed, facts.st_size))
    return sorted(found, key=lambda item: (item.at, item.name))


def files_in(folder: Path) -> list[tuple[str, os.stat_result]]:
    """List the regular files of a folder by name; one that goes while they are listed is left out."""
    found: list[tuple[str, os.stat_result]] = []
    if not folder.is_dir():
        return found
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    return found


def remove_files(folder: Path, names: Iterable[str]) -> list[str]:
    """Remove files of ``folder`` and return the names of those that are gone by us."""
    removed = []
    for name in names:
        try:
            (folder / name).unlink()
        except FileNotFoundError:
            continue
        removed.append(name)
    return removed
