"""``turngraph sessions``: list, reset and clean up the sessions of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    console,
    find_home,
    new_app,
    pick_agent,
    print_json,
    read_settings,
    table,
    warn,
)
from turngraph.cli.show import show

if TYPE_CHECKING:
    from stores.session_maintenance import MaintenanceReport
    from stores.sessions import SessionStore
    from turngraph.config import Settings

ID_SHOWN = 8  # first characters of a session id in the table; --json has all of it

app = new_app("List, show, reset and clean up sessions.")


@app.command("list")
def list_sessions(
    home: HomeOption = None,
    agent: AgentOption = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Show the newest N; 0 shows all.")] = 50,
    json: JsonOption = False,
) -> None:
    """List the sessions of an agent, the last used first.

    Example: turngraph sessions list --limit 10
    """
    store = _store(home, agent)
    loaded = store.read()
    if loaded.problem:
        warn(loaded.problem)
    newest = sorted(loaded.entries.items(), key=lambda item: _time(item[1]), reverse=True)
    shown = newest[:limit] if limit else newest
    if json:
        print_json({"agent": store.agent_id, "total": len(newest), "sessions": [_facts(*item) for item in shown]})
        return
    if not newest:
        warn(f"no sessions yet in {store.folder}")
        return
    made = table("session key", "id", "last used", "context", right=("context",))
    for column in made.columns[1:]:
        column.no_wrap = True  # a long key may take a second line, times and figures not
    for key, entry in shown:
        made.add_row(key, str(entry.get("sessionId", "-"))[:ID_SHOWN], _last_used(entry), _context(entry))
    console().print(made)
    if len(shown) < len(newest):
        warn(f"{len(newest) - len(shown)} more; --limit 0 shows all")


@app.command()
def reset(
    key: Annotated[str, typer.Argument(help="Session key, as `sessions list` shows it; `main` is the main session.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """End a session: archive its transcript, leave its note in the memory, and begin a new one.

    Example: turngraph sessions reset agent:main:main
    """
    import asyncio

    from turngraph.api import Turngraph
    from turngraph.session_end import end_session

    found = find_home(home)
    settings = read_settings(found, sets)
    done = asyncio.run(end_session(Turngraph(found, settings).agent(pick_agent(settings, agent)), key))
    if json:
        print_json(
            {
                "key": done.key,
                "sessionId": done.session_id,
                "previousSessionId": done.previous_id,
                "archived": done.archived,
                "note": done.note,
            }
        )
    else:
        print(f"{done.key}: session {done.previous_id} ended, {done.session_id} begins with the next message")
        print(f"archived as {done.archived}" if done.archived else "it had no transcript")
        if done.note:
            print(f"noted in {done.note}")
    if done.problem:
        warn(done.problem)


@app.command()
def rewind(
    key: Annotated[str, typer.Argument(help="Session key, as `sessions list` shows it; `main` is the main session.")],
    entry: Annotated[str, typer.Argument(help="Id of the entry that becomes the newest one again.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Go back to an earlier entry, also to before a compaction; the transcript keeps every line.

    Example: turngraph sessions rewind main 3f2a9c41
    """
    import asyncio

    from stores.session_rewind import rewind_session
    from turngraph.session_keys import store_key

    settings = read_settings(find_home(home), sets)
    chosen = settings.agent(pick_agent(settings, agent))
    store = _store_of(home, settings, chosen.agent_id)
    wanted = store_key(chosen.agent_id, key, chosen.session.main_key)
    done = asyncio.run(rewind_session(store, wanted, entry, timeout_ms=chosen.session.busy_timeout_ms))
    if json:
        print_json(asdict(done))
        return
    sight = f"{done.messages_after} messages in sight, {done.messages_before} before"
    print(f"{wanted}: back at entry {done.leaf_id}; {sight}")
    print(f"to undo: turngraph sessions rewind {wanted} {done.left_id}")


