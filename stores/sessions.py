"""Session store: ``sessions.json``, the table from session key to the session that is current there.

Every change reads the file anew under its lock and replaces it whole (temporary file, fsync, rename), so a reader
sees the old table or the new one. A damaged table is recovered in memory; the bad file is kept under another name when
the table is next written. Reading never writes.
Source: spec/sessions.md section 3, known-faults 1.5 and 1.6.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stores.archives import archive_file, sync_folder
from stores.locks import LOCK_TIMEOUT_MS, TRANSCRIPT_HOLD_MS, hold_exclusive, hold_lock, turn_is_running, turn_lock
from stores.session_entries import Entry, Lookup, find_entry, merge_entry, parse_store, slim, store_text
from stores.session_paths import transcript_candidates
from stores.session_recovery import newest_backups, recover
from turngraph.clock import Clock, Ids, RandomIds, SystemClock, to_ms
from turngraph.errors import NotFound, StoreError

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings

TURN_LOCKS = ".turns"  # folder of our own turn locks, beside the transcripts
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")

log = logging.getLogger("turngraph.sessions")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A store as it was read.

    Attributes:
        entries: session key to entry, in file order; not to be changed.
        data: the bytes of the file; ``None`` when there is none.
        problem: what was wrong with the file and what was done, as one sentence.
    """

    entries: Mapping[str, Entry]
    data: bytes | None = None
    problem: str | None = None


