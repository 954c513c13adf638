"""Sessions of isolated runs: a record key for each run, swept when its retention is over.

Source: spec/scheduling.md B6.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from stores.archives import archive_file
from stores.session_entries import updated_ms
from stores.session_reset import files_of
from turngraph.clock import to_ms
from turngraph.session_keys import is_heartbeat, parse_key

if TYPE_CHECKING:
    from stores.sessions import SessionStore
    from turngraph.api import TurnResult

log = logging.getLogger("turngraph.cron")


def record_run(store: SessionStore, result: TurnResult, label: str | None = None) -> str:
    """Keep the session of one isolated run under a key of its own, and return that key."""
    entry = store.get(result.session_key)
    key = f"{result.session_key}:run:{result.session_id}"
    kept: dict[str, Any] = {**entry, **({"label": label} if label else {})}
    store.update(key, kept)
    if label:
        store.update(result.session_key, {"label": label}, touch=False)
    return key


def is_run_key(key: str) -> bool:
    """Tell whether a key is that of one isolated run of a job or a heartbeat."""
    parsed = parse_key(key)
    if parsed is None or ":run:" not in parsed.rest:
        return False
    base = parsed.rest.split(":run:", 1)[0]
    return base.startswith("cron:") or is_heartbeat(base)


def expired_runs(entries: Mapping[str, Mapping[str, Any]], retention: timedelta, now_ms: int) -> tuple[str, ...]:
    """Return the keys of runs that ended longer ago than the retention."""
    oldest = now_ms - retention // timedelta(milliseconds=1)
    return tuple(key for key, entry in entries.items() if is_run_key(key) and updated_ms(entry) < oldest)


def sweep_runs(store: SessionStore, retention: timedelta | None, *, dry_run: bool = False) -> tuple[str, ...]:
    """Remove the sessions of old isolated runs and set their transcripts aside; return their keys.

    The newest run of a job stays under the job's own key, with its transcript.

    Raises:
        SessionBusy: another process holds the table.
    """
    if retention is None:
        return ()
    now = store.clock.now()
    if dry_run:
        return expired_runs(store.entries(), retention, to_ms(now))
    with store.transaction() as entries:
        gone = {key: entries.pop(key) for key in expired_runs(entries, retention, to_ms(now))}
        used = {path for entry in entries.values() for path in files_of(store, entry)}
    for entry in gone.values():
        for path in files_of(store, entry):
            if path not in used and path.is_file():
                archive_file(path, "deleted", now)
    if gone:
        log.info("%d sessions of isolated runs swept from %s", len(gone), store.path)
    return tuple(gone)
