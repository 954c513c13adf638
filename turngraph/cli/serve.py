"""``turngraph serve``: run heartbeats, jobs, re-indexing and maintenance until told to stop."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from turngraph.cli.options import HomeOption, JsonOption, SetOption, find_home, read_settings, warn


def serve(
    home: HomeOption = None,
    no_prefect: Annotated[bool, typer.Option("--no-prefect", help="Run without a Prefect server.")] = False,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Serve a home: heartbeats, jobs, re-indexing, maintenance.

    Runs are recorded by the Prefect server that PREFECT_API_URL names, else by one of its own on loopback with its
    data under <home>/prefect. Jobs and settings may be changed while it runs. Ctrl-C ends it. With --json each line
    is an object with at, level and text, on stdout.

    Example: turngraph serve --home ~/.turngraph
    """
    import asyncio
    import os
    from functools import partial

    from flows.serve import Serve
    from stores.locks import release_all
    from turngraph.api import Turngraph, open_home

    found = find_home(home)
    opened = Turngraph(found, read_settings(found, sets))
    reload = partial(open_home, sets=tuple(sets or ()))
    _log(json=json)
    say = logging.getLogger("turngraph.serve").info if json else warn
    loop = asyncio.new_event_loop()
    loop.run_until_complete(Serve(opened, record=not no_prefect, say=say, reload=reload).run())
    # Everything is on disk. A usual exit would wait for threads: those of Prefect for a server that is gone, and a
    # re-index that may take minutes and goes on from where it was.
    release_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _log(*, json: bool) -> None:
    """Send what our modules log to stderr as lines, or to stdout as JSON."""
    logger = logging.getLogger("turngraph")
    handler = logging.StreamHandler(sys.stdout if json else sys.stderr)
    handler.setFormatter(_JsonLines() if json else logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _JsonLines(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        import orjson

        from turngraph.clock import from_ms, iso_ms

        facts = {"at": iso_ms(from_ms(record.created * 1000)), "level": record.levelname.lower()}
        facts["text"] = record.getMessage()
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(facts).decode()