@dataclass(slots=True)
class SessionStore:
    """The sessions of one agent.

    Attributes:
        path: ``sessions.json``; transcripts lie beside it.
        agent_id: whose sessions these are.
        clock, ids: where times and new session ids come from.
        durable: whether a write waits for the disk; a working copy need not.
    """

    path: Path
    agent_id: str = "main"
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    durable: bool = True
    _held: dict[str, dict[Path, ExitStack]] = field(default_factory=dict)
    _told: str | None = None

    @classmethod
    def of_agent(cls, home: Home, settings: AgentSettings, clock: Clock, ids: Ids) -> SessionStore:
        """Return the store of an agent where its settings put it."""
        return cls(home.root / settings.sessions_file, settings.agent_id, clock, ids)

    @property
    def folder(self) -> Path:
        """The sessions folder."""
        return self.path.parent

    def read(self) -> Loaded:
        """Read the table; a damaged one is recovered in memory and reported once."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return self._recovered("is missing", None) if newest_backups(self.folder) else Loaded({})
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}. Check its owner and mode.") from error
        entries = parse_store(data)
        if entries is not None:
            return Loaded(entries, data)
        return self._recovered("is empty" if not data.strip() else "is not a JSON object", data)

    def _recovered(self, what: str, data: bytes | None) -> Loaded:
        found = recover(self.folder, self.agent_id, self.path.name)
        kept = "" if data is None else " The bad file is kept as .corrupt.<time> at the next write."
        problem = f"{self.path} {what}; {found.source}.{kept}"
        if problem != self._told:
            log.warning(problem)
            self._told = problem
        return Loaded(found.entries, data, problem)

    def entries(self) -> Mapping[str, Entry]:
        """Return the whole table."""
        return self.read().entries

    def find(self, key: str) -> Lookup:
        """Find an entry by its key, however its case is written."""
        return find_entry(self.entries(), key)

    def get(self, key: str) -> Entry:
        """Return the entry of a key; empty when there is none."""
        return self.find(key).entry or {}

    def require(self, key: str) -> Entry:
        """Return the entry of a key.

        Raises:
            NotFound: there is none.
        """
        entry = self.find(key).entry
        if entry is None:
            raise NotFound(f"no session {key!r} in {self.path}; `turngraph sessions list` shows the keys")
        return entry

    def transcript_of(self, entry: Entry) -> Path:
        """Return the transcript of an entry, inside the sessions folder; it may not exist yet.

        Raises:
            StoreError: the entry's session id is not usable.
        """
        candidates = transcript_candidates(self.folder, str(entry.get("sessionId") or ""), entry)
        return next((path for path in candidates if path.is_file()), candidates[0])

    @contextmanager
    def locked(self, *, timeout_ms: int = LOCK_TIMEOUT_MS) -> Iterator[None]:
        """Hold the lock of the table over several transactions of this thread.

        Raises:
            SessionBusy: another process or thread holds it for longer than ``timeout_ms``.
        """
        with hold_exclusive(self.path, timeout_ms=timeout_ms):
            yield

    @contextmanager
    def transaction(self, *, timeout_ms: int = LOCK_TIMEOUT_MS) -> Iterator[dict[str, Entry]]:
        """Change the table under its lock: yields entries to add, replace and delete.

        The table is written when the block ends without an error and something changed. The entries themselves must
        be replaced, not edited.

        Raises:
            SessionBusy: another process holds the lock.
            OSError: the table could not be written; the old one stands.
        """
        with self.locked(timeout_ms=timeout_ms):
            loaded = self.read()
            entries = dict(loaded.entries)
            yield entries
            self._write(entries, loaded)

    def update(self, key: str, patch: Entry, *, touch: bool = True, drop: tuple[str, ...] = ()) -> Entry:
        """Lay fields over the entry of a key, remove those in ``drop``, and return what is stored.

        Args:
            key: session key, in any case.
            patch: fields to set.
            touch: whether this counts as activity of the session (``updatedAt``).
            drop: fields to remove.
        """
        with self.transaction() as entries:
            found = find_entry(entries, key)
            old = {name: value for name, value in (found.entry or {}).items() if name not in drop}
            merged = merge_entry(old, patch, now_ms=to_ms(self.clock.now()), new_id=self.ids.uuid, touch=touch)
            put_entry(entries, found, merged)
        return merged

    def _write(self, entries: Mapping[str, Entry], loaded: Loaded) -> None:
        data = store_text({key: slim(entry) for key, entry in entries.items()})
        unchanged = data == loaded.data and self.path.exists()  # a rotated table is written again
        if unchanged or (loaded.data is None and loaded.problem is None and not entries):
            return
        if loaded.problem is not None and loaded.data is not None:
            archive_file(self.path, "corrupt", self.clock.now())
        write_whole(self.path, data, durable=self.durable)

    def turn_file(self, key: str) -> Path:
        """Return the lock file of turns of a session key."""
        readable = _NOT_IN_NAME.sub("-", key)[:60]
        return self.folder / TURN_LOCKS / f"{readable}-{sha256(key.encode()).hexdigest()[:12]}.lock"

    def is_running(self, key: str) -> bool:
        """Tell whether some process runs a turn of a session key."""
        return turn_is_running(self.turn_file(key))

    @asynccontextmanager
    async def turn(self, key: str, *, timeout_ms: int, purpose: str = "turn") -> AsyncIterator[None]:
        """Hold the right to run a turn of a session key, across processes.

        Raises:
            SessionBusy: another turn runs for longer than ``timeout_ms``.
        """
        async with turn_lock(self.turn_file(key), timeout_ms=timeout_ms, purpose=purpose), self.turn_alone(key):
            yield

    @asynccontextmanager
    async def turn_alone(self, key: str) -> AsyncIterator[None]:
        """Run a turn of a session key in a copy that no other process knows; see :meth:`turn`."""
        self._held[key] = {}
        try:
            yield
        finally:
            for lock in self._held.pop(key).values():
                lock.close()

    def hold_transcript(
        self, key: str, path: Path, *, timeout_ms: int, max_hold_ms: int | None = TRANSCRIPT_HOLD_MS
    ) -> None:
        """Hold the lock file of a transcript until the running turn of ``key`` ends, so that OpenClaw keeps out.

        Without a running turn nothing is held. Blocks while waiting.

        Raises:
            SessionBusy: a live process holds it.
        """
        held = self._held.get(key)
        if held is None or path in held:
            return
        with ExitStack() as stack:
            stack.enter_context(hold_lock(path, timeout_ms=timeout_ms, max_hold_ms=max_hold_ms))
            held[path] = stack.pop_all()


def put_entry(entries: dict[str, Entry], found: Lookup, entry: Entry) -> None:
    """Store an entry under its present key and remove other spellings of it."""
    for name in found.legacy_keys:
        entries.pop(name, None)
    entries[found.key] = entry


def write_whole(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file: temporary file beside it, fsync, rename, fsync of the folder; mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{RandomIds().uuid()}.tmp")
    try:
        number = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def entry_facts(key: str, entry: Entry) -> dict[str, Any]:
    """Return what a listing tells about an entry, with the field names of the file."""
    names = ("sessionId", "updatedAt", "sessionStartedAt", "lastInteractionAt", "chatType", "channel", "label")
    counts = ("totalTokens", "contextTokens", "compactionCount", "resetReason")
    return {"key": key, **{name: entry.get(name) for name in (*names, *counts) if entry.get(name) is not None}}
