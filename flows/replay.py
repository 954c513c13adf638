"""Flow ``replay``: replay recorded transcripts under a grid of settings, one task a cell.

The work is :func:`turngraph.replay.whatif.run_cell`, the same function that ``turngraph replay --grid`` runs without
Prefect. Tasks run on a pool of processes here; with another task runner (Ray, Dask) they run elsewhere:
``replay.with_options(task_runner=...)``. Source: spec/seeing.md 5.1, design decision 12.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import State, flow, task
from prefect.states import Completed
from prefect.task_runners import ProcessPoolTaskRunner

from flows.recording import publish
from turngraph.replay.source import transcripts_in
from turngraph.replay.whatif import Cell, cell_settings, run_cell, write_sweep

# A cell that was killed half-way begins anew; one that is done is read, so that a retry costs nothing twice.
replay_cell = task(name="replay cell", retries=1, retry_delay_seconds=2, persist_result=False)(run_cell)


@flow(
    name="replay",
    persist_result=False,
    task_runner=ProcessPoolTaskRunner(max_workers=os.cpu_count() or 1),  # type: ignore[arg-type]
)
async def replay(
    transcripts: list[str], out: str, combinations: list[list[str]] | None = None, window_tokens: int = 200_000
) -> State[Any]:
    """Replay every transcript under every combination of settings; cells that are done are not done again.

    ``turngraph replay --grid`` into the same folder takes the cells as they are and draws the page.

    Args:
        transcripts: files, or folders of them; they are read, never written.
        out: folder of the sweep.
        combinations: lists of ``PATH=VALUE``; else the defaults alone.
        window_tokens: context window of the replayed model.
    """
    cells = [
        Cell(path, tuple(sets), window_tokens)
        for sets in combinations or [[]]
        for path in transcripts_in([Path(name) for name in transcripts])
    ]
    for cell in cells:
        cell_settings(cell)  # a wrong setting is found before anything runs
    running = [replay_cell.submit(str(cell.transcript), cell.sets, out, cell.window_tokens) for cell in cells]
    rows = [future.result() for future in running]
    write_sweep(rows, Path(out))
    line = f"{len(rows)} cells, {sum(row['resumed'] for row in rows)} done before"
    await publish("replay", _markdown(line, rows, out), line)
    return Completed(message=line)


def _markdown(line: str, rows: Sequence[dict[str, Any]], out: str) -> str:
    head = "| transcript | settings | compactions | prompt tokens | visible |\n|---|---|--:|--:|--:|"
    lines = "\n".join(
        f"| {row['transcript']} | {row['settings']} | {row['compactions']} | {row['promptTokensSum']:,} "
        f"| {row['survival']:.1%} |"
        for row in rows
    )
    return f"# {line}\n\n{head}\n{lines}\n\nIn `{out}`\n"
