"""``turngraph view``: the home as a local web page."""

from __future__ import annotations

from typing import Annotated

import typer

from turngraph.cli.options import HomeOption, find_home, read_settings, warn
from turngraph.errors import NotFound

HOST = "127.0.0.1"


def view(
    home: HomeOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port on loopback; 0 takes a free one.")] = 0,
) -> None:
    """Show sessions, turns as they run, memory search and schedules as a page on this machine only.

    Example: turngraph view --home demo-out/home
    """
    try:
        import uvicorn
    except ImportError as error:
        raise NotFound('the page needs a web server: pip install "turngraph[view]"') from error
    import socket

    from turngraph.viewer.server import make_app, new_token

    found = find_home(home)
    token = new_token()
    app = make_app(found, read_settings(found), token)
    listening = socket.create_server((HOST, port))
    print(f"http://{HOST}:{listening.getsockname()[1]}/{token}/", flush=True)
    warn("Only this machine can open it. Stop with Ctrl+C.")
    uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).run(sockets=[listening])
