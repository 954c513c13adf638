"""``turngraph turns``: the traced turns of a session, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
from turngraph.decisions import acting_nodes
from turngraph.errors import NotFound

if TYPE_CHECKING:
    from turngraph.decisions import TurnTrace


def turns(
    session: Annotated[str, typer.Argument(help="Session key; `main` is the main session.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Newest turns to show.")] = 30,
    json: JsonOption = False,
) -> None:
    """List the turns of a session: tokens, what changed, nodes that decided something, duration.

    Example: turngraph turns agent:main:main --limit 10
    """
    from stores.traces import TraceReader
    from turngraph.session_keys import store_key

    place = find_home(home)
    settings = read_settings(place)
    chosen = settings.agent(pick_agent(settings, agent))
    key = store_key(chosen.agent_id, session, chosen.session.main_key)
    found = TraceReader(place.traces_dir).turns(session_key=key, limit=limit + 1)  # one more, for the first difference
    if not found:
        raise NotFound(f"no traced turn of session {key!r} in {place.traces_dir}; `turngraph sessions list` shows keys")
    rows = [_row(turn, before) for before, turn in zip((None, *found), found, strict=False)][-limit:]
    if json:
        print_json(rows)
    else:
        _print(rows)


def _row(turn: TurnTrace, before: TurnTrace | None) -> dict[str, Any]:
    tokens = _prompt_tokens(turn)
    return {
        "turn": turn.turn,
        "started": turn.started.isoformat(timespec="seconds"),
        "trigger": turn.facts.get("trigger"),
        "promptTokens": tokens,
        "delta": tokens - (_prompt_tokens(before) if before else 0),
        "decided": list(acting_nodes(decision for _, decision in turn.decisions)),
        "ms": round(sum(run.duration_ms for run in turn.nodes if ":" not in run.node)),
        "reply": turn.facts.get("reply"),
        "error": turn.facts.get("error"),
    }


def _prompt_tokens(turn: TurnTrace) -> int:
    return int(turn.facts.get("prompt_tokens") or 0)


def _print(rows: list[dict[str, Any]]) -> None:
    right = ("turn", "tokens", "delta", "ms")
    view = table("turn", "started (UTC)", "tokens", "delta", "ms", "reply", "decided", right=right)
    view.columns[1].no_wrap = True
    for row in rows:
        view.add_row(
            str(row["turn"]),
            row["started"][:19].replace("T", " "),
            f"{row['promptTokens']:,}",
            f"{row['delta']:+,}",
            str(row["ms"]),
            str(row["error"] or row["reply"] or ""),
            " ".join(row["decided"]),
        )
    console().print(view)