@app.command()
def cleanup(
    home: HomeOption = None,
    agent: AgentOption = None,
    all_agents: Annotated[bool, typer.Option("--all-agents", help="Every configured agent.")] = False,
    store: Annotated[Path | None, typer.Option("--store", help="This sessions.json in place of the agent's.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; touch nothing.")] = False,
    enforce: Annotated[bool, typer.Option("--enforce", help="Also remove old and surplus sessions this time.")] = False,
    fix_missing: Annotated[bool, typer.Option("--fix-missing", help="Remove entries without a transcript.")] = False,
    active_key: Annotated[str | None, typer.Option("--active-key", help="Session key that must stay.")] = None,
    sets: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Sweep old archives; report old sessions, or remove them.

    Example: turngraph sessions cleanup --dry-run
    """
    from stores.session_maintenance import Task, run_maintenance

    settings = read_settings(find_home(home), sets)
    names = settings.agent_ids if all_agents else (pick_agent(settings, agent),)
    summaries, reports = [], []
    for name in names:
        opened = _store_of(home, settings, name, store)
        chosen = settings.agent(name).session
        mode = "enforce" if enforce else chosen.maintenance.mode
        policy = chosen.maintenance.model_copy(update={"mode": mode})
        task = Task(active_key, chosen.main_key, dry_run=dry_run, fix_missing=fix_missing)
        keys = list(opened.entries())
        report = run_maintenance(opened, policy, task)
        reports.append(report)
        summaries.append(_summary(report, keys))
    if json:
        whole = {"allAgents": True, "mode": reports[0].mode, "dryRun": dry_run, "stores": summaries}
        print_json(summaries[0] if len(summaries) == 1 else whole)
        return
    for report in reports:
        _print_report(report)


app.command()(show)


def _store(home: Path | None, agent: str | None) -> SessionStore:
    settings = read_settings(find_home(home))
    return _store_of(home, settings, pick_agent(settings, agent))


def _store_of(home: Path | None, settings: Settings, agent_id: str, path: Path | None = None) -> SessionStore:
    from stores.sessions import SessionStore
    from turngraph.clock import RandomIds, SystemClock

    if path is not None:
        return SessionStore(path.expanduser().absolute(), agent_id)
    return SessionStore.of_agent(find_home(home), settings.agent(agent_id), SystemClock(), RandomIds())


def _facts(key: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    from stores.sessions import entry_facts

    return entry_facts(key, entry)


def _time(entry: Mapping[str, Any]) -> float:
    from stores.session_entries import updated_ms

    return updated_ms(entry)


def _last_used(entry: Mapping[str, Any]) -> str:
    from turngraph.clock import from_ms

    at = _time(entry)
    return f"{from_ms(at).astimezone():%Y-%m-%d %H:%M}" if at else "-"


def _context(entry: Mapping[str, Any]) -> str:
    tokens, window = entry.get("totalTokens"), entry.get("contextTokens")
    if not isinstance(tokens, int):
        return "-"
    return f"{tokens:,} ({tokens / window:.0%})" if isinstance(window, int) and window else f"{tokens:,}"


def _summary(report: MaintenanceReport, keys: list[str]) -> dict[str, Any]:
    swept = [{"name": item.name, "reason": item.reason, "at": item.at, "bytes": item.bytes} for item in report.swept]
    mutates = bool(report.removed_keys or report.swept or (report.budget and report.budget.files))
    summary: dict[str, Any] = {
        "agentId": report.agent_id,
        "storePath": str(report.store_path),
        "mode": report.mode,
        "dryRun": report.dry_run,
        "beforeCount": report.before,
        "afterCount": report.after,
        "missing": len(report.missing),
        "pruned": len(report.pruned),
        "capped": len(report.capped),
        "diskBudget": asdict(report.budget) if report.budget else None,
        "swept": swept,
        "wouldMutate": mutates,
        "actions": {key: report.action(key) for key in keys if report.action(key) != "keep"},
    }
    if report.dry_run:
        return summary
    gone = report.before - report.after if report.applied else 0
    return summary | {"applied": report.applied, "appliedCount": gone}


def _print_report(report: MaintenanceReport) -> None:
    would = report.dry_run or not report.applied
    print(f"{report.store_path} (mode {report.mode}{', dry run' if report.dry_run else ''})")
    for item in report.swept:
        print(f"  {'would sweep' if report.dry_run else 'swept'} {item.name}  {item.bytes:,} bytes")
    for key in report.removed_keys:
        print(f"  {'would remove' if would else 'removed'} {key}  ({report.action(key)})")
    for name in report.orphaned:
        print(f"  set aside {name}")
    total = sum(item.bytes for item in report.swept)
    print(
        f"  {report.before} sessions, {len(report.removed_keys)} {'would go' if would else 'gone'}; "
        f"{len(report.swept)} files, {total:,} bytes {'would go' if report.dry_run else 'gone'}"
    )
    if report.removed_keys and report.mode == "warn" and not report.dry_run and not report.applied:
        print("  --enforce removes them")
