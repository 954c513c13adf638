"""Flow ``maintenance``: archives, leftovers, sessions of runs, traces and logs of a home.

Source: spec/sessions.md 6.4, spec/scheduling.md C1.
"""

from __future__ import annotations

import time
from typing import Any

from prefect import State, flow
from prefect.states import Completed

from flows.recording import do_work, publish
from turngraph.scheduled.upkeep import UpkeepReport


@flow(name="maintenance", persist_result=False)
async def maintenance(dry_run: bool = False, home: str | None = None) -> State[Any]:
    """Tidy a home.

    Args:
        dry_run: list what would go, touch nothing.
        home: folder of the home, for runs that serve does not start itself.
    """
    started = time.monotonic()
    report: UpkeepReport | None = await do_work(lambda runner: runner.run_maintenance(dry_run=dry_run), home)
    if report is None:
        return Completed(name="Skipped", message="it was run without this record")
    line = f"{report.files} files, {report.freed_bytes} bytes, {len(report.problems)} problems"
    await publish("maintenance", report.markdown(time.monotonic() - started), line)
    return Completed(message=line)
