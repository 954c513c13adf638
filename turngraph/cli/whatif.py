"""The what-if side of ``turngraph replay``: grids of settings, and bisect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from turngraph.cli.options import print_json, warn


def sweep(paths: Sequence[Path], grid: Path, out: Path, *, workers: int | None, json: bool) -> None:
    """Run a grid and show its Pareto front; go on where an earlier run of the same grid was stopped."""
    from turngraph.replay.whatif import points_of, read_grid, run_grid, write_sweep
    from turngraph.viewer.pareto import pareto_page

    combinations, _ = read_grid(grid)

    def progress(row: Mapping[str, Any], done: int, of: int) -> None:
        how = "done before" if row["resumed"] else f"{row['wallMs'] / 1000:.1f} s"
        warn(f"{done:4d} of {of}  {row['transcript']}  {row['settings']}  ({how})")

    rows = run_grid(paths, combinations, out, workers=workers, progress=progress)
    points = sorted(points_of(rows), key=lambda point: point.usd)
    write_sweep(rows, out)
    (out / "pareto.html").write_bytes(pareto_page(points, rows).encode("utf-8", "replace"))
    if json:
        print_json({"out": str(out), "rows": rows, "front": [p.settings for p in points if p.front]})
        return
    print(f"{'cost':>12} {'visible':>8} {'prompt tokens':>14} {'folds':>6} {'cleared':>9}  settings")
    for point in points:
        row = point.row
        print(
            f"{'*' if point.front else ' '} {f'${point.usd:.4f}':>10} {point.survival:>8.1%} "
            f"{row['promptTokensSum']:>14,} {row['compactions']:>6} {row['clearedChars']:>9,}  {point.settings}"
        )
    print("* on the Pareto front: no other settings cost less and keep as much in sight")
    print(f"{len(rows)} cells; table in {out / 'sweep.parquet'}, picture in {out / 'pareto.html'}")


def find_setting(
    paths: Sequence[Path],
    files: tuple[Path, Path] | None,
    fact: str | None,
    turn: int | None,
    window: int,
    *,
    json: bool,
) -> None:
    """Find the setting after which a fact is not visible any more."""
    from turngraph.clock import SystemClock
    from turngraph.config import load_settings
    from turngraph.replay.bisect import bisect, fact_visible, read_flat
    from turngraph.replay.source import read_session
    from turngraph.replay.whatif import as_sets

    if files is None or fact is None or turn is None or len(paths) != 1:
        raise typer.BadParameter("--bisect takes one transcript, GOOD and BAD, --fact and --turn")
    session = read_session(paths[0], SystemClock())
    if turn > len(session.turns):
        raise typer.BadParameter(f"the transcript has {len(session.turns)} turns, --turn {turn} is not one of them")

    def holds(flat: Mapping[str, Any]) -> bool:
        settings = load_settings(paths[0].parent / "no home", sets=as_sets(flat), env={}).agent()
        visible = fact_visible(session, settings, fact, turn, window_tokens=window)
        warn(f"{'visible' if visible else 'not visible'}: {' '.join(as_sets(flat)) or 'defaults'}")
        return visible

    found = bisect(read_flat(files[0]), read_flat(files[1]), holds)
    if json:
        print_json({"setting": found.path, "good": found.good, "bad": found.bad, "replays": found.tried})
    else:
        print(f"{found.path}: {found.good} -> {found.bad} hides the fact at turn {turn} ({found.tried} replays)")
