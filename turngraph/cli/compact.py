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
from turngraph.messages import entry_ids
from turngraph.text import head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodes.compaction.outcome import Outcome
    from stores.transcript_entries import Entry
    from turngraph.api import Agent
    from turngraph.messages import Message

ENDS_SHOWN = 3  # messages of the user at either end of a long list
LINE_CHARS = 90


@dataclass(frozen=True, slots=True)
class Report:
    """What a compaction did or would do.

    Attributes:
        reason: why it does not happen; ``failed`` when it was tried.
        maker: model, plugin, extractive or none; ``models`` those that wrote the summary.
        first_kept: entry at which the kept tail begins; ``before`` the newest entry before the compaction.
        folded, kept: ids of the entries that go into the summary and that stay, oldest first.
    """

    reason: str | None
    failed: bool = False
    summary: str = ""
    maker: str = ""
    models: tuple[str, ...] = ()
    first_kept: str = ""
    before: str = ""
    folded: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
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
        _show(report, chosen, key, dry_run=dry_run)
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
        models=outcome.made_by,
        first_kept=plan.first_kept_id if plan else "",
        folded=plan.replaced_ids if plan else (),
        kept=entry_ids(plan.kept) if plan else (),
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
    )


def _compact(agent: Agent, key: str, focus: str) -> Report:
    """Run ``/compact`` as a turn, under the session's lock and with a trace."""
    from turngraph.inbound import Inbound

    agent.sessions().get(key)
    result = agent.run(Inbound(text=f"/compact {focus}".strip(), session_key=key, sender_authorised=True))
    entry = _newest_compaction(agent.transcript(key).branch())
    decided = {d.what: d for _, d in result.trace.decisions if d.node == "compact"}
    done = decided.get("summarised")
    if done is None or entry is None:
        return Report(result.text.removeprefix("⚙️ "), "failed" in decided)
    own: dict[str, Any] = entry.raw.get("turngraph", {})
    return Report(
        None,
        summary=str(entry.raw["summary"]),
        maker=str(own.get("maker", "")),
        models=tuple(own.get("models", ())),
        first_kept=str(entry.raw["firstKeptEntryId"]),
        before=entry.parent_id or "",
        folded=done.entry_ids,
        kept=decided["kept"].entry_ids,
        tokens_before=done.tokens_before,
        tokens_after=done.tokens_after,
    )


def _newest_compaction(branch: tuple[Entry, ...]) -> Entry | None:
    return next((entry for entry in reversed(branch) if entry.type == "compaction"), None)


def _show(report: Report, agent: Agent, key: str, *, dry_run: bool) -> None:
    if report.reason is not None:
        warn(f"turngraph: {report.reason}")
        return
    transcript = agent.transcript(key, full=True)
    messages = {entry.id: transcript.message(entry) for entry in transcript.entries() if entry.type == "message"}
    verb = "would go into the summary" if dry_run else "went into the summary"
    print(f"{len(report.folded)} messages {verb}, of these the user's:")
    _print_asks(report.folded, messages)
    print(f"{len(report.kept)} messages stay word for word from entry {report.first_kept}, of these the user's:")
    _print_asks(report.kept, messages)
    by = f" ({', '.join(report.models)})" if report.models else ""
    print(f"{report.tokens_before:,} tokens -> {report.tokens_after:,}; summary made by: {report.maker}{by}\n")
    print(report.summary)
    if not dry_run:
        warn(f"to go back: turngraph sessions rewind {key} {report.before}")


def _print_asks(ids: tuple[str, ...], messages: Mapping[str, Message]) -> None:
    """Print a line for each message of the user; of many the first and the last."""
    asks = [(name, messages[name]) for name in ids if name in messages and messages[name].role == "user"]
    hidden = len(asks) - 2 * ENDS_SHOWN
    for index, (name, message) in enumerate(asks):
        if hidden <= 0 or index < ENDS_SHOWN or index >= len(asks) - ENDS_SHOWN:
            text = " ".join(message.text.split())
            print(f"  {name}  {text if len(text) <= LINE_CHARS else head(text, LINE_CHARS - 1) + '…'}")
        elif index == ENDS_SHOWN:
            print(f"  ... {hidden} more ...")


def _facts(report: Report) -> dict[str, Any]:
    return {
        "reason": report.reason,
        "failed": report.failed,
        "summary": report.summary or None,
        "maker": report.maker or None,
        "models": report.models,
        "firstKeptEntryId": report.first_kept or None,
        "entryBefore": report.before or None,
        "foldedMessages": len(report.folded),
        "keptMessages": len(report.kept),
        "foldedEntryIds": report.folded,
        "keptEntryIds": report.kept,
        "tokensBefore": report.tokens_before,
        "tokensAfter": report.tokens_after,
    }
