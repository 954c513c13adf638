"""prompt_hooks: let plugins add to the prompt of a turn, once, before its first model call.

What goes into the system prompt stands around it; what goes with the message is a note, so it never piles up in the
transcript. Source: spec/context.md section 7.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nodes.state import ContextNote, Section, TurnContext
from nodes.system_prompt import with_hook_context
from turngraph.decisions import Decision, Origin
from turngraph.hook_results import AgentStart
from turngraph.messages import Message
from turngraph.text import js_trim


@dataclass(frozen=True, slots=True)
class HookedPrompt:
    """The prompt with what plugins added: the same tuples when they added nothing."""

    system: tuple[Section, ...]
    notes: tuple[ContextNote, ...]
    decisions: tuple[Decision, ...]


async def ask_prompt_hooks(
    prompt: str,
    system: tuple[Section, ...],
    notes: tuple[ContextNote, ...],
    messages: Sequence[Message],
    context: TurnContext,
    started: AgentStart | None = None,
) -> HookedPrompt:
    """Ask ``before_prompt_build`` and lay its answers around the prompt.

    Args:
        prompt: the user's text as it came in.
        system, notes: the prompt so far.
        messages: the working set, without the user's new message.
        context: of the turn.
        started: what ``before_model_resolve`` got from ``before_agent_start``.
    """
    built = await context.hooks.before_prompt_build(prompt, messages, context.hook_context, started)
    note = js_trim(built.additions.prepend_context or "")
    if note:
        name = "before_prompt_build"
        notes = (*notes, ContextNote(name, note, Origin("hook", name=name)))
    return HookedPrompt(with_hook_context(system, built.additions), notes, built.decisions)
