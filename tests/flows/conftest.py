"""A Prefect server for the tests of a session, started when the first one asks for it."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.server import PrefectServer, prepare


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefectServer]:
    """A server of our own on loopback; Prefect is imported after its environment is set."""
    root: Path = tmp_path_factory.mktemp("prefect-home")
    before = dict(os.environ)
    os.environ.pop("PREFECT_API_URL", None)
    server = prepare(root, os.environ)
    try:
        assert asyncio.run(server.healthy(180.0)), (root / "prefect" / "server.log").read_text()[-2_000:]
        yield server
    finally:
        server.stop()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True)
def left_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prefect leaves client sockets to the collector: no later test shall be blamed for them."""
    yield
    if "prefect_server" in request.fixturenames:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
