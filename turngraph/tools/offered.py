"""Which tools a run gets, and why it does not get the others.

Source: spec/tools.md sections 1.4 and 1.5, known-faults 13.1 and 13.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from turngraph.name_patterns import is_allowed
from turngraph.session_keys import chat_type, is_subagent, main_session_key

if TYPE_CHECKING:
    from turngraph.config import AgentSettings
    from turngraph.inbound import RunKind
    from turngraph.tools.tool import Tool

Access = Literal["none", "ro", "rw"]

# The order in which a model sees them: a fixed part of the prompt prefix.
FILE_TOOLS = ("read", "write", "edit", "exec")
MEMORY_TOOLS = ("memory_search", "memory_get")
_CHANGING = frozenset({"write", "edit", "exec"})


@dataclass(frozen=True, slots=True)
class Run:
    """What decides about the tools of a run.

    Attributes:
        kind: what started it.
        access: what it may do in the workspace.
        subagent: whether it is a spawned session.
        chat_type: kind of chat; ``memory_chats`` are the kinds in which memory answers.
        memory_enabled: whether memory search is on for the agent.
    """

    kind: RunKind = "user"
    access: Access = "rw"
    subagent: bool = False
    chat_type: str = "direct"
    memory_chats: Sequence[str] = ("direct",)
    memory_enabled: bool = True


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a run.

    Attributes:
        names: tools that are offered, in their order.
        unavailable: the others, each with the reason that a model which calls it is told.
        memory_refusal: why files of memory are refused, in the words in which the memory tools answer ``disabled``;
            ``None`` when they are not.
    """

    names: tuple[str, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    memory_refusal: str | None = None


def offer(
    names: Sequence[str], run: Run, allow: Sequence[str] | None = None, deny: Sequence[str] | None = None
) -> Offer:
    """Decide which of ``names`` a run gets.

    >>> offer(("read", "write"), Run(access="ro")).unavailable
    {'write': 'the workspace is read-only'}
    """
    reasons = {name: _reason(name, run, allow, deny) for name in names}
    private = run.chat_type not in run.memory_chats and not run.subagent
    refusal = f"memory is not available in {run.chat_type} chats" if private else None
    return Offer(
        tuple(name for name in names if reasons[name] is None),
        {name: reason for name, reason in reasons.items() if reason},
        refusal,
    )


def _reason(name: str, run: Run, allow: Sequence[str] | None, deny: Sequence[str] | None) -> str | None:
    if run.kind == "flush" and name not in ("read", "write"):
        return "a memory flush has read and write only"
    if run.access == "none" and name in FILE_TOOLS:
        return "this session has no access to the workspace"
    if run.access == "ro" and name in _CHANGING:
        return "the workspace is read-only"
    if name in MEMORY_TOOLS:
        if run.subagent:
            return "a sub-agent has no memory tools"
        if not run.memory_enabled:
            return "memory search is switched off in the settings"
    return None if is_allowed(name, allow, deny) else "the settings do not allow it"


def workspace_access(settings: AgentSettings, session_key: str, workspace: Path) -> Access:
    """Return what a session may do in the workspace: what its sandbox says, and what the disk says."""
    access = sandbox_access(settings, session_key) or "rw"
    if access == "rw" and workspace.exists() and not os.access(workspace, os.W_OK):
        return "ro"
    return access


def sandbox_access(settings: AgentSettings, session_key: str) -> Access | None:
    """Return the rights of a sandboxed session, ``None`` for one that is not sandboxed.

    Source: spec/settings.md section 2, spec/compaction.md section 1.1.
    """
    mode = settings.sandbox.mode
    if mode == "off" or (mode == "non-main" and _is_main(settings, session_key)):
        return None
    return settings.sandbox.workspace_access


def _is_main(settings: AgentSettings, session_key: str) -> bool:
    return session_key in (main_session_key(settings.agent_id, settings.session.main_key), "global", "")


def offered_tools(
    settings: AgentSettings,
    session_key: str,
    kind: RunKind,
    *,
    workspace: Path,
    memory_tools: Callable[[], Sequence[Tool]] | None = None,
) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """Make the tools of a run.

    Args:
        settings: of the agent. session_key, kind: of the run. workspace: its folder.
        memory_tools: makes ``memory_search`` and ``memory_get``; called only when the run gets them.

    Returns:
        The tools in their fixed order, and the reason for each tool that is not among them.
    """
    chat = chat_type(session_key)
    run = Run(
        kind=kind,
        access=workspace_access(settings, session_key, workspace),
        subagent=is_subagent(session_key),
        chat_type="direct" if chat == "unknown" else chat,
        memory_chats=settings.memory_search.allowed_chat_types,
        memory_enabled=settings.memory_search.enabled,
    )
    names = (*FILE_TOOLS, *(MEMORY_TOOLS if memory_tools else ()))
    made = offer(names, run, settings.tools.allow, settings.tools.deny)
    tools = _file_tools(settings, made.memory_refusal)
    if memory_tools is not None and set(made.names) & set(MEMORY_TOOLS):
        tools |= {tool.spec.name: tool for tool in memory_tools()}
    return tuple(tools[name] for name in made.names), dict(made.unavailable)


def _file_tools(settings: AgentSettings, memory_refusal: str | None) -> dict[str, Tool]:
    from turngraph.tools.edit import EditTool
    from turngraph.tools.exec import ExecTool
    from turngraph.tools.read import ReadTool
    from turngraph.tools.write import WriteTool

    tools: tuple[Tool, ...] = (
        ReadTool(
            memory_refusal,
            image_max_px=settings.image_max_dimension_px,
            media_max_bytes=round(settings.media_max_mb * (1 << 20)),
        ),
        WriteTool(memory_refusal),
        EditTool(memory_refusal),
        ExecTool(settings.tools.exec.timeout_sec),
    )
    return {tool.spec.name: tool for tool in tools}
