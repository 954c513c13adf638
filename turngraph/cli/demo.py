"""``turngraph demo``: the whole pipeline on sample sessions, offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turngraph.cli.options import JsonOption, print_json

if TYPE_CHECKING:
    from turngraph.api import TurnResult

WINDOW_TOKENS = 32_000
QUESTION = "When does the harbour release go out, and who decides about it?"


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the sample home and the traces.")] = Path("demo-out"),
    json: JsonOption = False,
) -> None:
    """Replay the sample sessions through a 32k window, then run one live turn with the offline model.

    Example: turngraph demo --out demo-out
    """
    from stores.home import Home
    from turngraph.api import Turngraph
    from turngraph.cli.options import read_settings
    from turngraph.cli.replay import LiveTable, run_json, show_run, write_report
    from turngraph.cli.report import write_turn_report
    from turngraph.replay.run import replay_file
    from turngraph.replay.samples import sample_sessions, write_sample_home
    from turngraph.viewer.sources import TurnSource

    home = Home((out / "home").absolute())
    write_sample_home(home.root)
    settings = read_settings(home)
    agent = settings.agent(settings.default_agent_id)
    runs = []
    for sample in sample_sessions(home.root):
        path = home.sessions_dir("main") / sample.file
        folder = out / "replay" / path.name
        with LiveTable(f"{sample.about} ({sample.file})", quiet=json) as live:
            run = replay_file(
                path,
                agent,
                out=folder,
                session_key=sample.session_key,
                window_tokens=WINDOW_TOKENS,
                workspace=home.workspace("main", agent),
                progress=live.add,
            )
        write_report(folder)
        runs.append(run)
        if not json:
            show_run(run)
    live_turn = Turngraph(home, settings).agent().run(QUESTION, session_key="agent:main:main")
    report = out / "turn.html"
    write_turn_report(TurnSource.of_home(home), live_turn.session_key, report)
    if json:
        from turngraph.cli.turn import result_json

        print_json(
            {"replays": [run_json(run) for run in runs], "liveTurn": result_json(live_turn), "report": str(report)}
        )
        return
    _show_live_turn(live_turn, home, runs, report)


def _show_live_turn(result: TurnResult, home: Any, runs: list[Any], report: Path) -> None:
    print(f"\nOne live turn with the offline model\n> {QUESTION}\n{result.text}\n")
    turns = sum(run.summary["turns"] for run in runs)
    print(f"{turns} turns of {len(runs)} sessions replayed at {WINDOW_TOKENS:,} tokens.")
    print(f"Replay traces: {runs[0].folder.parent}, each with a report.html of all its turns")
    print(f"Live trace:    {home.traces_dir}")
    print(f"Its report:    {report}")
    print(f"Look at it:    turngraph context {result.session_key} --home {home.root}")
