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


@dataclass(slots=True)
class Intervals:
    """Remembers starts by name; the index is also looked at once when a process begins."""

    home: Home
    _known: dict[str, int] | None = None
    _fresh: set[str] = field(default_factory=lambda: {"reindex"})

    def due(self, name: str, every: timedelta, now_ms: int) -> bool:
        """Tell whether something is due now, and note it as started when it is; an interval of 0 is never due.

        Args:
            name: ``reindex`` or ``maintenance``.
            every: interval between two starts.
        """
        every_ms = every // timedelta(milliseconds=1)
        if every_ms <= 0:
            return False
        last_ms = self._read().get(name)
        elapsed = last_ms is None or now_ms - last_ms >= every_ms or last_ms > now_ms
        if not elapsed and name not in self._fresh:
            return False
        self._fresh.discard(name)
        known = {**self._read(), name: now_ms}
        self._known = known
        write_whole(self.home.cron_dir / "intervals.json", f"{json.dumps(known)}\n".encode(), durable=False)
        return True

    def last_ms(self, name: str) -> int | None:
        """Return when something was started last."""
        return self._read().get(name)

    def _read(self) -> dict[str, int]:
        if self._known is None:
            try:
                document = json.loads((self.home.cron_dir / "intervals.json").read_bytes())
            except (OSError, ValueError):
                document = {}
            whole = document.items() if isinstance(document, dict) else ()
            self._known = {str(name): at for name, at in whole if isinstance(at, int)}
        return self._known
