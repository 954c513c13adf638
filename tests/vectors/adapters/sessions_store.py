"""The session table, its maintenance, transcript paths and archive names (spec/sessions.md 3 and 6.1)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stores.archives import archive_stamp, artifact, expired
from stores.session_entries import (
    current_names,
    entry_bytes,
    find_entry,
    fresh_total_tokens,
    merge_entry,
    store_bytes,
)
from stores.session_maintenance import rotate_table
from stores.session_paths import classify_transcript, transcript_candidates, transcript_name, transcript_path
from stores.session_retention import (
    FolderFile,
    active_warning,
    entry_high_water,
    overflow_keys,
    plan_budget,
    stale_keys,
)
from tests.vectors.runner import Case
from turngraph.clock import from_ms, to_ms

TOPIC = "sessions"


def _merge(case: Case) -> dict[str, Any]:
    given = case.input

    def merged(touch: bool) -> dict[str, Any]:
        existing, patch = given.get("existing"), given["patch"]
        return merge_entry(existing, patch, now_ms=given["nowMs"], new_id=lambda: "new", touch=touch)

    return {"touch": merged(True), "preserve": merged(False)}


def _find(case: Case) -> dict[str, Any]:
    found = find_entry(case.input["store"], case.input["sessionKey"])
    entry = found.entry or {}
    return {
        "normalizedKey": found.key,
        "sessionId": entry.get("sessionId"),
        "legacyKeys": list(found.legacy_keys),
    }


def _prune(case: Case) -> dict[str, Any]:
    given = case.input
    gone = stale_keys(given["store"], given["maxAgeMs"], given["nowMs"])
    return {"pruned": len(gone), "removed": list(gone), "keys": [key for key in given["store"] if key not in gone]}


def _cap(case: Case) -> dict[str, Any]:
    gone = overflow_keys(case.input["store"], case.input["maxEntries"])
    left = [key for key in case.input["store"] if key not in gone]
    return {"capped": len(gone), "removed": list(gone), "keys": left}


def _warning(case: Case) -> dict[str, Any] | None:
    given = case.input
    found = active_warning(
        given["store"],
        given["activeSessionKey"],
        prune_after_ms=given["pruneAfterMs"],
        max_entries=given["maxEntries"],
        now_ms=given["nowMs"],
    )
    if found is None:
        return None
    return {
        "activeSessionKey": found.key,
        "activeUpdatedAt": found.updated_ms,
        "totalEntries": found.total_entries,
        "pruneAfterMs": given["pruneAfterMs"],
        "maxEntries": given["maxEntries"],
        "wouldPrune": found.would_prune,
        "wouldCap": found.would_cap,
    }


def _measure(case: Case) -> dict[str, Any]:
    entries = case.input["store"]
    return {"bytes": store_bytes(entries), "chunks": {key: entry_bytes(key, entry) for key, entry in entries.items()}}


def _file_path(case: Case) -> str:
    given = case.input
    return str(transcript_path(Path(given["sessionsDir"]), given["sessionId"], given.get("entry")))


def _artifact(case: Case) -> dict[str, Any]:
    found = artifact(case.input["fileName"])
    at = to_ms(found.at) if found.at else None
    return {
        "isArchive": found.is_archive,
        "isPrimary": found.is_primary,
        "isUsageCounted": found.session_id is not None,
        "usageSessionId": found.session_id,
        "resetAtMs": at if found.reason == "reset" else None,
        "deletedAtMs": at if found.reason == "deleted" else None,
    }


def _sweep(case: Case) -> dict[str, Any]:
    given = case.input
    if given["olderThanMs"] < 0:
        return {"removed": 0, "scanned": 0, "left": sorted(given["files"])}
    named = [artifact(name) for name in given["files"]]
    keep, now = timedelta(milliseconds=given["olderThanMs"]), from_ms(given["nowMs"])
    gone = {found.name for found in named if expired(found, given["reason"], keep, now)}
    return {
        "removed": len(gone),
        "scanned": sum(found.reason == given["reason"] and found.at is not None for found in named),
        "left": sorted(set(given["files"]) - gone),
    }


def _rotate(case: Case) -> dict[str, Any]:
    given = case.input
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sessions.json").write_bytes(b"x" * given["size"])
        for stamp in given["backups"]:
            (folder / f"sessions.json.bak.{stamp}").write_bytes(b"")
        rotated = rotate_table(folder / "sessions.json", given["maxBytes"], from_ms(given["nowMs"]))
        return {"rotated": rotated, "left": sorted(path.name for path in folder.iterdir())}


def _budget(case: Case) -> dict[str, Any]:
    given = case.input
    entries, files = given["store"], given["files"]
    everything = {"keys": list(entries), "filesLeft": sorted(files)}
    if not given["maxDiskBytes"]:
        return {"result": None, **everything}
    active = given.get("activeSessionKey")
    plan = plan_budget(
        entries,
        [FolderFile(name, size, seconds * 1000) for name, (size, seconds) in files.items()],
        lambda key: [path.name for path in transcript_candidates(Path("/s"), entries[key]["sessionId"], entries[key])],
        max_bytes=given["maxDiskBytes"],
        high_water_bytes=given["highWaterBytes"],
        protects=lambda key: active is not None and key.lower() == active.strip().lower(),
        warn_only=given.get("warnOnly", False),
    )
    result = {
        "totalBytesBefore": plan.total_before,
        "totalBytesAfter": plan.total_after,
        "removedFiles": len(plan.files),
        "removedEntries": len(plan.keys),
        "freedBytes": plan.freed_bytes,
        "maxBytes": plan.max_bytes,
        "highWaterBytes": plan.high_water_bytes,
        "overBudget": plan.over_budget,
    }
    left = sorted(files) if given.get("dryRun") else sorted(set(files) - set(plan.files))
    return {"result": result, "keys": [key for key in entries if key not in plan.keys], "filesLeft": left}


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "entry_high_water@2026.9": lambda case: entry_high_water(case.input["maxEntries"]),
    "prune_stale_entries": _prune,
    "cap_entry_count": _cap,
    "active_session_maintenance_warning": _warning,
    "resolve_session_store_entry": _find,
    "apply_store_migrations": lambda case: {key: current_names(entry) for key, entry in case.input["store"].items()},
    "merge_session_entry": _merge,
    "resolve_fresh_total_tokens": lambda case: fresh_total_tokens(case.input["entry"]),
    "measure_store_bytes": _measure,
    "resolve_session_file_path": _file_path,
    "resolve_session_transcript_path_in_dir": lambda case: str(
        Path(case.input["sessionsDir"]) / transcript_name(case.input["sessionId"], case.input.get("topicId"))
    ),
    "classify_transcript_candidate": lambda case: classify_transcript(
        case.input["sessionFile"], case.input["sessionId"]
    ),
    "session_artifact_name": _artifact,
    "session_artifact_name@2026.9": _artifact,
    "format_archive_timestamp": lambda case: archive_stamp(from_ms(case.input["nowMs"])),
    "cleanup_archived_transcripts": _sweep,
    "rotate_store_file": _rotate,
    "enforce_session_disk_budget": _budget,
}
