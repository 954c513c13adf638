"""``turngraph doctor``: what in a home or a transcript will cause trouble, each with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, SetOption, find_home, print_json
from turngraph.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stores.home import Home
    from turngraph.cli.checks import Finding
    from turngraph.config import Settings

SEVERITIES = ("error", "warning", "note")
SHOWN = 60  # findings on the terminal; --json has all


def doctor(
    transcripts: Annotated[
        list[Path] | None, typer.Argument(help="Transcript files; without any the home is examined.")
    ] = None,
    home: HomeOption = None,
    agent: AgentOption = None,
    window: Annotated[int, typer.Option("--window", min=1, help="Context window for the transcripts.")] = 200_000,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Find what will cause trouble: broken lines, refused histories, cut files, a stale index. Changes nothing.

    Exit code 1 when there is a warning or an error. Example: turngraph doctor session.jsonl
    """
    from turngraph.cli.checks import as_json, check_transcript

    found: list[Finding] = []
    if transcripts:
        for path in transcripts:
            if not path.is_file():
                raise NotFound(f"no transcript {path}")
            found += check_transcript(path, window)
    else:
        found += _examine(find_home(home), agent, set)
    found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    if json:
        print_json([as_json(finding) for finding in found])
    else:
        _print(found)
    if any(finding.severity != "note" for finding in found):
        raise typer.Exit(1)


def _print(found: list[Finding]) -> None:
    where = ""
    for finding in found[:SHOWN]:
        if finding.where != where:
            print(finding.where)
            where = finding.where
        print(f"  {finding.severity:8} {finding.what}\n{'':11}-> {finding.way_out}")
    if len(found) > SHOWN:
        print(f"... and {len(found) - SHOWN} more; --json has all")
    counts = ((sum(f.severity == severity for f in found), severity) for severity in SEVERITIES)
    told = ", ".join(f"{count} {severity}{'' if count == 1 else 's'}" for count, severity in counts)
    print(f"{told}." if found else "Nothing found.")


def _examine(home: Home, agent: str | None, sets: list[str] | None) -> Iterator[Finding]:
    from turngraph.cli.checks import Finding, check_agent
    from turngraph.cli.options import pick_agent

    if not home.root.is_dir():
        raise NotFound(f"no home {home.root}; --home or TURNGRAPH_HOME names one")
    try:
        settings = _settings(home, sets)
    except ConfigError as error:
        yield from (Finding("error", "settings", problem, "correct the value") for problem in error.problems)
        if not error.problems:
            yield Finding("error", "settings", str(error), "correct the file")
        return
    yield from (Finding("note", "settings", note, "remove what is not used") for note in settings.notes)
    for agent_id in [pick_agent(settings, agent)] if agent else settings.agent_ids:
        yield from check_agent(home, settings.agent(agent_id))


def _settings(home: Home, sets: list[str] | None) -> Settings:
    import os

    from turngraph.config import load_settings

    return load_settings(home.root, sets=tuple(sets or ()), env=os.environ)
