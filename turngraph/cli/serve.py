"""``turngraph serve``: run heartbeats, jobs, re-indexing and maintenance until told to stop."""

from __future__ import annotations

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
    import logging
    from functools import partial

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from flows.serve import Serve
    from turngraph.api import Turngraph, open_home

    found = find_home(home)
    opened = Turngraph(found, read_settings(found, sets))
    reload = partial(open_home, sets=tuple(sets or ()))
    asyncio.run(Serve(opened, record=not no_prefect, say=warn, reload=reload).run())
