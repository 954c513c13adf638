"""``turngraph serve``: one process with the dispatcher, the watcher, and a Prefect server that records.

The dispatcher starts at once; runs are recorded from the moment the server answers.
Source: spec/scheduling.md C1, spec/spike.md section 5.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from flows.dispatcher import Dispatcher
from flows.plain import PlainRunner
from flows.prefect_runner import PrefectRunner, crash_leftovers
from flows.serve_lock import ServeLock
from flows.server import PrefectServer, prepare
from flows.watcher import Watcher
from turngraph.api import Turngraph, open_home
from turngraph.clock import RandomIds, SystemClock

PASSIVE_LOOK_S = 1.0
FLUSH_S = 1.0

log = logging.getLogger("turngraph.serve")


class Serve:
    """One run of serve on a home.

    Args:
        home: the opened home.
        record: whether to use a Prefect server at all.
        say: told what happens, one line each.
        reload: opens the home again when its settings have changed.
    """

    def __init__(
        self,
        home: Turngraph,
        *,
        record: bool = True,
        say: Callable[[str], None] = print,
        reload: Callable[[Path], Turngraph] = open_home,
    ) -> None:
        self.home = home
        self.record = record
        self.say = say
        self.reload = reload
        self.stop = asyncio.Event()
        self.lock = ServeLock(home.home.root)
        self._began = time.monotonic()

    async def run(self) -> None:
        """Serve until told to stop; passive as long as another process serves this home."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, self.stop.set)
        if not await self._first():
            return
        server = prepare(self.home.home.root, os.environ) if self.record else None
        try:
            await self._serve(server)
        finally:
            if server is not None:
                await asyncio.to_thread(server.stop)
            self.lock.release()
            self.say("stopped")

    async def _first(self) -> bool:
        """Wait until this process is the one that serves; ``False`` when it is told to stop before."""
        if self.lock.take():
            return True
        self.say(f"passive: {self.lock.holder()} serves {self.home.home.root}; waiting for it to end")
        while not self.stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.stop.wait(), PASSIVE_LOOK_S)
            if not self.stop.is_set() and self.lock.take():
                self.say("the other process has ended: taking over")
                return True
        return False

    async def _serve(self, server: PrefectServer | None) -> None:
        clock = SystemClock()
        plain = PlainRunner(lambda: dispatcher.home, clock)
        runner = PrefectRunner(plain)
        dispatcher = Dispatcher(self.home, runner, clock, RandomIds(), self.reload)
        cut_off = await asyncio.to_thread(dispatcher.recover)
        if cut_off:
            self.say(f"{len(cut_off)} runs of an earlier process were interrupted: {', '.join(sorted(set(cut_off)))}")
        # Imported in a thread and before the first run: on the loop it would make Ctrl-C wait for seconds.
        warm = asyncio.create_task(asyncio.to_thread(_import_turns))
        stopped = asyncio.create_task(self.stop.wait())
        await asyncio.wait({warm, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        self.say(f"serving {self.home.home.root}; ready after {time.monotonic() - self._began:.1f} s")
        tasks = [asyncio.create_task(dispatcher.run(self.stop), name="dispatcher")]
        watcher = Watcher(lambda: dispatcher.home, dispatcher.mark_dirty)
        tasks.append(asyncio.create_task(watcher.run(self.stop), name="watch"))
        connecting = asyncio.create_task(self._connect(server, runner)) if server is not None else None
        await self.stop.wait()
        self.say("stopping")
        if connecting is not None:
            connecting.cancel()
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], *((connecting,) if connecting else ()), return_exceptions=True)
        if runner.ready:
            await asyncio.wait({asyncio.create_task(_flush_logs())}, timeout=FLUSH_S)

    async def _connect(self, server: PrefectServer, runner: PrefectRunner) -> None:
        """Make runs recorded as soon as the server answers."""
        if not await server.healthy():
            log.warning("the Prefect server at %s does not answer; runs go on, without a record there", server.api_url)
            return
        answered_s = time.monotonic() - self._began
        await asyncio.to_thread(import_flows)
        crashed = await crash_leftovers(self.home.home.root)
        runner.ready = True
        self.say(
            f"Prefect records runs at {server.api_url}: answered after {answered_s:.1f} s, "
            f"in use after {time.monotonic() - self._began:.1f} s"
            + (f"; {crashed} runs of a dead process set to Crashed" if crashed else "")
        )


def _import_turns() -> None:
    """Import what a turn needs, and compile its graph."""
    import graphs.run_turn  # noqa: F401
    from graphs.turn import turn_graph
    from turngraph.tokens import default_counter

    turn_graph()
    default_counter()


def import_flows() -> None:
    """Import Prefect and our flows, which takes seconds."""
    import flows.cron
    import flows.heartbeat
    import flows.maintenance
    import flows.reindex  # noqa: F401


async def _flush_logs() -> None:
    """Send what flow runs have logged, as long as the server is there."""
    from prefect.logging.handlers import APILogHandler

    await APILogHandler.aflush()
