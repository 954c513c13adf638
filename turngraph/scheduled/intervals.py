"""When re-indexing and maintenance ran last: ``cron/intervals.json``, so that a restart does not repeat them.

Source: spec/settings.md section 14.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from stores.sessions import write_whole

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings

MS = timedelta(milliseconds=1)


def reindex_every(settings: AgentSettings) -> timedelta:
    """Return the interval of an agent's re-indexing: its own, else that of serve; 0 is never."""
    own = settings.memory_search.sync.interval_minutes
    if not settings.memory_search.enabled:
        return timedelta()
    return timedelta(minutes=own) if own else settings.serve.reindex_every


@dataclass(slots=True)
class Intervals:
    """Remembers starts by name, such as ``reindex:main`` and ``maintenance``."""

    home: Home
    _known: dict[str, int] | None = None
    _seen: set[str] = field(default_factory=set)

    def due(self, name: str, every: timedelta, now_ms: int, *, at_start: bool = False) -> bool:
        """Tell whether something is due now, and note it as started when it is; an interval of 0 is never due.

        Args:
            every: interval between two starts.
            at_start: whether it is due when a process first asks, too.
        """
        every_ms = every // MS
        first = at_start and name not in self._seen
        self._seen.add(name)
        if every_ms <= 0:
            return False
        last_ms = self.last_ms(name)
        elapsed = last_ms is None or now_ms - last_ms >= every_ms or last_ms > now_ms
        if not elapsed and not first:
            return False
        self._known = {**self._read(), name: now_ms}
        write_whole(self.home.cron_dir / "intervals.json", f"{json.dumps(self._known)}\n".encode(), durable=False)
        return True

    def last_ms(self, name: str) -> int | None:
        """Return when something was started last."""
        return self._read().get(name)

    def next_ms(self, name: str, every: timedelta) -> int | None:
        """Return when something is due next; ``None`` when it never is, or at once."""
        last_ms = self.last_ms(name)
        return last_ms + every // MS if last_ms is not None and every // MS > 0 else None

    def _read(self) -> dict[str, int]:
        if self._known is None:
            try:
                document = json.loads((self.home.cron_dir / "intervals.json").read_bytes())
            except (OSError, ValueError):
                document = {}
            whole = document.items() if isinstance(document, dict) else ()
            self._known = {str(name): at for name, at in whole if isinstance(at, int)}
        return self._known
