"""``turngraph serve``: run heartbeats, jobs, re-indexing and maintenance until told to stop."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from turngraph.cli.options import HomeOption, SetOption, find_home, read_settings, warn


def serve(
    home: HomeOption = None,
    no_prefect: Annotated[bool, typer.Option("--no-prefect", help="Run without a Prefect server.")] = False,
    sets: SetOption = None,
) -> None:
    """Serve a home: heartbeats, jobs, re-indexing, maintenance.

    Runs are recorded by the Prefect server that PREFECT_API_URL names, else by one of its own on loopback with its
    data under <home>/prefect. Jobs and settings may be changed while it runs. Ctrl-C ends it.

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
    _log_to_stderr()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(Serve(opened, record=not no_prefect, say=warn, reload=reload).run())
    # Everything is on disk. A usual exit would wait for threads: those of Prefect for a server that is gone, and a
    # re-index that may take minutes and goes on from where it was.
    release_all()
    sys.stderr.flush()
    os._exit(0)


def _log_to_stderr() -> None:
    import logging

    logger = logging.getLogger("turngraph")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
