"""What plugins are told and what they may answer: the values that cross the border between a turn and its hooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turngraph.decisions import Decision
from turngraph.messages import Message


@dataclass(frozen=True, slots=True)
class HookContext:
    """Where a hook runs.

    Attributes:
        agent_id, session_key, session_id: the agent and the session of the turn; empty outside a turn.
        run_id: the trace id of the turn.
        workspace: the agent's workspace folder.
    """

    agent_id: str = "main"
    session_key: str = ""
    session_id: str = ""
    run_id: str = ""
    workspace: Path | None = None


@dataclass(frozen=True, slots=True)
class ModelOverride:
    """Answer of ``before_model_resolve``: another model for this turn."""

    model: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class PromptAdditions:
    """Answer of ``before_prompt_build``; an empty text counts as absent.

    Attributes:
        system_prompt: replaces the whole system prompt.
        prepend_context: travels with the newest message and is not kept in the history.
        prepend_system_context, append_system_context: stand before and behind the system prompt.
    """

    system_prompt: str | None = None
    prepend_context: str | None = None
    prepend_system_context: str | None = None
    append_system_context: str | None = None


@dataclass(frozen=True, slots=True)
class AgentStart:
    """Answer of the older ``before_agent_start``: a model and prompt additions in one."""

    model: ModelOverride = field(default_factory=ModelOverride)
    prompt: PromptAdditions = field(default_factory=PromptAdditions)


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """Answer of ``before_tool_call``: other parameters, or no call at all."""

    params: Mapping[str, Any] | None = None
    block: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SendingVerdict:
    """Answer of ``message_sending``: another text, or nothing is sent."""

    content: str | None = None
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class WriteVerdict:
    """Answer of ``before_message_write``: another message, or nothing is written."""

    message: Message | None = None
    block: bool = False


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What the plugins chose; ``started`` is to be handed to ``before_prompt_build`` so that nobody is asked twice."""

    override: ModelOverride = field(default_factory=ModelOverride)
    started: AgentStart | None = None
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptBuild:
    """The merged additions of all plugins."""

    additions: PromptAdditions = field(default_factory=PromptAdditions)
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolGate:
    """Whether a tool call may run, and with which parameters.

    Attributes:
        params: the parameters to run with.
        blocked: whether the call must not run; ``reason`` is the text of its error result.
        adjusted: what a plugin put in place, before it was laid over the original parameters.
    """

    params: Mapping[str, Any]
    blocked: bool = False
    reason: str = ""
    adjusted: Mapping[str, Any] | None = None
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Sending:
    """What goes out.

    Attributes:
        content: the text to send; not to be sent when ``cancelled``.
        adjusted: what a plugin put in its place, if one did.
    """

    content: str
    cancelled: bool = False
    adjusted: str | None = None
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """Which plugin took an inbound message, if any."""

    plugin: str | None = None
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """The message to write: the same object when nobody changed it, ``None`` when a plugin stopped it."""

    message: Message | None
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Replaced:
    """A list that plugins may replace, and whether they did."""

    items: tuple[Any, ...]
    decisions: tuple[Decision, ...] = ()
