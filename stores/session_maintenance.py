"""Session maintenance: sweep what is past its retention, and in mode ``enforce`` old and surplus sessions too.

Mode ``warn`` removes archives and leftovers and reports the rest. Never touched: the session in use, an agent's main
session, one whose turn runs, and files of unknown kind. Runs in the maintenance flow, from ``sessions cleanup``, and
at most once a minute on the write path.
Source: spec/sessions.md 3.6 and 6.4, design decision 6, known-faults 1.7 and 12.1.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stores.archives import Expired, archive_file, expired_archives, files_in, remove_files
from stores.locks import is_locked, sweep_stale_locks
from stores.media import MediaStore, referenced_media
from stores.session_entries import Entries, Entry
from stores.session_reset import files_of
from stores.session_retention import (
    BudgetPlan,
    FolderFile,
    Protects,
    entry_high_water,
    is_main,
    overflow_keys,
    plan_budget,
    stale_keys,
)
from stores.sessions import TURN_LOCKS, SessionStore
from turngraph.clock import to_ms
from turngraph.session_keys import fold_key

if TYPE_CHECKING:
    from turngraph.config.schema_session import Maintenance

EVERY = timedelta(seconds=60)  # write path; spec/sessions.md 3.6
KEPT_ROTATIONS = 3
_MARK = ".maintained"  # its modification time says when maintenance last ran here

Action = Literal["prune-missing", "prune-stale", "cap-overflow", "evict-budget", "keep"]

log = logging.getLogger("turngraph.sessions")


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What a run of maintenance removed, or would remove.

    Attributes:
        mode, dry_run: how it ran.
        before, after: count of entries; in mode ``warn`` and in a dry run ``after`` is what they would be.
        missing, pruned, capped: keys of entries without a transcript, not used for too long, and beyond the cap.
        budget: the disk budget, when one is set.
        swept: archives and leftovers past their retention; ``orphaned`` transcripts set aside with their entries.
        rotated: whether an oversized table was set aside.
        applied: whether entries really went.
    """

    agent_id: str
    store_path: Path
    mode: Literal["warn", "enforce"]
    dry_run: bool
    before: int
    after: int
    missing: tuple[str, ...] = ()
    pruned: tuple[str, ...] = ()
    capped: tuple[str, ...] = ()
    budget: BudgetPlan | None = None
    swept: tuple[Expired, ...] = ()
    orphaned: tuple[str, ...] = ()
    rotated: bool = False
    applied: bool = False

    @property
    def removed_keys(self) -> tuple[str, ...]:
        """Every entry that goes, once."""
        evicted = self.budget.keys if self.budget else ()
        return tuple(dict.fromkeys((*self.missing, *self.pruned, *self.capped, *evicted)))

    def action(self, key: str) -> Action:
        """Tell what happens to an entry, and for which reason first."""
        if key in self.missing:
            return "prune-missing"
        if key in self.pruned:
            return "prune-stale"
        if key in self.capped:
            return "cap-overflow"
        return "evict-budget" if self.budget and key in self.budget.keys else "keep"


@dataclass(frozen=True, slots=True)
class Task:
    """How a run of maintenance is asked for.

    Attributes:
        active_key: the session in use.
        main_key: last part of main session keys.
        dry_run: plan, touch nothing.
        fix_missing: remove entries whose transcript does not exist.
        ordinary_write: the write path, which looks at the cap only when it is well exceeded.
    """

    active_key: str | None = None
    main_key: str = "main"
    dry_run: bool = False
    fix_missing: bool = False
    ordinary_write: bool = False


def run_maintenance(store: SessionStore, policy: Maintenance, task: Task | None = None) -> MaintenanceReport:
    """Tidy a sessions folder and say what went.

    Raises:
        SessionBusy: another process holds the table.
    """
    task = task or Task()
    now = store.clock.now()
    swept = expired_archives(
        store.folder, now, resets=policy.reset_archive_retention, leftovers=policy.leftover_retention
    )
    if policy.leftover_retention is not None and not task.ordinary_write:
        swept += _expired_media(store.folder, {item.name for item in swept}, now - policy.leftover_retention)
    if not task.dry_run:
        sweep_stale_locks(store.folder)
        gone = remove_files(store.folder, [item.name for item in swept])
        swept = [item for item in swept if item.name in gone]
    if task.dry_run or (policy.mode == "warn" and not task.fix_missing):
        report = _plan(store, store.entries(), policy, task, now)
    else:
        report = _enforce(store, policy, task, now)
    return replace(report, swept=tuple(swept))


def maintain_if_due(
    store: SessionStore, policy: Maintenance, *, active_key: str, main_key: str
) -> MaintenanceReport | None:
    """Run maintenance after a write, unless it ran in the last minute; trouble is logged, never raised."""
    now = store.clock.now()
    mark = store.folder / _MARK
    with suppress(OSError):
        if abs(now.timestamp() - mark.stat().st_mtime) < EVERY.total_seconds():
            return None
    try:
        mark.touch()
        os.utime(mark, (now.timestamp(), now.timestamp()))
        report = run_maintenance(store, policy, Task(active_key, main_key, ordinary_write=True))
    except Exception as error:  # a reply must not fail because tidying did
        log.warning("maintenance of %s failed: %s", store.folder, error)
        return None
    if report.removed_keys and not report.applied:
        log.warning(
            "%s: %d of %d sessions are past their retention or beyond the cap; "
            "`turngraph sessions cleanup --dry-run` lists them, --enforce removes them",
            store.path,
            len(report.removed_keys),
            report.before,
        )
    return report


