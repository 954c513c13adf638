"""A dispatcher on a clock that runs faster: the process that the kill test kills. Run as a script."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.dispatcher import Dispatcher
from flows.plain import PlainRunner
from stores.home import Home
from turngraph.api import Turngraph
from turngraph.clock import RandomIds
from turngraph.config import load_settings

SETS = (
    "agents.defaults.heartbeat.every=0",
    "serve.reindexEvery=0",
    "serve.maintenanceEvery=0",
    "serve.tickMs=200",
    "cron.maxConcurrentRuns=4",
)
START = datetime(2026, 3, 16, tzinfo=UTC)


@dataclass(frozen=True)
class FastClock:
    """Seconds of the machine since ``began``, times ``factor``."""

    began: float
    factor: float

    def now(self) -> datetime:
        return START + timedelta(seconds=(time.time() - self.began) * self.factor)


def open_fast(root: Path) -> Turngraph:
    return Turngraph(Home(root), load_settings(root, sets=SETS, env={}))


async def serve(root: Path, clock: FastClock) -> None:
    home = open_fast(root)
    dispatcher = Dispatcher(home, PlainRunner(lambda: dispatcher.home, clock), clock, RandomIds(), open_fast)
    dispatcher.recover()
    print("ready", flush=True)
    await dispatcher.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), FastClock(float(sys.argv[2]), float(sys.argv[3]))))
