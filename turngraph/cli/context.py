"""``turngraph context``: what a turn's prompt was made of, and what each node took away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    console,
    find_home,
    pick_agent,
    print_json,
    read_settings,
    table,
)
from turngraph.errors import NotFound

if TYPE_CHECKING:
    from rich.table import Table

    from stores.home import Home
    from stores.traces import TraceReader
    from turngraph.decisions import TurnTrace
    from turngraph.waterfall import Bar, NodeChange, Waterfall

BAR_CELLS = 30
SHOWN_DECISIONS = 8  # of one node; the rest is counted


def context(
    session: Annotated[str, typer.Argument(help="Session key; `main` is the main session.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    turn: Annotated[int | None, typer.Option("--turn", min=1, help="Number of the turn; else the last one.")] = None,
    traces: Annotated[
        Path | None, typer.Option("--traces", help="Read the output folder of a replay in place of the home.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show the prompt of a turn part by part, the head-room, and what each node took away.

    Example: turngraph context agent:main:main --turn 3
    """
    from stores.traces import TraceReader
    from turngraph.session_keys import DEFAULT_AGENT, store_key
    from turngraph.waterfall import waterfall

    place = find_home(home)
    root = place.traces_dir if traces is None else _trace_folder(traces)
    key = store_key(agent or DEFAULT_AGENT, session) if traces else _key(place, agent, session)
    trace = _find(TraceReader(root), key, turn)
    made = waterfall(trace)
    if json:
        print_json({**_facts(trace), **made.as_json()})
        return
    shown = console()
    facts = _facts(trace)
    shown.print(f"{facts['session']}, turn {facts['turn']}, {facts['started']}, {facts['model']}", markup=False)
    shown.print(_parts(made))
    if taken := [change for change in made.changes if change.took_away]:
        shown.print(_changes(taken))


def _key(home: Home, agent: str | None, session: str) -> str:
    from turngraph.session_keys import store_key

    settings = read_settings(home)
    chosen = settings.agent(pick_agent(settings, agent))
    return store_key(chosen.agent_id, session, chosen.session.main_key)


def _trace_folder(output: Path) -> Path:
    inner = output / "traces"
    return inner if inner.is_dir() else output


def _find(reader: TraceReader, key: str, turn: int | None) -> TurnTrace:
    if turn is not None:
        return reader.trace_of_turn(key, turn)
    newest = reader.turns(session_key=key, limit=1)
    if not newest:
        raise NotFound(f"no traced turn of session {key!r} in {reader.root}; `turngraph sessions list` shows the keys")
    return newest[0]


def _facts(trace: TurnTrace) -> dict[str, object]:
    return {
        "session": trace.session_key,
        "turn": trace.turn,
        "traceId": trace.trace_id,
        "started": trace.started.isoformat(timespec="seconds"),
        "model": trace.facts.get("model"),
        "counter": trace.facts.get("counter"),
        "error": trace.facts.get("error"),
    }


def _parts(made: Waterfall) -> Table:
    shown = table("part", "name", "tokens", "share", "", right=("tokens", "share"))
    window = made.window_tokens or made.used_tokens or 1
    group = ""
    for bar in made.bars:
        label = bar.group if bar.group != group else ""
        group = bar.group
        shown.add_row(label, _name(bar), f"{bar.tokens:,}", f"{bar.tokens / window:.1%}", _cells(bar.tokens, window))
    shown.add_section()
    shown.add_row("prompt", "", f"{made.used_tokens:,}", f"{made.used_tokens / window:.1%}", "")
    for mark in made.marks:
        shown.add_row("threshold", mark.name, f"{mark.tokens:,}", f"{mark.tokens / window:.1%}", "")
    if made.window_tokens:
        head_room = made.headroom_tokens
        shown.add_row("head-room", "", f"{head_room:,}", f"{head_room / window:.1%}", "")
        shown.add_row("window", "", f"{window:,}", "100.0%", "")
    return shown


def _name(bar: Bar) -> str:
    if bar.raw_chars == 0:
        return f"{bar.name} (missing)"
    if bar.raw_chars is not None:
        return f"{bar.name} ({bar.raw_chars:,} -> {bar.injected_chars:,} characters)"
    return bar.name if bar.count == 1 else f"{bar.name} ({bar.count} parts)"


def _cells(tokens: int, window: int) -> str:
    cells = tokens / window * BAR_CELLS
    return "█" * int(cells) + ("▌" if cells - int(cells) >= 0.5 else "") or ("▏" if tokens else "")


def _changes(changes: list[NodeChange]) -> Table:
    shown = table("node", "tokens", "what", "why", right=("tokens",))
    for change in changes:
        size = f"{change.tokens_in:,} -> {change.tokens_out:,}" if change.tokens_in is not None else ""
        rows: list[tuple[str, str]] = [(decision.what, decision.why) for decision in change.decisions[:SHOWN_DECISIONS]]
        more = len(change.decisions) - len(rows)
        rows += [("", f"... and {more} more (--json has all)")] if more else []
        for index, (what, why) in enumerate(rows or [("", "")]):
            shown.add_row(change.node if index == 0 else "", size if index == 0 else "", what, why)
    return shown
