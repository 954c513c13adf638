"""The hooks that a plugin may implement, as pluggy specifications.

A plugin is a module, or a class without constructor arguments, with functions marked by :data:`hookimpl`; a function
names only the fields it needs. Handlers of awaited hooks may be ``async def`` or plain ``def`` (then they run in a
thread); the two message hooks must be plain ``def``. Answers are the dataclasses of :mod:`turngraph.hook_results`, or
``None`` for "no opinion". Source: spec/context.md section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from turngraph.hook_results import (
    AgentStart,
    HookContext,
    ModelOverride,
    PromptAdditions,
    SendingVerdict,
    ToolVerdict,
    WriteVerdict,
)

if TYPE_CHECKING:
    from turngraph.inbound import Inbound
    from turngraph.messages import Message

PROJECT = "turngraph"
PRIORITY_ATTRIBUTE = "turngraph_priority"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Function = TypeVar("Function", bound=Callable[..., Any])


def priority(value: int) -> Callable[[Function], Function]:
    """Mark a handler to run before those of lower priority (default 0); equal ones run in order of registration."""

    def mark(function: Function) -> Function:
        setattr(function, PRIORITY_ATTRIBUTE, value)
        return function

    return mark


class HookSpecs:
    """Every hook with the fields of its event."""

    @hookspec
    def configure(self, config: Mapping[str, Any], home: Path) -> None:
        """Called once after loading with ``plugins.entries.<id>.config``; raise to refuse the configuration."""

    @hookspec
    def before_model_resolve(self, prompt: str, context: HookContext) -> ModelOverride | None:
        """Modifying: choose another model; the highest priority that names one wins."""

    @hookspec
    def before_prompt_build(
        self, prompt: str, messages: Sequence[Message], context: HookContext
    ) -> PromptAdditions | None:
        """Modifying: add to the prompt; texts are joined, the highest priority's system prompt wins."""

    @hookspec
    def before_agent_start(self, prompt: str, messages: Sequence[Message], context: HookContext) -> AgentStart | None:
        """Modifying: the older hook that does both of the above; may run before there are messages."""

    @hookspec
    def bootstrap_files(self, files: Sequence[Any], context: HookContext) -> list[Any] | None:
        """Modifying: replace the list of bootstrap files (:class:`turngraph.bootstrap_files.BootstrapFile`)."""

    @hookspec
    def inbound_claim(self, inbound: Inbound, context: HookContext) -> bool | None:
        """Claiming: ``True`` takes an inbound message before anything else sees it."""

    @hookspec
    def before_dispatch(self, inbound: Inbound, context: HookContext) -> bool | None:
        """Claiming: ``True`` takes a message after its session is known."""

    @hookspec
    def message_received(self, content: str, sender: str | None, context: HookContext) -> None:
        """Observer: a message came in."""

    @hookspec
    def message_sending(self, content: str, to: str, context: HookContext) -> SendingVerdict | None:
        """Modifying: change or cancel what goes out; cancelling is final."""

    @hookspec
    def message_sent(self, content: str, to: str, success: bool, context: HookContext) -> None:
        """Observer: a reply went out, or failed to."""

    @hookspec
    def llm_input(
        self,
        provider: str,
        model: str,
        system_prompt: str,
        prompt: str,
        history: Sequence[Message],
        images: int,
        context: HookContext,
    ) -> None:
        """Observer: a model call is about to be made."""

    @hookspec
    def llm_output(
        self,
        provider: str,
        model: str,
        texts: Sequence[str],
        last: Message | None,
        usage: Mapping[str, Any],
        context: HookContext,
    ) -> None:
        """Observer: the model answered."""

    @hookspec
    def agent_end(
        self,
        messages: Sequence[Message],
        success: bool,
        error: str | None,
        duration_ms: float,
        context: HookContext,
    ) -> None:
        """Observer: the turn ended."""

    @hookspec
    def before_compaction(
        self, message_count: int, messages: Sequence[Message], session_file: Path, context: HookContext
    ) -> None:
        """Observer: the history is about to be summarised."""

    @hookspec
    def after_compaction(
        self, message_count: int, compacted_count: int, tokens: int | None, session_file: Path, context: HookContext
    ) -> None:
        """Observer: the history was summarised."""

    @hookspec
    def write_summary(
        self, system: str, prompt: str, max_output_tokens: int | None, context: HookContext
    ) -> str | None:
        """Named: summarise what ``prompt`` holds, as ``system`` asks; only the plugin of ``compaction.provider``."""

    @hookspec
    def before_reset(self, session_file: Path, messages: Sequence[Message], reason: str, context: HookContext) -> None:
        """Observer: a session is about to be replaced by a new one."""

    @hookspec
    def before_tool_call(
        self, name: str, params: Mapping[str, Any], call_id: str, context: HookContext
    ) -> ToolVerdict | None:
        """Guard: change the parameters or block the call; a guard that raises or is too slow blocks it."""

    @hookspec
    def after_tool_call(
        self,
        name: str,
        params: Mapping[str, Any],
        call_id: str,
        result: Any,
        error: str | None,
        duration_ms: float,
        context: HookContext,
    ) -> None:
        """Observer: a tool call ended."""

    @hookspec
    def tool_result_persist(
        self, message: Message, tool_name: str, call_id: str, synthetic: bool, context: HookContext
    ) -> Message | None:
        """Message chain: return another message to store in place of a tool result."""

    @hookspec
    def before_message_write(self, message: Message, context: HookContext) -> WriteVerdict | None:
        """Message chain: change a message before it is written, or keep it out of the transcript."""

    @hookspec
    def session_start(self, resumed_from: str | None, context: HookContext) -> None:
        """Observer: a session id began; ``resumed_from`` is the one it follows."""

    @hookspec
    def session_end(self, message_count: int, context: HookContext) -> None:
        """Observer: a session id ended; told before the start of the next one."""

    @hookspec
    def gateway_start(self, context: HookContext) -> None:
        """Observer: the serve process is up."""

    @hookspec
    def gateway_stop(self, context: HookContext) -> None:
        """Observer: the serve process is about to end."""
