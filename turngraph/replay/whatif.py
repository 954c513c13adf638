"""What-if: a grid of settings over transcripts, one cell after another on all cores, and on again where it was killed.

A cell is a plain function of a transcript and settings; the flow ``replay`` wraps the same function in tasks. Its
folder appears under its final name only when it is complete, and a complete cell is not run again.
Source: spec/seeing.md section 5.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import orjson

from turngraph.clock import SystemClock, monotonic_ms
from turngraph.config import AgentSettings, load_settings
from turngraph.errors import ConfigError

MEASURES = "measures.json"
DEFAULT_WINDOW = 200_000
WINDOW_KEY = "window"  # of a grid: the context window, which is no setting


@dataclass(frozen=True, slots=True)
class Cell:
    """One transcript under one set of settings.

    Attributes:
        transcript: file. sets: settings as ``--set`` has them, in order. window_tokens: context window.
    """

    transcript: Path
    sets: tuple[str, ...]
    window_tokens: int = DEFAULT_WINDOW

    @property
    def label(self) -> str:
        """The settings in words."""
        window = [f"window={self.window_tokens}"] if self.window_tokens != DEFAULT_WINDOW else []
        return " ".join([*window, *self.sets]) or "defaults"


def read_grid(path: Path) -> tuple[list[tuple[tuple[str, ...], int]], dict[str, list[Any]]]:
    """Read a grid file: JSON5, setting path -> list of values; ``window`` lists context windows.

    Returns:
        every combination as (sets, window), and the axes.

    Raises:
        ConfigError: the file is no such mapping.
    """
    import pyjson5

    try:
        axes = pyjson5.decode(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, pyjson5.Json5Exception) as error:
        raise ConfigError(f"{path}: cannot be read as JSON5 ({error})") from error
    if not isinstance(axes, dict) or not all(isinstance(values, list) and values for values in axes.values()):
        raise ConfigError(f"{path}: write setting paths with lists of values, such as {{'compaction.mode': ['off']}}")
    names = list(axes)
    combinations = []
    for values in product(*(axes[name] for name in names)):
        chosen = dict(zip(names, values, strict=True))
        window = int(chosen.pop(WINDOW_KEY, DEFAULT_WINDOW))
        combinations.append((as_sets(chosen), window))
    return combinations, axes


def as_sets(flat: Mapping[str, Any]) -> tuple[str, ...]:
    """Write flat settings as texts of ``--set``."""
    return tuple(
        f"{path}={value if isinstance(value, str) else orjson.dumps(value).decode()}" for path, value in flat.items()
    )


def cell_settings(cell: Cell) -> AgentSettings:
    """Return the settings of a cell: the defaults with its sets.

    Raises:
        ConfigError: a setting is unknown or has a bad value.
    """
    return load_settings(Path(os.devnull) / "no home", sets=cell.sets, env={}).agent()


def cell_key(cell: Cell) -> str:
    """Return what makes a cell the same cell: transcript hash, settings digest, window and package version."""
    parts = (
        sha256(cell.transcript.read_bytes()).hexdigest(),
        cell_settings(cell).digest,
        str(cell.window_tokens),
        version("turngraph"),
    )
    return sha256("\n".join(parts).encode()).hexdigest()[:20]


def run_cell(transcript: str, sets: Sequence[str], out: str, window_tokens: int = DEFAULT_WINDOW) -> dict[str, Any]:
    """Replay one transcript under one set of settings and return its measures; a done cell is read, not run.

    Args:
        transcript: path of the file; read only.
        sets: settings, ``PATH=VALUE``.
        out: folder of the sweep; the cell gets a folder below it.
        window_tokens: context window.

    Raises:
        ConfigError: a setting is wrong. NotFound: the transcript has no user turn.
    """
    cell = Cell(Path(transcript), tuple(sets), window_tokens)
    folder = Path(out) / "cells" / cell_key(cell)
    done = folder / MEASURES
    if done.is_file():
        row: dict[str, Any] = orjson.loads(done.read_bytes())
        return {**row, "resumed": True}
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        row = _measured(cell, work)
        (work / MEASURES).write_bytes(orjson.dumps(row, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        shutil.rmtree(work / "home", ignore_errors=True)
        if folder.exists():
            shutil.rmtree(folder)
        work.rename(folder)
    finally:
        if work.exists():
            shutil.rmtree(work)
    return {**row, "resumed": False}


def _measured(cell: Cell, work: Path) -> dict[str, Any]:
    from turngraph.replay.driver import replay_session
    from turngraph.replay.measures import measures, survival_of
    from turngraph.replay.source import read_session

    started = monotonic_ms()
    settings = cell_settings(cell)
    session = read_session(cell.transcript, SystemClock())
    turns = replay_session(session, work / "home", settings, window_tokens=cell.window_tokens)
    survival = survival_of(session, turns)
    return {
        "transcript": cell.transcript.name,
        "settings": cell.label,
        "sets": list(cell.sets),
        "windowTokens": cell.window_tokens,
        "settingsDigest": settings.digest,
        **measures(turns, survival),
        "wallMs": round(monotonic_ms() - started),
    }


def run_grid(
    transcripts: Sequence[Path],
    combinations: Sequence[tuple[tuple[str, ...], int]],
    out: Path,
    *,
    workers: int | None = None,
    progress: Callable[[Mapping[str, Any], int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run every combination over every transcript on a pool of processes; rows come back in the order of the grid.

    Args:
        transcripts, combinations: what is crossed.
        out: folder of the sweep; cells that are done there are taken as they are.
        workers: processes; else the cores. 1 runs here.
        progress: told of each finished row, how many are done and how many there are.

    Raises:
        ConfigError: a setting is wrong; found before anything runs.
    """
    cells = [Cell(path, sets, window) for sets, window in combinations for path in transcripts]
    for cell in cells:
        cell_settings(cell)
    rows: dict[int, dict[str, Any]] = {}
    for index, row in _run(cells, out, workers or os.cpu_count() or 1):
        rows[index] = row
        if progress:
            progress(row, len(rows), len(cells))
    _sweep_leftovers(out)
    return [rows[index] for index in range(len(cells))]