def _expired_media(folder: Path, without: Collection[str], oldest: datetime) -> list[Expired]:
    """List stored files last used before ``oldest`` that no transcript or archive names, but for those ``without``."""
    media = MediaStore(folder / "media")
    transcripts = [path for path in folder.glob("*.jsonl*") if path.name not in without]
    if not media.folder.is_dir() or any(path.suffix == ".zst" for path in transcripts):
        return []  # what a compressed archive names cannot be known here
    return [
        Expired(f"media/{file.path.name}", "media", file.modified, file.bytes)
        for file in media.unreferenced(referenced_media(transcripts))
        if file.modified < oldest
    ]


def _plan(store: SessionStore, entries: Entries, policy: Maintenance, task: Task, now: datetime) -> MaintenanceReport:
    protects = _protection(store, entries, task)
    missing = _missing_keys(store, entries, task) if task.fix_missing else ()
    left = {key: entry for key, entry in entries.items() if key not in missing}
    pruned = stale_keys(left, policy.prune_after / timedelta(milliseconds=1), to_ms(now), protects)
    left = {key: entry for key, entry in left.items() if key not in pruned}
    few = task.ordinary_write and len(left) < entry_high_water(policy.max_entries)
    capped = () if few else overflow_keys(left, policy.max_entries, protects)
    left = {key: entry for key, entry in left.items() if key not in capped}
    budget = _budget(store, left, policy, protects, warn_only=policy.mode == "warn" and not task.dry_run)
    report = MaintenanceReport(
        store.agent_id, store.path, policy.mode, task.dry_run, len(entries), 0, missing, pruned, capped, budget
    )
    return replace(report, after=len(entries) - len(report.removed_keys))


def _enforce(store: SessionStore, policy: Maintenance, task: Task, now: datetime) -> MaintenanceReport:
    with store.transaction() as entries:
        report = _plan(store, dict(entries), policy, task, now)
        everything = policy.mode == "enforce"
        removed = {key: entries.pop(key) for key in (report.removed_keys if everything else report.missing)}
        left = dict(entries)
        rotated = everything and rotate_table(store.path, policy.rotate_bytes, now)
    # Files go after the table is written: a crash in between leaves files that nobody names, never names without files.
    evicted = remove_files(store.folder, report.budget.files if report.budget and everything else ())
    orphaned = _set_orphans_aside(store, left, removed, now)
    applied = bool(removed or evicted)
    return replace(report, after=len(left), orphaned=tuple(orphaned), rotated=rotated, applied=applied)


def _protection(store: SessionStore, entries: Entries, task: Task) -> Protects:
    active = fold_key(task.active_key) if task.active_key else None
    in_use = InUse.of(store)

    def protects(key: str) -> bool:
        folded = fold_key(key)
        return folded == active or is_main(folded, task.main_key) or in_use.has(folded, entries[key])

    return protects


@dataclass(frozen=True, slots=True)
class InUse:
    """Which sessions some process works on; the folders of lock files are listed once."""

    store: SessionStore
    turns: frozenset[str]
    locks: frozenset[str]

    @classmethod
    def of(cls, store: SessionStore) -> InUse:
        """Look which lock files there are."""
        turns = store.folder / TURN_LOCKS
        return cls(
            store,
            frozenset(path.name for path in turns.iterdir()) if turns.is_dir() else frozenset(),
            frozenset(path.name for path in store.folder.glob("*.lock")),
        )

    def has(self, key: str, entry: Entry) -> bool:
        """Tell whether a turn of the session runs, or its transcript is locked."""
        if self.turns and self.store.turn_file(key).name in self.turns and self.store.is_running(key):
            return True
        paths = files_of(self.store, entry) if self.locks else []
        return any(f"{path.name}.lock" in self.locks and is_locked(path) for path in paths)


def _missing_keys(store: SessionStore, entries: Entries, task: Task) -> tuple[str, ...]:
    """Return entries whose transcript is gone; asked for by name, so a main session is no exception."""
    active = fold_key(task.active_key) if task.active_key else None
    return tuple(
        key
        for key, entry in entries.items()
        if not any(path.is_file() for path in files_of(store, entry))
        and fold_key(key) != active
        and not store.is_running(fold_key(key))
    )


def _budget(
    store: SessionStore, entries: Entries, policy: Maintenance, protects: Protects, *, warn_only: bool
) -> BudgetPlan | None:
    if not policy.max_disk_bytes:
        return None
    files = [
        FolderFile(name, facts.st_size, facts.st_mtime * 1000)
        for name, facts in files_in(store.folder)
        if name != store.path.name
    ]
    return plan_budget(
        entries,
        files,
        lambda key: [path.name for path in files_of(store, entries[key])],
        max_bytes=policy.max_disk_bytes,
        high_water_bytes=policy.high_water_bytes or 0,
        protects=protects,
        warn_only=warn_only,
    )


def _set_orphans_aside(store: SessionStore, entries: Entries, removed: Entries, now: datetime) -> list[str]:
    """Archive the transcripts of removed entries that no remaining entry uses."""
    used = {path for entry in entries.values() for path in files_of(store, entry)}
    aside = []
    for entry in removed.values():
        for path in files_of(store, entry):
            if path not in used and path.parent == store.folder and path.is_file():
                aside.append(archive_file(path, "deleted", now).name)
    return aside


def rotate_table(path: Path, max_bytes: int, now: datetime) -> bool:
    """Set an oversized table aside as ``sessions.json.bak.<epoch ms>``; the last three by name are kept."""
    if not path.is_file() or path.stat().st_size <= max_bytes:
        return False
    path.rename(path.with_name(f"{path.name}.bak.{to_ms(now)}"))
    backups = sorted(found.name for found in path.parent.glob(f"{path.name}.bak.[0-9]*"))
    remove_files(path.parent, backups[:-KEPT_ROTATIONS])
    return True
