"""What plugins add to a prompt (spec/context.md 7.3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nodes.prompt_hooks import ask_prompt_hooks
from nodes.state import Section
from tests.builders import user
from turngraph.hook_calls import Handler
from turngraph.hook_results import HookContext, PromptAdditions
from turngraph.hooks import Hooks

SYSTEM = (Section("Identity", "You are an agent."),)


def context(additions: PromptAdditions | None) -> Any:
    handlers = {"before_prompt_build": [Handler("p", lambda: additions, ())]} if additions else {}
    return SimpleNamespace(hooks=Hooks(handlers), hook_context=HookContext())


async def test_without_plugins_the_prompt_is_the_same() -> None:
    hooked = await ask_prompt_hooks("hi", SYSTEM, (), (user("earlier"),), context(None))
    assert hooked.system is SYSTEM
    assert (hooked.notes, hooked.decisions) == ((), ())


async def test_context_of_a_plugin_travels_as_a_note_and_not_as_text_of_the_user() -> None:
    hooked = await ask_prompt_hooks("hi", SYSTEM, (), (), context(PromptAdditions(prepend_context=" remembered \n")))
    assert [(note.text, note.origin.kind) for note in hooked.notes] == [("remembered", "hook")]
    assert hooked.system is SYSTEM


async def test_a_plugin_may_stand_behind_the_system_prompt() -> None:
    hooked = await ask_prompt_hooks("hi", SYSTEM, (), (), context(PromptAdditions(append_system_context="rule")))
    assert [section.text for section in hooked.system] == ["You are an agent.", "rule"]
    assert [section.stable for section in hooked.system] == [True, False]
