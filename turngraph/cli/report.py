"""``turngraph report``: the turn report as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, find_home, print_json

if TYPE_CHECKING:
    from turngraph.viewer.sources import TurnSource


def report(
    session: Annotated[str, typer.Argument(help="Session key; `main` is the main session.")],
    out: Annotated[Path, typer.Option("--out", help="HTML file to write.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    turn: Annotated[int | None, typer.Option("--turn", min=1, help="Number of the turn; else the last one.")] = None,
    all_turns: Annotated[bool, typer.Option("--all", help="Every traced turn, behind an index.")] = False,
    traces: Annotated[
        Path | None, typer.Option("--traces", help="Read the output folder of a replay in place of the home.")
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Digests and sizes in place of text.")] = False,
    json: JsonOption = False,
) -> None:
    """Write what the model saw in a turn, and why, as one HTML file that works offline.

    Example: turngraph report main --turn 3 --out turn.html
    """
    from turngraph.viewer.sources import TurnSource

    source = TurnSource.of_folder(traces) if traces else TurnSource.of_home(find_home(home), agent)
    key = source.key(session)
    size_bytes = write_turn_report(source, key, out, turn=turn, all_turns=all_turns, redact=redact)
    if json:
        print_json({"file": str(out), "bytes": size_bytes, "session": key})
    else:
        print(f"{out}: {size_bytes / 1000:,.0f} kB")


def write_turn_report(
    source: TurnSource,
    key: str,
    out: Path,
    *,
    turn: int | None = None,
    all_turns: bool = False,
    redact: bool = False,
    verdicts: dict[int, str] | None = None,
) -> int:
    """Write the report of one turn (else the last), or of all with the verdicts of a check, to ``out``.

    Returns:
        its size in bytes.

    Raises:
        NotFound: no such session or turn is traced.
        OSError: the file cannot be written; an earlier one is left as it was.
    """
    from turngraph.viewer.turn_data import PageRules

    rules = PageRules(redact=redact)
    html = source.report_of_all(key, rules, verdicts) if all_turns else source.report(key, turn, rules)
    written = html.encode("utf-8", "replace")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    temporary.write_bytes(written)
    temporary.replace(out)
    return len(written)
