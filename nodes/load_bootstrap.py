"""load_bootstrap: read the workspace's bootstrap files and build the system prompt from them."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nodes.bootstrap_budget import Budgeted, budget_files
from nodes.skills import SkillsPrompt, skills_prompt
from nodes.startup_context import StartupNotes, quote_notes, startup_days
from nodes.state import Section, SessionFacts, TurnContext, TurnState
from nodes.system_prompt import PromptFacts, prompt_mode, prompt_sections, shown_owners
from stores.skill_files import read_skill_files
from stores.workspace import ExtraFiles, load_bootstrap_files, load_extra_files, read_daily_notes, snapshots
from stores.workspace_setup import ensure_workspace
from turngraph.bootstrap_files import HEARTBEAT, BootstrapFile
from turngraph.decisions import Decision
from turngraph.inbound import RunKind
from turngraph.memory_paths import LEGACY_ROOT_MEMORY, ROOT_MEMORY
from turngraph.session_keys import chat_type, is_cron, is_subagent

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from turngraph.config import AgentSettings

RunSet = Literal["direct", "group", "channel", "cron", "subagent"]
NODE = "load_bootstrap"


@dataclass(frozen=True, slots=True)
class Selected:
    """The files of this kind of run, in the same order."""

    files: tuple[BootstrapFile, ...]
    decisions: tuple[Decision, ...]


def run_set(session_key: str | None, chat: str = "direct") -> RunSet:
    """Return which of the configured file sets a session takes.

    Args:
        session_key: key of the session; the kind of run is read from it.
        chat: chat type of the session, for keys that do not say it.

    Source: spec/context.md 2.3.
    """
    key = session_key or ""
    if is_subagent(key):
        return "subagent"
    if is_cron(key):
        return "cron"
    chats = {chat_type(key), chat}
    return "group" if "group" in chats else "channel" if "channel" in chats else "direct"


def select_files(files: Sequence[BootstrapFile], kind: RunSet, names: Sequence[str]) -> Selected:
    """Keep the files whose names are in the set of this kind of run; ``memory.md`` goes with ``MEMORY.md``."""
    allowed = {*names, LEGACY_ROOT_MEMORY} if ROOT_MEMORY in names else {*names}
    kept = tuple(file for file in files if file.name in allowed)
    out = [file for file in files if file.name not in allowed and not file.missing]
    decisions = tuple(
        Decision(NODE, "skipped", f"{file.path} is not in the file set of {kind} sessions", path=file.path)
        for file in out
    )
    return Selected(kept, decisions)


def light_files(files: Sequence[BootstrapFile], kind: RunKind | None) -> Selected:
    """Keep what a run with light context gets: a heartbeat its HEARTBEAT.md, every other run nothing."""
    kept = tuple(file for file in files if kind == "heartbeat" and file.name == HEARTBEAT)
    if len(kept) == len(files):
        return Selected(kept, ())
    why = f"light context: {len(kept)} of {len(files)} bootstrap files"
    return Selected(kept, (Decision(NODE, "limited", why, count_before=len(files), count_after=len(kept)),))


async def load_bootstrap(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: files -> set of the run -> plugins -> budget -> sections; recent notes on a bare reset."""
    context, session = runtime.context, state["session"]
    settings = context.settings
    decisions = list(_prepare(context))
    files = snapshots.files(
        context.workspace, session.key, session.session_id, lambda: load_bootstrap_files(context.workspace)
    )
    extra = _extra_files(context)
    decisions += _unread(extra)
    kind = run_set(session.key, session.chat_type)
    selected = select_files((*files, *extra.files), kind, getattr(settings.bootstrap_sets, kind))
    decisions += selected.decisions
    inbound = state["inbound"]
    if inbound.light_context or (inbound.kind == "heartbeat" and settings.heartbeat.light_context):
        selected = light_files(selected.files, inbound.kind)
        decisions += selected.decisions
    replaced = await context.hooks.bootstrap_files(selected.files, context.hook_context)
    decisions += replaced.decisions
    budgeted = budget_files(replaced.items, settings.bootstrap_max_chars, settings.bootstrap_total_max_chars)
    decisions += budgeted.decisions
    skills = _skills(context)
    decisions += skills.decisions
    sections = prompt_sections(_facts(context, session, budgeted, skills.sections, inbound.channel or ""))
    decisions.append(_report(budgeted, len(sections)))
    startup = _startup_notes(context, session, kind)
    return {
        "system": sections,
        "notes": (*state.get("notes", ()), *startup.notes),
        "decisions": (*decisions, *startup.decisions),
    }


def _prepare(context: TurnContext) -> tuple[Decision, ...]:
    """Create what a live turn needs in its workspace; a replay only reads."""
    if not context.live:
        return ()
    try:
        report = ensure_workspace(context.workspace, context.clock.now(), seed=not context.settings.skip_bootstrap)
    except OSError as error:  # a workspace that cannot be written is still read
        return (Decision(NODE, "failed", f"{context.workspace} cannot be prepared: {error.strerror}"),)
    if report.vanished:
        why = (
            "the setup of the workspace is complete and all its seed files are gone, so nothing was created: "
            "is its disk mounted? Remove .openclaw/workspace-state.json to start again"
        )
        return (Decision(NODE, "warned", why),)
    return tuple(
        Decision(NODE, "written", f"{name} was not there; made from the template", path=name) for name in report.created
    )


