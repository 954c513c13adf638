"""Hooks: asks the plugins of a home in the order of their priority, merges their answers, survives their failures.

Kinds of hook: *observers* run side by side and their answers are ignored; *modifying* hooks run one after
another and are merged; *claiming* hooks stop at the first plugin that takes the message; *message* hooks are
synchronous chains; ``write_summary`` is asked of the one plugin that the settings name. A plugin that fails or is too
slow leaves a Decision and is skipped; only ``before_tool_call`` is a guard: there a failure blocks the call, since a
guard that crashed has allowed nothing.
The hooks are described in :mod:`turngraph.hook_specs`, one call in :mod:`turngraph.hook_calls`, loading in
:mod:`turngraph.plugins`.
Source: spec/context.md section 7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from turngraph.decisions import Decision, What
from turngraph.errors import ModelError, PluginError
from turngraph.hook_calls import Answer, CallFailed, Handler, ask, ask_now
from turngraph.hook_results import (
    AgentStart,
    Claim,
    HookContext,
    ModelChoice,
    ModelOverride,
    PromptAdditions,
    PromptBuild,
    Replaced,
    Sending,
    SendingVerdict,
    ToolGate,
    ToolVerdict,
    WriteVerdict,
    Written,
)
from turngraph.messages import Message

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings

BLOCKED_TEXT = "A plugin blocked this tool call."

ObserverHook = Literal[
    "llm_input",
    "llm_output",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "before_reset",
    "message_received",
    "message_sent",
    "after_tool_call",
    "session_start",
    "session_end",
    "gateway_start",
    "gateway_stop",
]
ClaimingHook = Literal["inbound_claim", "before_dispatch"]
Text = Literal["system_prompt", "prepend_context", "prepend_system_context", "append_system_context"]


class Hooks:
    """The hooks of one home; without plugins every method gives back what it was given."""

    def __init__(self, handlers: Mapping[str, Sequence[Handler]] | None = None, *, catch_errors: bool = True) -> None:
        """Order the handlers.

        Args:
            handlers: by hook name, in order of registration, which decides between equal priorities.
            catch_errors: ``False`` raises :class:`PluginError` where a failure would be skipped (plugin development).
        """
        self._handlers = {
            hook: tuple(sorted(found, key=lambda handler: -handler.priority))
            for hook, found in (handlers or {}).items()
            if found
        }
        self._catch_errors = catch_errors

    @classmethod
    def empty(cls) -> Hooks:
        """Return hooks without any plugin."""
        return cls()

    @classmethod
    def load(cls, settings: AgentSettings, home: Home) -> Hooks:
        """Load the plugins that the settings and the installed packages name.

        Raises:
            PluginError: a plugin cannot be loaded; a home never runs without a guard that it names.
        """
        if not settings.plugins.enabled:
            return cls()
        from turngraph.plugins import load_plugins

        return cls(load_plugins(settings, home))

    @property
    def plugins(self) -> tuple[str, ...]:
        """Ids of the plugins that handle anything, sorted."""
        return tuple(sorted({handler.plugin for found in self._handlers.values() for handler in found}))

    def handles(self, hook: str) -> bool:
        """Tell whether any plugin handles ``hook``, so that a caller need not build its event."""
        return hook in self._handlers

    # What shapes a turn

    async def before_model_resolve(self, prompt: str, context: HookContext) -> ModelChoice:
        """Ask which model to use; for each field the highest priority that names one wins."""
        event = {"prompt": prompt, "messages": (), "context": context}
        chosen, decisions = ModelOverride(), list[Decision]()
        for handler in self._of("before_model_resolve"):
            answer, failed = await self._ask("before_model_resolve", handler, event, ModelOverride)
            decisions += failed
            if answer is not None:
                chosen = _first_override(chosen, answer)
        started: AgentStart | None = None
        if self.handles("before_agent_start"):
            started, found = await self._agent_start(event)
            decisions += found
            chosen = _first_override(chosen, started.model)
        if chosen.model or chosen.provider:
            name = ":".join(part for part in (chosen.provider, chosen.model) if part)
            decisions.append(_decision("before_model_resolve", "routed", f"plugins chose the model {name}"))
        return ModelChoice(chosen, started, tuple(decisions))

    async def before_prompt_build(
        self, prompt: str, messages: Sequence[Message], context: HookContext, started: AgentStart | None = None
    ) -> PromptBuild:
        """Collect what plugins add to the prompt: texts joined in running order, the first system prompt wins.

        Args:
            prompt: the user's text as it came in.
            messages: the working set.
            context: where the hook runs.
            started: what ``before_model_resolve`` got from the older ``before_agent_start``, if it asked.
        """
        event = {"prompt": prompt, "messages": tuple(messages), "context": context}
        merged, decisions = PromptAdditions(), list[Decision]()
        for handler in self._of("before_prompt_build"):
            answer, failed = await self._ask("before_prompt_build", handler, event, PromptAdditions)
            decisions += failed
            if answer is not None:
                decisions += _added("before_prompt_build", handler.plugin, answer)
                merged = merge_additions(merged, answer)
        if started is None and self.handles("before_agent_start"):
            started, found = await self._agent_start(event)
            decisions += found
        if started is not None:
            merged = merge_additions(merged, started.prompt)
        return PromptBuild(merged, tuple(decisions))

    async def bootstrap_files(self, files: Sequence[Any], context: HookContext) -> Replaced:
        """Let plugins replace the list of bootstrap files; each sees what the one before it left."""
        current, decisions = tuple(files), list[Decision]()
        for handler in self._of("bootstrap_files"):
            answer, failed = await self._ask("bootstrap_files", handler, {"files": current, "context": context}, list)
            decisions += failed
            if answer is not None:
                why = f"plugin {handler.plugin} replaced {len(current)} bootstrap files by {len(answer)}"
                decisions.append(_decision("bootstrap_files", "injected", why, handler.plugin))
                current = tuple(answer)
        return Replaced(current, tuple(decisions))

    async def before_tool_call(
        self, name: str, params: Mapping[str, Any], call_id: str, context: HookContext
    ) -> ToolGate:
        """Ask whether a tool call may run; a block is final, and a plugin that fails blocks too.

        Each plugin sees the parameters as they would run now; what it gives takes the place of an earlier answer
        and is laid over the original parameters.
        """
        adjusted: Mapping[str, Any] | None = None
        current, decisions = params, list[Decision]()
        for handler in self._of("before_tool_call"):
            event = {"name": name, "params": current, "call_id": call_id, "context": context}
            answer, failed = await self._ask("before_tool_call", handler, event, ToolVerdict)
            decisions += failed
            if failed:
                reason = f"Plugin {handler.plugin} failed to check this tool call, so it was not run."
                return ToolGate(current, True, reason, adjusted, tuple(decisions))
            if answer is None:
                continue
            if answer.params is not None:
                adjusted = answer.params
                current = {**params, **adjusted}
                why = f"plugin {handler.plugin} set {', '.join(sorted(adjusted)) or 'no'} parameters of {name}"
                decisions.append(_decision("before_tool_call", "injected", why, handler.plugin))
            if answer.block:
                why = f"plugin {handler.plugin} blocked {name}"
                decisions.append(_decision("before_tool_call", "skipped", why, handler.plugin))
                return ToolGate(current, True, answer.reason or BLOCKED_TEXT, adjusted, tuple(decisions))
        return ToolGate(current, adjusted=adjusted, decisions=tuple(decisions))

    async def message_sending(self, content: str, to: str, context: HookContext) -> Sending:
        """Let plugins change or stop what goes out; stopping is final, the last text wins."""
        adjusted: str | None = None
        current, decisions = content, list[Decision]()
        for handler in self._of("message_sending"):
            event = {"content": current, "to": to, "context": context}
            answer, failed = await self._ask("message_sending", handler, event, SendingVerdict)
            decisions += failed
            if answer is None:
                continue
            if answer.content is not None:
                adjusted = answer.content
                why = f"plugin {handler.plugin} changed the reply from {len(current)} to {len(adjusted)} characters"
                decisions.append(_decision("message_sending", "injected", why, handler.plugin))
                current = adjusted
            if answer.cancel:
                why = f"plugin {handler.plugin} stopped a reply of {len(current)} characters"
                decisions.append(_decision("message_sending", "dropped", why, handler.plugin))
                return Sending(current, True, adjusted, tuple(decisions))
        return Sending(current, False, adjusted, tuple(decisions))

    async def claim(self, hook: ClaimingHook, inbound: Any, context: HookContext) -> Claim:
        """Ask who takes an inbound message: the first plugin that answers ``True`` has it and no turn runs."""
        decisions = list[Decision]()
        for handler in self._of(hook):
            answer, failed = await self._ask(hook, handler, {"inbound": inbound, "context": context}, bool)
            decisions += failed
            if answer:
                decisions.append(_decision(hook, "routed", f"plugin {handler.plugin} took the message", handler.plugin))
                return Claim(handler.plugin, tuple(decisions))
        return Claim(None, tuple(decisions))

    # What is written

    def tool_result_persist(
        self, message: Message, tool_name: str, call_id: str, context: HookContext, *, synthetic: bool = False
    ) -> Written:
        """Pass a tool result through the plugins before it is stored; each sees what the one before it left."""
        event = {"tool_name": tool_name, "call_id": call_id, "synthetic": synthetic, "context": context}
        current, decisions = message, list[Decision]()
        for handler in self._of("tool_result_persist"):
            answer, failed = self._ask_now("tool_result_persist", handler, event | {"message": current}, Message)
            decisions += failed
            if answer is not None and answer is not current:
                decisions.append(_rewrote("tool_result_persist", handler.plugin, current, answer))
                current = answer
        return Written(current, tuple(decisions))

    def before_message_write(self, message: Message, context: HookContext) -> Written:
        """Pass a message through the plugins before it is written; a block is final."""
        current, decisions = message, list[Decision]()
        for handler in self._of("before_message_write"):
            event = {"message": current, "context": context}
            answer, failed = self._ask_now("before_message_write", handler, event, WriteVerdict)
            decisions += failed
            if answer is None:
                continue
            if answer.block:
                why = f"plugin {handler.plugin} kept a {current.role} message out of the transcript"
                decisions.append(_decision("before_message_write", "dropped", why, handler.plugin))
                return Written(None, tuple(decisions))
            if answer.message is not None and answer.message is not current:
                decisions.append(_rewrote("before_message_write", handler.plugin, current, answer.message))
                current = answer.message
        return Written(current, tuple(decisions))

    # What one plugin is asked by name

    async def write_summary(
        self, plugin: str, context: HookContext, *, system: str, prompt: str, max_output_tokens: int | None
    ) -> str:
        """Let the plugin of that id write a summary.

        Raises:
            ModelError: it is not loaded or writes none (kind "missing"), it failed, or it had nothing to say.
        """
        handler = next((found for found in self._of("write_summary") if found.plugin == plugin), None)
        if handler is None:
            raise ModelError(f"compaction.provider: no loaded plugin {plugin!r} writes summaries", kind="missing")
        event = {"system": system, "prompt": prompt, "max_output_tokens": max_output_tokens, "context": context}
        try:
            text = await ask("write_summary", handler, event, str)
        except CallFailed as failure:
            if not self._catch_errors:
                raise PluginError(f"plugin {plugin}, hook write_summary: {failure}") from failure
            raise ModelError(f"plugin {plugin} {failure}") from failure
        if not text:
            raise ModelError(f"plugin {plugin} wrote no summary")
        return text

    # What is only told

    async def observe(self, hook: ObserverHook, context: HookContext, **event: Any) -> tuple[Decision, ...]:
        """Tell all plugins side by side what happened; their answers are ignored, their failures come back.

        ``event`` holds the fields that :mod:`turngraph.hook_specs` gives for the hook.
        """
        handlers = self._of(hook)
        if not handlers:
            return ()
        told = (self._ask(hook, handler, event | {"context": context}, object) for handler in handlers)
        return tuple(decision for _, failed in await asyncio.gather(*told) for decision in failed)

    def _of(self, hook: str) -> tuple[Handler, ...]:
        return self._handlers.get(hook, ())

    async def _agent_start(self, event: Mapping[str, Any]) -> tuple[AgentStart, list[Decision]]:
        merged, decisions = AgentStart(), list[Decision]()
        for handler in self._of("before_agent_start"):
            answer, failed = await self._ask("before_agent_start", handler, event, AgentStart)
            decisions += failed
            if answer is not None:
                decisions += _added("before_agent_start", handler.plugin, answer.prompt)
                merged = AgentStart(
                    _first_override(merged.model, answer.model), merge_additions(merged.prompt, answer.prompt)
                )
        return merged, decisions

    async def _ask(
        self, hook: str, handler: Handler, event: Mapping[str, Any], wanted: type[Answer]
    ) -> tuple[Answer | None, list[Decision]]:
        """Return one plugin's answer, or ``None`` and the Decision about its failure."""
        try:
            return await ask(hook, handler, event, wanted), []
        except CallFailed as failure:
            return None, [self._failure(hook, handler, failure)]

    def _ask_now(
        self, hook: str, handler: Handler, event: Mapping[str, Any], wanted: type[Answer]
    ) -> tuple[Answer | None, list[Decision]]:
        try:
            return ask_now(handler, event, wanted), []
        except CallFailed as failure:
            return None, [self._failure(hook, handler, failure)]

    def _failure(self, hook: str, handler: Handler, failure: CallFailed) -> Decision:
        if not self._catch_errors:
            raise PluginError(f"plugin {handler.plugin}, hook {hook}: {failure}") from failure
        what: What = "warned" if failure.only_warn else "failed"
        return _decision(hook, what, f"plugin {handler.plugin} {failure}", handler.plugin)