def _run(cells: Sequence[Cell], out: Path, workers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    if workers <= 1:
        for index, cell in enumerate(cells):
            yield index, run_cell(str(cell.transcript), cell.sets, str(out), cell.window_tokens)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {
            pool.submit(run_cell, str(cell.transcript), cell.sets, str(out), cell.window_tokens): index
            for index, cell in enumerate(cells)
        }
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _sweep_leftovers(out: Path) -> None:
    """Remove the working folders of cells that were killed."""
    for left in (out / "cells").glob(".*-*"):
        shutil.rmtree(left, ignore_errors=True)


def write_sweep(rows: Sequence[Mapping[str, Any]], out: Path) -> Path:
    """Write the rows as one Arrow table, ``sweep.parquet``.

    Raises:
        OSError: the file cannot be written.
    """
    import pyarrow as pa

    from stores.traces.tables import write_table

    plain = [{key: value for key, value in row.items() if key != "resumed"} for row in rows]
    path = out / "sweep.parquet"
    write_table(pa.Table.from_pylist(plain), path)
    return path


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of settings over all transcripts; ``front`` is whether no other is better in both ways."""

    settings: str
    usd: float
    survival: float
    row: Mapping[str, Any]
    front: bool = False


def pareto(points: Sequence[Point]) -> list[Point]:
    """Mark the points of the Pareto front: no other costs less and keeps at least as much, or the other way round."""
    marked = []
    for point in points:
        beaten = any(
            other.usd <= point.usd
            and other.survival >= point.survival
            and (other.usd < point.usd or other.survival > point.survival)
            for other in points
        )
        marked.append(Point(point.settings, point.usd, point.survival, point.row, not beaten))
    return marked


def points_of(rows: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Join the rows of each combination of settings over its transcripts and mark the front.

    Where no price is known, money is counted in uncached prompt tokens divided by a million.
    """
    from turngraph.replay.measures import mean_row

    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["settings"], []).append(row)
    joined = {settings: mean_row(group) for settings, group in groups.items()}
    priced = all(row["usd"] is not None for row in joined.values())
    return pareto(
        [
            Point(settings, row["usd"] if priced else row["promptTokensSum"] / 1e6, row["survival"], row)
            for settings, row in joined.items()
        ]
    )
