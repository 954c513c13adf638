"""``turngraph compact``: summarise the older part of a session, or show what that would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    find_home,
    pick_agent,
    print_json,
    read_settings,
    warn,
)

if TYPE_CHECKING:
    from nodes.compaction.outcome import Outcome
    from stores.transcript_entries import Entry
    from turngraph.api import Agent


@dataclass(frozen=True, slots=True)
class Report:
    """What a compaction did or would do.

    Attributes:
        reason: why it does not happen; ``failed`` when it was tried.
        first_kept: entry at which the kept tail begins; ``before`` the newest entry before the compaction.
        folded, kept: messages.
    """

    reason: str | None
    failed: bool = False
    summary: str = ""
    maker: str = ""
    first_kept: str = ""
    before: str = ""
    folded: int | None = None
    kept: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


def compact(
    session: Annotated[str, typer.Argument(help="Session key; `main` is the main session.")],
    focus: Annotated[str, typer.Argument(help="What the summary should attend to.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Make and show the summary; store nothing.")] = False,
    home: HomeOption = None,
    agent: AgentOption = None,
    model: Annotated[str | None, typer.Option("--model", help="Model, as provider:model.")] = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Fold the older part of a session into a summary; the transcript keeps every line.

    Example: turngraph compact main --dry-run
    """
    from turngraph.api import Turngraph
    from turngraph.session_keys import store_key

    found = find_home(home)
    settings = read_settings(found, set)
    chosen = Turngraph(found, settings).agent(pick_agent(settings, agent), model=model)
    key = store_key(chosen.id, session, chosen.settings.session.main_key)
    report = _preview(chosen, key, focus) if dry_run else _compact(chosen, key, focus)
    if json:
        print_json({"session": key, "dryRun": dry_run, "compacted": report.reason is None} | _facts(report))
    else:
        _show(report, key, dry_run=dry_run)
    if report.reason is not None:
        raise typer.Exit(3 if report.failed else 1)


def _preview(agent: Agent, key: str, focus: str) -> Report:
    from nodes.compaction.run import run_compaction
    from nodes.state import SessionFacts
    from turngraph.api import run_async
    from turngraph.inbound import Inbound

    transcript = agent.transcript(key)
    context = agent.context(Inbound(session_key=key))
    context.transcript = transcript
    facts = SessionFacts(key, transcript.session_id, transcript.path, agent.sessions().get(key))
    return _report_of(run_async(run_compaction(context, facts, trigger="manual", focus=focus, dry_run=True)))


def _report_of(outcome: Outcome) -> Report:
    plan, summary = outcome.plan, outcome.summary
    return Report(
        outcome.reason,
        failed=outcome.failed,
        summary=summary.text if summary else "",
        maker=summary.maker if summary else "",
        first_kept=plan.first_kept_id if plan else "",
        folded=len(plan.all_folded) if plan else None,
        kept=len(plan.kept) if plan else None,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
    )


def _compact(agent: Agent, key: str, focus: str) -> Report:
    """Run ``/compact`` as a turn, under the session's lock and with a trace."""
    from turngraph.inbound import Inbound

    agent.sessions().get(key)
    result = agent.run(Inbound(text=f"/compact {focus}".strip(), session_key=key, sender_authorised=True))
    entry = _newest_compaction(agent.transcript(key).branch())
    done = [d for _, d in result.trace.decisions if d.node == "compact" and d.what == "summarised"]
    if not done or entry is None:
        failed = any(d.node == "compact" and d.what == "failed" for _, d in result.trace.decisions)
        return Report(result.text, failed)
    own: dict[str, Any] = entry.raw.get("turngraph", {})
    folded, after = len(done[0].entry_ids), done[0].count_after
    return Report(
        None,
        summary=str(entry.raw["summary"]),
        maker=str(own.get("maker", "")),
        first_kept=str(entry.raw["firstKeptEntryId"]),
        before=entry.parent_id or "",
        folded=folded,
        kept=after - 1 if after else None,
        tokens_before=done[0].tokens_before,
        tokens_after=done[0].tokens_after,
    )


def _newest_compaction(branch: tuple[Entry, ...]) -> Entry | None:
    return next((entry for entry in reversed(branch) if entry.type == "compaction"), None)


def _show(report: Report, key: str, *, dry_run: bool) -> None:
    if report.reason is not None:
        warn(f"turngraph: {report.reason}")
        return
    verb = "would fold" if dry_run else "folded"
    print(f"{verb} {report.folded} messages, {report.kept} stay word for word from entry {report.first_kept}")
    print(f"{report.tokens_before:,} tokens -> {report.tokens_after:,}; summary made by: {report.maker}\n")
    print(report.summary)
    if not dry_run:
        warn(f"to go back: turngraph sessions rewind {key} {report.before}")


def _facts(report: Report) -> dict[str, Any]:
    return {
        "reason": report.reason,
        "failed": report.failed,
        "summary": report.summary or None,
        "maker": report.maker or None,
        "firstKeptEntryId": report.first_kept or None,
        "entryBefore": report.before or None,
        "foldedMessages": report.folded,
        "keptMessages": report.kept,
        "tokensBefore": report.tokens_before,
        "tokensAfter": report.tokens_after,
    }