def _extra_files(context: TurnContext) -> ExtraFiles:
    internal = context.settings.hooks.internal
    extra = internal.entries.bootstrap_extra_files
    if not (internal.enabled and extra.enabled):
        return ExtraFiles((), ())
    return load_extra_files(context.workspace, extra.paths or extra.patterns or extra.files)


def _unread(extra: ExtraFiles) -> list[Decision]:
    return [
        Decision(NODE, "skipped", f"extra bootstrap file {found.path} not loaded: {found.reason}", path=found.path)
        for found in extra.diagnostics
    ]


def _report(budgeted: Budgeted, sections: int) -> Decision:
    """Say how large each file is and how much of it the prompt holds."""
    sizes = [
        {"path": injected.file.path, "raw": injected.raw_chars, "injected": len(injected.text)}
        | ({"near_limit": True} if injected.near_limit else {})
        for injected in (*budgeted.files, *budgeted.left_out)
    ]
    why = (
        f"{len(budgeted.files)} bootstrap files with {budgeted.injected_chars} of at most "
        f"{budgeted.total_limit} characters, {sections} sections"
    )
    return Decision(NODE, "injected", why, count_after=len(budgeted.files), data={"files": sizes})


def _startup_notes(context: TurnContext, session: SessionFacts, kind: RunSet) -> StartupNotes:
    startup = context.settings.startup_context
    if not (startup.enabled and session.bare_reset and kind == "direct" and session.reset_reason in startup.apply_on):
        return StartupNotes((), ())
    today = context.clock.now().astimezone(context.settings.zone).date()
    days = startup_days(today, startup.daily_memory_days)
    notes = read_daily_notes(context.workspace, days, startup.max_file_bytes)
    return quote_notes(notes, startup.max_file_chars, startup.max_total_chars)


def _skills(context: TurnContext) -> SkillsPrompt:
    can_read = any(tool.spec.name == "read" for tool in context.tools)
    limit = context.settings.skills.limits.max_skills_prompt_chars
    files = read_skill_files(context.workspace) if can_read and limit else ()
    return skills_prompt(files, limit, can_read=can_read)


def _facts(
    context: TurnContext, session: SessionFacts, budgeted: Budgeted, skills: tuple[Section, ...], channel: str
) -> PromptFacts:
    settings = context.settings
    mode = prompt_mode(session.key)
    commands = settings.commands
    return PromptFacts(
        mode=mode,
        workspace=str(context.workspace) if context.live else "",
        tools=tuple(tool.spec for tool in context.tools),
        unavailable=context.unavailable_tools,
        skills=skills,
        aliases={choice.alias: name for name, choice in settings.model_choices.items() if choice.alias},
        citations=settings.memory.citations,
        files=budgeted.files,
        cut=budgeted.truncated and settings.bootstrap_prompt_truncation_warning != "off",
        sandbox=_sandbox(settings, session),
        time_zone=settings.user_timezone or (str(settings.zone) if context.live else ""),
        heartbeats=settings.beats and settings.heartbeat.every is not None,
        owners=shown_owners(commands.owner_allow_from or (), commands.owner_display, _secret(settings)),
        chat_type=session.chat_type,
        channel=channel,
        runtime=_runtime(context, session, channel),
    )


def _secret(settings: AgentSettings) -> str | None:
    secret = settings.commands.owner_display_secret
    return secret.get_secret_value() if secret else None


def _sandbox(settings: AgentSettings, session: SessionFacts) -> Literal["none", "ro", "rw"] | None:
    mode = settings.sandbox.mode
    main = session.key.endswith(":main") and session.chat_type == "direct"
    return settings.sandbox.workspace_access if mode == "all" or (mode == "non-main" and not main) else None


def _runtime(context: TurnContext, session: SessionFacts, channel: str) -> Mapping[str, str]:
    """Parts of the runtime line; a replay leaves out the machine, so that it counts alike everywhere."""
    settings, facts = context.settings, context.model.facts
    machine = {}
    if context.live:
        machine = {
            "host": platform.node(),
            "repo": _repository(settings.repo_root, context.workspace),
            "os": f"{platform.system()} {platform.release()} ({platform.machine()})",
            "python": platform.python_version(),
        }
    return {
        "agent": context.agent_id,
        "name": settings.name if settings.name != context.agent_id else "",
        "session": session.key,
        "sessionId": session.session_id,
        **machine,
        "model": facts.name,
        "default_model": default if (default := settings.model_named(settings.model.primary)) != facts.name else "",
        "channel": channel.strip().lower(),
    }


def _repository(configured: Path | None, workspace: Path) -> str:
    if configured is not None and configured.is_dir():
        return str(configured)
    return next((str(folder) for folder in (workspace, *workspace.parents) if (folder / ".git").exists()), "")
