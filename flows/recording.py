"""How a flow and the work inside it come together: work that serve hands over, or that the flow does by itself.

Source: spec/scheduling.md C1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from prefect.artifacts import acreate_markdown_artifact
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from flows.plain import PlainRunner
from turngraph.api import open_home
from turngraph.clock import SystemClock

PATIENCE_S = 5.0  # how long a Prefect server may keep a run waiting; then the run goes on without a record
_NOT_IN_KEY = re.compile(r"[^a-z0-9]+")

Work = Callable[[PlainRunner], Awaitable[Any]]

log = logging.getLogger("turngraph.serve")


@dataclass(slots=True)
class Handed:
    """Work that serve hands to a flow in its own process; it is done at most once, with the flow or without."""

    work: Work
    runner: PlainRunner
    taken: bool = False
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    result: Any = None
    error: BaseException | None = None

    async def run(self, flow_run_id: str | None) -> Any:
        """Do the work, unless somebody has begun it already: then return ``None``."""
        if self.taken:
            return None
        self.taken = True
        self.begun.set()
        try:
            runner = replace(self.runner, flow_run_id=flow_run_id, say=_say if flow_run_id else self.runner.say)
            self.result = await self.work(runner)
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.finished.set()
        return self.result


HANDED: ContextVar[Handed | None] = ContextVar("turngraph_handed", default=None)


async def do_work(work: Work, home: str | None = None) -> Any:
    """Inside a flow: do the work that serve handed over, else ``work`` itself on the home that is named.

    Args:
        work: what to do when nobody handed anything over.
        home: folder of the home; else ``TURNGRAPH_HOME``, else ``~/.turngraph``.
    """
    flow_run_id = flow_run.id
    handed = HANDED.get()
    if handed is not None:
        return await handed.run(flow_run_id)
    opened = open_home(home or os.environ.get("TURNGRAPH_HOME"))
    return await work(PlainRunner(lambda: opened, SystemClock(), flow_run_id, _say))


def _say(line: str) -> None:
    """Log a line at the flow run, and where serve logs."""
    log.info(line)
    get_run_logger().info(line)


async def publish(key: str, markdown: str, line: str) -> None:
    """Leave an artifact and a log line at the flow run; trouble with the server costs them and nothing else."""
    get_run_logger().info(line)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await acreate_markdown_artifact(key=artifact_key(key), markdown=markdown)
    except Exception as error:  # whatever the client raises when its server is gone
        log.warning("no artifact %s: %s", key, type(error).__name__)


def artifact_key(text: str) -> str:
    """Return a text as the key of an artifact: small letters, digits and dashes."""
    return _NOT_IN_KEY.sub("-", text.lower()).strip("-") or "artifact"
