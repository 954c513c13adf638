"""``turngraph sessions show``: what is visible of one transcript, and what it cost to see it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, find_home, pick_agent, print_json, read_settings

if TYPE_CHECKING:
    from stores.transcripts import Transcript

BRANCHES_SHOWN = 10


def show(
    session: Annotated[str, typer.Argument(metavar="SESSION_OR_FILE", help="Session key, or a transcript file.")],
    home: HomeOption = None,
    agent: AgentOption = None,
    full: Annotated[bool, typer.Option("--full", help="Read the whole file, to see all branches.")] = False,
    json: JsonOption = False,
) -> None:
    """Show what is visible of a session: messages, tokens, branches, damage; and how much had to be read.

    Example: turngraph sessions show agent:main:main --json
    """
    path, session_id = _find(session, home, agent)
    facts = transcript_facts(path, session_id, full=full)
    if json:
        print_json(facts)
    else:
        _print(facts)


def transcript_facts(path: Path, session_id: str, *, full: bool = False) -> dict[str, Any]:
    """Open a transcript without writing and tell about it.

    ``milliseconds`` is the time to open it and build the context; counting tokens and looking up settings come after.

    Raises:
        NotFound: there is no such file.
        TranscriptError: it cannot be read.
    """
    from stores.transcript_tree import tips
    from stores.transcripts import Transcript
    from turngraph.clock import RandomIds, SystemClock, monotonic_ms
    from turngraph.errors import NotFound
    from turngraph.tokens import default_counter, total

    if not path.is_file():
        raise NotFound(f"no transcript {path}; `turngraph sessions list` shows the sessions")
    started = monotonic_ms()
    transcript = Transcript.open(
        path, session_id=session_id, clock=SystemClock(), ids=RandomIds(), full=full, read_only=True
    )
    context = transcript.context()
    milliseconds = monotonic_ms() - started
    report = transcript.report
    counter = default_counter()
    return {
        "file": str(path),
        "sessionId": transcript.session_id,
        "version": report.version,
        "mode": report.mode,
        "bytesRead": report.bytes_read,
        "bytesTotal": report.bytes_total,
        "milliseconds": round(milliseconds, 2),
        "visibleMessages": len(context.messages),
        "tokens": total(counter, context.messages),
        "counter": counter.name,
        "compaction": context.compaction.id if context.compaction else None,
        "leaf": transcript.leaf_id,
        "entriesRead": len(transcript.entries()),
        "branches": [_branch(transcript, tip.id) for tip in tips(transcript.entries())],
        "allBranchesRead": report.mode == "full",
        "brokenLines": list(report.broken_lines),
        "tornBytes": report.torn_bytes,
        "repairs": list(report.repairs),
        "name": context.name,
        "thinkingLevel": context.thinking_level,
        "model": "/".join(context.model) if context.model else None,
    }


def _branch(transcript: Transcript, tip_id: str) -> dict[str, Any]:
    tip = transcript.entry(tip_id)
    return {
        "tip": tip.id,
        "type": tip.type,
        "timestamp": tip.timestamp,
        "line": tip.line,
        "active": tip.id == transcript.leaf_id,
    }


def _find(session: str, home: Path | None, agent: str | None) -> tuple[Path, str]:
    """Return the transcript file that the argument names, and the id it is opened with."""
    given = Path(session).expanduser()
    if given.suffix == ".jsonl" or given.is_file():
        return given, given.name.split(".jsonl")[0]
    from stores.sessions import SessionStore
    from turngraph.clock import RandomIds, SystemClock
    from turngraph.session_keys import store_key

    found = find_home(home)
    settings = read_settings(found)
    chosen = settings.agent(pick_agent(settings, agent))
    store = SessionStore.of_agent(found, chosen, SystemClock(), RandomIds())
    entry = store.require(store_key(chosen.agent_id, session, chosen.session.main_key))
    return store.transcript_of(entry), str(entry.get("sessionId", ""))


def _print(facts: dict[str, Any]) -> None:
    print(f"{facts['file']}  (session {facts['sessionId']}, version {facts['version']})")
    if facts["name"]:
        print(f"  name       {facts['name']}")
    print(f"  visible    {facts['visibleMessages']:,} messages, {facts['tokens']:,} tokens ({facts['counter']})")
    print(f"  model      {facts['model'] or '-'}, thinking {facts['thinkingLevel']}")
    read, whole = facts["bytesRead"], facts["bytesTotal"]
    share = f"{read / whole:.0%}" if whole else "-"
    print(
        f"  read       {facts['mode']}: {read:,} of {whole:,} bytes ({share}), {facts['entriesRead']:,} entries, "
        f"{facts['milliseconds']:.1f} ms"
    )
    print(f"  compaction {facts['compaction'] or 'none'}")
    known = "" if facts["allBranchesRead"] else " in the part that was read; --full reads all"
    print(f"  branches   {len(facts['branches'])}{known}")
    for branch in facts["branches"][-BRANCHES_SHOWN:]:
        mark = "*" if branch["active"] else " "
        print(f"    {mark} {branch['tip']}  {branch['type']}  {branch['timestamp']}")
    for repair in facts["repairs"]:
        print(f"  mended     {repair}")
    if facts["repairs"]:
        print("             in memory; the next message of the session writes it, after a backup")
