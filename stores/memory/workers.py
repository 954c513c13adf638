"""Prepare many files in worker processes, in order.

Plain child processes with pickles on their pipes, not ``multiprocessing``: that would run the caller's main module
again, which a script or a notebook does not expect of a memory index.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import IO, Any

from stores.memory.reading import PackedBatch, Sizes, Wanted, read_batch

BATCH_BYTES = 500_000
_PARALLEL_FROM_BYTES = 3_000_000  # below this starting workers costs more than they save
_LENGTH = struct.Struct("<Q")


def batches_of(wanted: Iterable[Wanted]) -> list[list[Wanted]]:
    """Group files into batches of about half a megabyte."""
    grouped: list[list[Wanted]] = []
    room = 0
    for item in wanted:
        if not grouped or item.file.size > room:
            grouped.append([])
            room = BATCH_BYTES
        grouped[-1].append(item)
        room -= item.file.size
    return grouped


def prepare_all(wanted: Sequence[Wanted], sizes: Sizes, workers: int | None = None) -> Iterator[PackedBatch]:
    """Yield prepared batches in the order of ``wanted``; large jobs use one process a core, two at most."""
    batches = batches_of(wanted)
    count = min(2, os.cpu_count() or 1) if workers is None else workers
    if count < 2 or sum(item.file.size for item in wanted) < _PARALLEL_FROM_BYTES:
        for batch in batches:
            yield read_batch(batch, sizes)
        return
    with ExitStack() as stack:
        free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for _ in range(count):
            free.put(stack.enter_context(_started()))
        pool = stack.enter_context(ThreadPoolExecutor(count))
        running: deque[Future[PackedBatch]] = deque()
        for batch in batches:
            running.append(pool.submit(_ask, free, batch, sizes))
            # A few batches ahead keep the workers busy without holding the corpus in memory.
            while len(running) > count + 2:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
        for _ in range(count):
            process = free.get()
            assert process.stdin is not None
            process.stdin.close()


def _started() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-m", "stores.memory.workers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )


def _ask(free: SimpleQueue[subprocess.Popen[bytes]], batch: list[Wanted], sizes: Sizes) -> PackedBatch:
    process = free.get()
    try:
        _send(process.stdin, (batch, sizes))
        answer: PackedBatch = _receive(process.stdout)
    finally:
        free.put(process)
    return answer


def _send(stream: IO[bytes] | None, value: Any) -> None:
    assert stream is not None
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError("an indexing worker ended early")
    return pickle.loads(stream.read(_LENGTH.unpack(head)[0]))


def _serve() -> None:
    """Answer requests until the other side closes the pipe."""
    while True:
        try:
            batch, sizes = _receive(sys.stdin.buffer)
        except EOFError:
            return
        _send(sys.stdout.buffer, read_batch(batch, sizes))


if __name__ == "__main__":
    _serve()
