"""``turngraph replay``: run recorded transcripts through the turn graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turngraph.cli.options import (
    HomeOption,
    JsonOption,
    SetOption,
    console,
    find_home,
    print_json,
    read_settings,
    table,
)

if TYPE_CHECKING:
    from rich.table import Table

    from turngraph.config import AgentSettings
    from turngraph.decisions import TurnTrace
    from turngraph.models.model import Model
    from turngraph.replay.check import Checked
    from turngraph.replay.driver import ReplayedTurn
    from turngraph.replay.run import ReplayRun
    from turngraph.replay.source import RecordedSession

DIFFERENCES_SHOWN = 10


def replay(
    files: Annotated[list[Path], typer.Argument(help="Transcripts, or folders of them.")],
    out: Annotated[Path | None, typer.Option("--out", help="Folder for traces and summaries.")] = None,
    window: Annotated[int, typer.Option("--window", min=8000, help="Context window in tokens.")] = 200_000,
    session: Annotated[str, typer.Option("--session", help="Session key the turns run under.")] = "agent:main:main",
    home: HomeOption = None,
    set: SetOption = None,
    check: Annotated[
        Path | None, typer.Option("--check", help="Earlier output: say which turns decided something else.")
    ] = None,
    grid: Annotated[
        Path | None, typer.Option("--grid", help="JSON5 file, setting -> values: run every combination.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes of a grid; else the cores.")
    ] = None,
    bisect: Annotated[
        tuple[Path, Path] | None, typer.Option("--bisect", help="GOOD BAD: find the setting that hides --fact.")
    ] = None,
    fact: Annotated[str | None, typer.Option("--fact", help="Text or entry id, for --bisect.")] = None,
    summariser: Annotated[
        str | None, typer.Option("--summariser", help="model:NAME writes the summaries that are not on record.")
    ] = None,
    live_memory: Annotated[
        bool, typer.Option("--live-memory", help="Memory searches find what the session knew by then.")
    ] = False,
    turn: Annotated[int | None, typer.Option("--turn", min=1, help="Where the fact is wanted, for --bisect.")] = None,
    json: JsonOption = False,
) -> None:
    """Replay transcripts turn by turn, offline; the files are not changed.

    Example: turngraph replay session.jsonl --window 32000 --set contextPruning.mode=cache-ttl
    """
    from turngraph.replay.source import transcripts_in

    paths = transcripts_in(files)
    if grid is not None or bisect is not None:
        from turngraph.cli.whatif import find_setting, sweep

        if grid is not None:
            return sweep(paths, grid, out or Path("sweep-out"), workers=workers, json=json)
        return find_setting(paths, bisect, fact, turn, window, json=json)
    settings = read_settings(find_home(home), set)
    agent = settings.agent(settings.default_agent_id)
    options = {
        "session_key": session,
        "window_tokens": window,
        "summariser": _summariser(summariser, agent),
        "live_memory": live_memory,
    }
    runs, checks = [], []
    for path in paths:
        baseline = _baseline(path, check) if check else None  # before an output in the same folder replaces it
        run = _replay(path, agent, out, options, json=json)
        runs.append(run)
        verdicts = None
        if baseline is not None:
            checks.append(_check(run, baseline, quiet=json))
            verdicts = checks[-1].verdicts([turn.trace for turn in run.turns])
        if run.folder is not None:
            write_report(run.folder, verdicts)
    if json:
        done = [run_json(run) for run in runs]
        print_json(
            [{**row, "check": found.as_json()} for row, found in zip(done, checks, strict=True)] if check else done
        )
    if any(found.differences for found in checks):
        raise typer.Exit(1)
    return None


def _summariser(name: str | None, agent: AgentSettings) -> Model | None:
    if name is None:
        return None
    from turngraph.models.registry import make_model

    return make_model(name.removeprefix("model:"), agent)


def _baseline(path: Path, folder: Path) -> list[TurnTrace]:
    from turngraph.clock import SystemClock
    from turngraph.replay.check import read_baseline
    from turngraph.replay.source import read_session

    return read_baseline(folder, read_session(path, SystemClock()).session_id)


def _replay(path: Path, agent: AgentSettings, out: Path | None, options: Mapping[str, Any], *, json: bool) -> ReplayRun:
    from turngraph.replay.run import replay_file

    folder = out / path.stem if out else None
    with LiveTable(path.name, quiet=json) as live:
        run = replay_file(path, agent, out=folder, progress=live.add, **options)
    if not json:
        show_run(run)
    return run


def write_report(folder: Path, verdicts: dict[int, str] | None = None) -> None:
    """Write ``report.html`` into the output folder of a replay; ``verdicts`` of a check, by turn."""
    from turngraph.cli.report import write_turn_report
    from turngraph.viewer.sources import TurnSource

    source = TurnSource.of_folder(folder)
    key = source.reader.turns(limit=1)[0].session_key
    write_turn_report(source, key, folder / "report.html", all_turns=True, verdicts=verdicts)


def _check(run: ReplayRun, baseline: Sequence[TurnTrace], *, quiet: bool) -> Checked:
    from turngraph.replay.check import compare

    found = compare(baseline, [turn.trace for turn in run.turns])
    if not quiet:
        print(f"{run.session.path.name}: {found.sentence}")
        for difference in found.differences[:DIFFERENCES_SHOWN]:
            print(f"  turn {difference.turn} {difference.verdict}")
            print(f"    before: {difference.before}\n    now:    {difference.now}")
        if len(found.differences) > DIFFERENCES_SHOWN:
            print(f"  ... and {len(found.differences) - DIFFERENCES_SHOWN} more (--json has all)")
    return found


class LiveTable:
    """A table that grows with every replayed turn."""

    def __init__(self, title: str, *, quiet: bool = False) -> None:
        self._title = title
        self._quiet = quiet
        self._rows: list[tuple[str, ...]] = []
        self._live: Any = nullcontext()

    def __enter__(self) -> LiveTable:
        if not self._quiet:
            from rich.live import Live

            target = console()
            self._terminal = target.is_terminal
            self._live = Live(self._table(), console=target, refresh_per_second=8) if self._terminal else nullcontext()
            if not self._terminal:
                print(f"{self._title}\n{'turn':>5} {'in':>8} {'out':>8} {'calls':>5}  decided")
        self._live.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._live.__exit__(*failure)

    def add(self, _session: RecordedSession, turn: ReplayedTurn) -> None:
        """Add the line of a turn."""
        from turngraph.replay.summary import turn_row

        if self._quiet:
            return
        row = turn_row(turn)
        note = row.error or ("counterfactual " if row.counterfactual else "") + " ".join(row.decided)
        cells = (str(row.number), f"{row.tokens_in:,}", f"{row.tokens_out:,}", str(row.calls), note)
        if not self._terminal:
            print(f"{cells[0]:>5} {cells[1]:>8} {cells[2]:>8} {cells[3]:>5}  {note}")
            return
        self._rows.append(cells)
        self._live.update(self._table())

    def _table(self) -> Table:
        height = max(5, console().height - 6)
        view = table(
            "turn", "tokens in", "tokens out", "calls", "nodes that decided something",
            title=self._title, right=("turn", "tokens in", "tokens out", "calls"),
        )  # fmt: skip
        for cells in self._rows[-height:]:
            view.add_row(*cells)
        return view


def show_run(run: ReplayRun) -> None:
    """Print the figures of a replay."""
    figures = run.summary
    tokens = figures["promptTokens"]
    print(
        f"{run.session.path.name}: {figures['turns']} turns, {figures['modelCalls']} model calls, "
        f"{figures['compactions']} compactions, {figures['flushes']} flushes, {figures['overflows']} overflows, "
        f"{figures['errors']} errors; prompt tokens p50 {tokens['p50']:,}, max {tokens['max']:,}"
    )
    measured = run.measures
    cost = "no price known" if measured["usd"] is None else f"${measured['usd']:.2f} under the cost model"
    print(
        f"  {cost}; {measured['uses']} later uses of evidence: {run.survival.shares['verbatim']:.1%} verbatim, "
        f"{run.survival.shares['summary']:.1%} in a summary, {run.survival.shares['searchable']:.1%} searchable, "
        f"{run.survival.shares['gone']:.1%} gone"
    )
    prefix = figures["cachePrefix"]
    print(
        f"  consecutive requests share {prefix['sharedShare']:.1%} of their tokens from the start; {prefix['breaks']} "
        f"breaks, {prefix['unexplained']} without a decision that explains them"
    )
    made = ", ".join(f"{count} {maker}" for maker, count in figures["summaries"].items())
    if made:
        print(f"  summaries: {made}")
    pruning = figures["pruning"]
    if pruning["prunings"]:
        print(
            f"  {pruning['paid']} of {pruning['prunings']} prunings paid: ${pruning['savedUsd']:.4f} saved on later "
            f"reads, ${pruning['spentUsd']:.4f} for what was written again"
        )
    for act, count in figures["decisions"].items():
        print(f"  {count:5d} {act}")
    if run.session.broken_lines:
        print(f"  broken lines in the file: {', '.join(map(str, run.session.broken_lines[:10]))}")
    if run.folder:
        print(f"  traces and summary in {run.folder}")


def run_json(run: ReplayRun) -> dict[str, Any]:
    """Return the machine-readable form of a replay."""
    from dataclasses import asdict

    from turngraph.replay.summary import turn_row

    return {
        "transcript": str(run.session.path),
        "out": str(run.folder) if run.folder else None,
        **run.summary,
        "measures": run.measures,
        "survival": run.survival.as_json(),
        "prefixes": [prefix.as_json() for prefix in run.prefixes],
        "perTurn": [asdict(turn_row(turn)) for turn in run.turns],
    }
