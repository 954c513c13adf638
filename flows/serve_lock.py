"""``<home>/serve.lock``: one dispatcher for a home; the kernel gives it back when its process is gone.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from turngraph.clock import iso_ms

if TYPE_CHECKING:
    from filelock import BaseFileLock


@dataclass(slots=True)
class ServeLock:
    """The lock of one home."""

    root: Path
    _lock: BaseFileLock | None = None

    def take(self) -> bool:
        """Take the lock and leave a hint who has it; ``False`` when another process holds it."""
        if not self._acquire():
            return False
        facts = {"pid": os.getpid(), "since": iso_ms(datetime.now(UTC)), "what": "turngraph serve"}
        self._hint.write_text(json.dumps(facts), encoding="utf-8")
        return True

    def _acquire(self) -> bool:
        from filelock import FileLock, Timeout

        self.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.root / "serve.lock", timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            return False
        self._lock = lock
        return True

    @property
    def _hint(self) -> Path:
        return self.root / "serve.lock.owner"

    def holder(self) -> str:
        """Say who holds it, as far as the hint beside it tells."""
        try:
            facts = json.loads(self._hint.read_text(encoding="utf-8"))
            return f"process {facts['pid']} since {facts['since']}"
        except (OSError, ValueError, KeyError):
            return "another process"

    def is_held(self) -> bool:
        """Tell whether some process serves this home now."""
        if not (self.root / "serve.lock").exists():
            return False
        if not self._acquire():
            return True
        self.release()
        return False

    def release(self) -> None:
        """Give the lock back; its file stays."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
