"""Job store: ``cron/jobs.json``, the jobs as OpenClaw 2026.3 reads and writes them.

Every change reads the file anew under a lock of our own and replaces it whole. Rows that cannot be used are kept as
they are and reported; a file that cannot be read stops the store and is never overwritten. Reading never writes.
Source: spec/scheduling.md B1, C2 and the edge list.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stores.run_logs import RunLogs
from stores.sessions import write_whole
from stores.slot_ledger import SlotLedger
from turngraph.errors import NotFound, SessionBusy, StoreError
from turngraph.schedules.job import Job, check_job

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings

LOCK_TIMEOUT_S = 10.0
STORE_VERSION = 1
_RUN_STATE = ("state", "turngraph")  # fields that runs change; an older file with other ones is worth keeping

log = logging.getLogger("turngraph.cron")


@dataclass(frozen=True, slots=True)
class LoadedJobs:
    """The store as it was read.

    Attributes:
        jobs: usable jobs, in file order.
        unusable: what is wrong with each other row; those rows stay in the file.
        rows: every row as it stands; not to be changed.
    """

    jobs: tuple[Job, ...]
    unusable: tuple[str, ...]
    rows: tuple[Any, ...]
    document: Mapping[str, Any]

    def find(self, text: str) -> Job:
        """Return the job of an id, of the unique beginning of one, or of a name.

        Raises:
            NotFound: none or several are meant.
        """
        exact = [job for job in self.jobs if job.id == text]
        found = exact or [job for job in self.jobs if job.id.startswith(text) or job.name == text]
        if len(found) != 1:
            what = "no job" if not found else f"{len(found)} jobs"
            raise NotFound(f"{what} {text!r}; `turngraph cron list` shows ids and names")
        return found[0]


@dataclass(frozen=True, slots=True)
class JobStore:
    """The jobs of a home; run logs and slot ledgers lie beside the file."""

    path: Path

    @classmethod
    def of_home(cls, home: Home, settings: AgentSettings) -> JobStore:
        """Return the store where the settings put it."""
        named = settings.cron.store
        return cls(home.root / named if named else home.cron_dir / "jobs.json")

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def logs(self) -> RunLogs:
        """The run logs of these jobs."""
        return RunLogs(self.folder / "runs")

    @property
    def ledger(self) -> SlotLedger:
        """The slot ledgers of these jobs."""
        return SlotLedger(self.folder / "slots")

    def load(self) -> LoadedJobs:
        """Read the store; without a file there are no jobs.

        Raises:
            StoreError: the file cannot be read, or is no store.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return LoadedJobs((), (), (), {"version": STORE_VERSION, "jobs": []})
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}. Check its owner and mode.") from error
        try:
            document = json.loads(data)
        except ValueError as error:
            raise self._unreadable(f"is not JSON ({error})") from error
        if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
            raise self._unreadable('holds no list "jobs"')
        return _sorted_out(document)

    def _unreadable(self, what: str) -> StoreError:
        backup = self.path.with_name(f"{self.path.name}.bak")
        way_out = f"; the version before stands in {backup.name}" if backup.exists() else ""
        return StoreError(f"{self.path} {what}. No job runs until it is repaired; it is not overwritten{way_out}.")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the store across processes.

        Raises:
            SessionBusy: another process holds it for ten seconds.
        """
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(self.folder / ".jobs.lock", timeout=LOCK_TIMEOUT_S, thread_local=False)
        try:
            with lock:
                yield
        except Timeout as error:
            raise SessionBusy(f"{self.path} is being written by another process for {LOCK_TIMEOUT_S:g} s") from error

    def change(self, edit: Callable[[LoadedJobs], Mapping[str, Job | None]]) -> LoadedJobs:
        """Change jobs under the lock: ``edit`` returns new records by id, ``None`` to delete one.

        Raises:
            StoreError: the file cannot be read; nothing is changed.
        """
        with self.locked():
            loaded = self.load()
            changes = edit(loaded)
            rows = [_changed(row, changes) for row in loaded.rows]
            known = {row.get("id") for row in loaded.rows if isinstance(row, dict)}
            rows += [dict(job.raw) for id_, job in changes.items() if job is not None and id_ not in known]
            kept = [row for row in rows if row is not None]
            document = {**loaded.document, "version": STORE_VERSION, "jobs": kept}
            if kept != list(loaded.rows):
                self._write(document, loaded)
            return _sorted_out(document)

    def update(self, job_id: str, edit: Callable[[Job], Job | None]) -> Job | None:
        """Change one job under the lock; ``None`` when it is gone, before or by this change."""

        def one(loaded: LoadedJobs) -> Mapping[str, Job | None]:
            job = next((job for job in loaded.jobs if job.id == job_id), None)
            return {} if job is None else {job_id: edit(job)}

        return next((job for job in self.change(one).jobs if job.id == job_id), None)

    def add(self, job: Job) -> None:
        """Add a job.

        Raises:
            StoreError: its id was used before.
        """
        if self.ledger.exists(job.id):
            raise StoreError(f"the job id {job.id} was used before; take another")

        def one(loaded: LoadedJobs) -> Mapping[str, Job | None]:
            if any(known.id == job.id for known in loaded.jobs):
                raise StoreError(f"there is a job {job.id} already; `turngraph cron edit` changes it")
            return {job.id: job}

        self.change(one)

    def _write(self, document: Mapping[str, Any], loaded: LoadedJobs) -> None:
        if self.path.exists() and _without_state(document["jobs"]) != _without_state(loaded.rows):
            with suppress(OSError):
                shutil.copyfile(self.path, self.path.with_name(f"{self.path.name}.bak"))
        text = json.dumps(document, indent=2, ensure_ascii=False)
        write_whole(self.path, f"{text}\n".encode())


def _changed(row: Any, changes: Mapping[str, Job | None]) -> Any:
    if not isinstance(row, dict) or row.get("id") not in changes:
        return row
    job = changes[row["id"]]
    return None if job is None else dict(job.raw)


def _without_state(rows: Any) -> list[Any]:
    return [
        {key: value for key, value in row.items() if key not in _RUN_STATE} if isinstance(row, dict) else row
        for row in rows
    ]


def _sorted_out(document: Mapping[str, Any]) -> LoadedJobs:
    jobs, unusable = [], []
    for index, row in enumerate(document["jobs"]):
        if problems := check_job(row):
            name = row.get("name") or row.get("id") if isinstance(row, dict) else None
            unusable.append(f"job {name or index + 1}: {'; '.join(problems)}")
        else:
            jobs.append(Job(row))
    return LoadedJobs(tuple(jobs), tuple(unusable), tuple(document["jobs"]), document)
