"""``turngraph maintenance``: tidy a home, or list what would go."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from turngraph.cli.options import HomeOption, JsonOption, SetOption, find_home, print_json, read_settings
from turngraph.clock import SystemClock


def maintenance(
    home: HomeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would go; touch nothing.")] = False,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Sweep archives, leftovers, runs of jobs, traces and logs past their retention.

    Example: turngraph maintenance --dry-run
    """
    from turngraph.api import Turngraph
    from turngraph.scheduled.upkeep import run_upkeep

    found = find_home(home)
    report = run_upkeep(Turngraph(found, read_settings(found, sets)), SystemClock(), dry_run=dry_run)
    if json:
        print_json({**asdict(report), "files": report.files, "freedBytes": report.freed_bytes})
    else:
        for line in report.lines():
            print(line)
    if report.problems:
        raise typer.Exit(3)
