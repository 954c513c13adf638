"""The Prefect server that serve uses: a running one, or a child of its own on loopback.

Source: spec/spike.md section 5.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

START_TIMEOUT_S = 120.0
LOOK_S = 0.25
STOP_S = 1.5


@dataclass(slots=True)
class PrefectServer:
    """Where the server is, and the child process when it is ours."""

    api_url: str
    child: subprocess.Popen[bytes] | None = None

    async def healthy(self, timeout_s: float = START_TIMEOUT_S) -> bool:
        """Wait until the server answers; ``False`` when it does not in time, or when our child has ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while loop.time() < deadline:
            if await asyncio.to_thread(self._answers):
                return True
            if self.child is not None and self.child.poll() is not None:
                return False
            await asyncio.sleep(LOOK_S)
        return False

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.api_url}/health", timeout=2.0) as answer:
            return bool(answer.status == 200)
        return False

    def stop(self) -> None:
        """End our child; a server of somebody else is left alone. Its database survives being killed."""
        if self.child is None or self.child.poll() is not None:
            return
        self.child.terminate()
        try:
            self.child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def local_environment(root: Path) -> dict[str, str]:
    """Return the variables that keep Prefect quiet, local and below ``<home>/prefect``."""
    return {
        "PREFECT_HOME": str(root / "prefect"),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "ERROR",
    }


def prepare(root: Path, env: MutableMapping[str, str]) -> PrefectServer:
    """Set the environment for Prefect and return the server: the one that ``PREFECT_API_URL`` names, else our own.

    To be called before anything imports prefect.
    """
    for name, value in local_environment(root).items():
        env.setdefault(name, value)
    if named := env.get("PREFECT_API_URL"):
        return PrefectServer(named.rstrip("/"))
    port = _free_port()
    env["PREFECT_API_URL"] = f"http://127.0.0.1:{port}/api"
    return PrefectServer(env["PREFECT_API_URL"], _start(root, port, env))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(root: Path, port: int, env: MutableMapping[str, str]) -> subprocess.Popen[bytes]:
    folder = root / "prefect"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "flows.server_child", str(port)],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
