"""The Prefect server as a child process: ends when its parent does, however that ended.

Source: spec/spike.md section 5.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

LOOK_S = 0.5
NICENESS = 5


def main(port: int) -> None:
    """Serve the Prefect API on loopback until told to stop, or until the parent process is gone."""
    import uvicorn

    os.nice(NICENESS)  # its start takes seconds of a core; the first runs come before it
    parent = os.getppid()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    uvicorn.run(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="warning",
        timeout_graceful_shutdown=1,
    )


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
