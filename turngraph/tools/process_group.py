"""Run a command in a process group of its own, and end the whole group when it must end.

Source: spec/tools.md sections 5.1 and 5.3.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

GRACE_S = 2.0  # from TERM to KILL, and for processes that outlive their command
_READ_BYTES = 65_536

Ending = Literal["completed", "timeout", "aborted"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        how: by itself, at its time limit, or by the cancel signal.
        exit_code: as the shell gave it; negative is the number of the signal that ended it.
        left_behind: whether processes that it had started still held its output and were ended.
    """

    how: Ending
    exit_code: int | None
    left_behind: bool = False


async def run_in_group(
    command: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    *,
    on_output: Callable[[bytes], None],
    cancel: asyncio.Event,
    timeout_s: float,
    grace_s: float = GRACE_S,
) -> Ended:
    """Run ``command`` with closed input; stdout and stderr share one pipe, so their order is kept.

    A command that was stopped, or whose task was cancelled, leaves no process of its group. One that ended by
    itself leaves only processes that do not hold its output.

    Raises:
        OSError: the command cannot be started.
    """
    read_end, write_end = os.pipe()
    reading = _Reading(read_end, on_output)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=write_end,
            stderr=write_end,
            start_new_session=True,
        )
    except BaseException:
        reading.close()
        raise
    finally:
        os.close(write_end)
    exited = asyncio.create_task(process.wait())
    cancelled = asyncio.create_task(cancel.wait())
    try:
        await asyncio.wait({exited, cancelled}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        how: Ending = "completed" if exited.done() else "aborted" if cancelled.done() else "timeout"
        left_behind = how == "completed" and not await reading.finished_within(grace_s)
        if left_behind or how != "completed":
            await _end_group(process.pid, exited, grace_s)
            await reading.finished_within(grace_s)
        return Ended(how, process.returncode, left_behind)
    except BaseException:
        # The calling task was cancelled: no time for manners.
        _signal_group(process.pid, signal.SIGKILL)
        await asyncio.shield(exited)
        raise
    finally:
        cancelled.cancel()
        reading.close()


async def _end_group(group: int, exited: asyncio.Task[int], grace_s: float) -> None:
    """Send TERM to a group that still lives and KILL to what is left of it after ``grace_s``."""
    if not _signal_group(group, signal.SIGTERM):
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_s
    await asyncio.wait({exited}, timeout=grace_s)
    # The group may outlive its leader; the system tells only when asked.
    while _signal_group(group, 0) and loop.time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(min(0.02, grace_s / 4))
    _signal_group(group, signal.SIGKILL)
    await asyncio.wait({exited})


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a group; ``False`` when nobody is left in it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        # macOS answers EPERM for a group of which only the unreaped leader is left.
        return False
    return True


class _Reading:
    """Reads a pipe as its bytes come in, until its last writer has gone."""

    def __init__(self, descriptor: int, on_output: Callable[[bytes], None]) -> None:
        os.set_blocking(descriptor, False)
        self.finished = asyncio.Event()
        self._descriptor = descriptor
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._ready)

    def _ready(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._on_output(data)
        else:
            self._loop.remove_reader(self._descriptor)
            self.finished.set()

    async def finished_within(self, seconds: float) -> bool:
        """Wait until everything is read, but no longer than ``seconds``; tell whether it is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.finished.wait(), seconds)
        return self.finished.is_set()

    def close(self) -> None:
        """Stop reading."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