def merge_additions(first: PromptAdditions, second: PromptAdditions) -> PromptAdditions:
    """Merge two answers, the one of higher priority first: its system prompt wins, other texts are joined."""
    return PromptAdditions(
        first.system_prompt or second.system_prompt or None,
        _joined(first.prepend_context, second.prepend_context),
        _joined(first.prepend_system_context, second.prepend_system_context),
        _joined(first.append_system_context, second.append_system_context),
    )


def _joined(*texts: str | None) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


def _first_override(first: ModelOverride, second: ModelOverride) -> ModelOverride:
    return replace(first, model=first.model or second.model, provider=first.provider or second.provider)


def _decision(hook: str, what: What, why: str, plugin: str | None = None) -> Decision:
    return Decision("hooks", what, why, data={"hook": hook} | ({"plugin": plugin} if plugin else {}))


def _added(hook: str, plugin: str, additions: PromptAdditions) -> list[Decision]:
    fields: tuple[Text, ...] = ("system_prompt", "prepend_context", "prepend_system_context", "append_system_context")
    sizes = {name: len(text) for name in fields if (text := getattr(additions, name))}
    if not sizes:
        return []
    parts = ", ".join(f"{name.replace('_', ' ')} of {size} characters" for name, size in sizes.items())
    return [_decision(hook, "injected", f"plugin {plugin} gave {parts}", plugin)]


def _rewrote(hook: str, plugin: str, before: Message, after: Message) -> Decision:
    why = f"plugin {plugin} changed a {before.role} message from {len(before.text)} to {len(after.text)} characters"
    return replace(_decision(hook, "written", why, plugin), chars_before=len(before.text), chars_after=len(after.text))
