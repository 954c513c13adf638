"""The hook runner (spec/context.md section 7)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.builders import result, user
from turngraph.errors import PluginError
from turngraph.hook_calls import Handler
from turngraph.hook_results import (
    AgentStart,
    HookContext,
    ModelOverride,
    PromptAdditions,
    SendingVerdict,
    ToolVerdict,
    WriteVerdict,
)
from turngraph.hooks import BLOCKED_TEXT, Hooks

HERE = HookContext(session_key="agent:main:main")


def answers(value: Any, plugin: str = "p", priority: int = 0) -> Handler:
    return Handler(plugin, lambda: value, (), priority)


def raises(plugin: str = "p") -> Handler:
    def fail() -> None:
        raise KeyError("secret text of the user")

    return Handler(plugin, fail, ())


async def test_without_plugins_everything_passes_unchanged() -> None:
    hooks, message = Hooks.empty(), user("hi")
    params = {"a": 1}
    gate = await hooks.before_tool_call("exec", params, "t1", HERE)
    assert gate.params is params and not gate.blocked
    assert hooks.before_message_write(message, HERE).message is message
    assert (await hooks.message_sending("text", "ada", HERE)).content == "text"
    assert await hooks.observe("agent_end", HERE) == ()
    assert not hooks.handles("agent_end")


async def test_higher_priority_runs_first_and_equal_ones_in_order_of_registration() -> None:
    handlers = [
        answers(PromptAdditions(prepend_context=name), name, priority)
        for name, priority in (("one", 0), ("two", 5), ("three", 0))
    ]
    built = await Hooks({"before_prompt_build": handlers}).before_prompt_build("p", (), HERE)
    assert built.additions.prepend_context == "two\n\none\n\nthree"


async def test_the_system_prompt_of_the_highest_priority_wins() -> None:
    handlers = [answers(PromptAdditions("low"), "low", 1), answers(PromptAdditions("high"), "high", 2)]
    built = await Hooks({"before_prompt_build": handlers}).before_prompt_build("p", (), HERE)
    assert built.additions.system_prompt == "high"


async def test_an_empty_text_does_not_erase_an_earlier_one() -> None:
    handlers = [
        answers(PromptAdditions(prepend_context="kept"), "a"),
        answers(PromptAdditions(prepend_context=""), "b"),
    ]
    built = await Hooks({"before_prompt_build": handlers}).before_prompt_build("p", (), HERE)
    assert built.additions.prepend_context == "kept"


async def test_the_older_hook_is_asked_once_and_stands_behind_the_newer_one() -> None:
    asked: list[str] = []

    def start(prompt: str) -> AgentStart:
        asked.append(prompt)
        return AgentStart(ModelOverride(model="m"), PromptAdditions("old system", "old context"))

    hooks = Hooks(
        {
            "before_agent_start": [Handler("old", start, ("prompt",))],
            "before_prompt_build": [answers(PromptAdditions(None, "new context"), "new")],
        }
    )
    choice = await hooks.before_model_resolve("p", HERE)
    built = await hooks.before_prompt_build("p", (), HERE, choice.started)
    assert (choice.override.model, asked) == ("m", ["p"])
    assert built.additions == PromptAdditions("old system", "new context\n\nold context")


async def test_a_guard_that_fails_blocks_the_call() -> None:
    gate = await Hooks({"before_tool_call": [raises("guard")]}).before_tool_call("exec", {"a": 1}, "t1", HERE)
    assert gate.blocked
    assert "guard" in gate.reason
    assert [decision.what for decision in gate.decisions] == ["failed"]


async def test_a_guard_that_is_too_slow_blocks_the_call() -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    hooks = Hooks({"before_tool_call": [Handler("guard", slow, (), timeout_s=0.01)]})
    gate = await hooks.before_tool_call("exec", {}, "t1", HERE)
    assert gate.blocked
    assert "took longer than 0.01 s" in gate.decisions[0].why


async def test_a_plain_function_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    hooks = Hooks({"before_tool_call": [Handler("guard", release.wait, (), timeout_s=0.01)]})
    assert (await hooks.before_tool_call("exec", {}, "t1", HERE)).blocked
    release.set()


async def test_a_guard_sees_what_an_earlier_plugin_put_in_place() -> None:
    def guard(params: Any) -> ToolVerdict | None:
        return ToolVerdict(block=True, reason="no") if params["command"] == "rm" else None

    swap = answers(ToolVerdict({"command": "rm"}), "swap", 5)
    hooks = Hooks({"before_tool_call": [swap, Handler("guard", guard, ("params",))]})
    gate = await hooks.before_tool_call("exec", {"command": "ls", "timeout": 3}, "t1", HERE)
    assert (gate.blocked, gate.reason) == (True, "no")
    assert gate.params == {"command": "rm", "timeout": 3}


async def test_a_block_is_final_and_has_a_text() -> None:
    handlers = [answers(ToolVerdict(block=True), "a", 1), answers(ToolVerdict({"x": 1}), "b")]
    gate = await Hooks({"before_tool_call": handlers}).before_tool_call("exec", {}, "t1", HERE)
    assert (gate.blocked, gate.reason, gate.params) == (True, BLOCKED_TEXT, {})


async def test_a_failing_observer_is_told_and_the_others_still_run() -> None:
    seen: list[str] = []
    hooks = Hooks({"agent_end": [raises("bad"), Handler("good", lambda error: seen.append(error), ("error",))]})
    decisions = await hooks.observe("agent_end", HERE, error="none")
    assert seen == ["none"]
    assert [(d.what, d.data["plugin"]) for d in decisions] == [("failed", "bad")]
    assert "KeyError at test_hooks.py" in decisions[0].why
    assert "secret" not in decisions[0].why


async def test_errors_are_raised_where_they_are_not_caught() -> None:
    hooks = Hooks({"before_prompt_build": [raises("bad")]}, catch_errors=False)
    with pytest.raises(PluginError, match="plugin bad, hook before_prompt_build"):
        await hooks.before_prompt_build("p", (), HERE)


async def test_an_answer_of_the_wrong_kind_is_a_failure() -> None:
    built = await Hooks({"before_prompt_build": [answers("text")]}).before_prompt_build("p", (), HERE)
    assert "answered with str where PromptAdditions or None is expected" in built.decisions[0].why


async def test_the_last_text_goes_out_unless_a_plugin_stops_it() -> None:
    change = answers(SendingVerdict("changed"), "change", 2)
    assert (await Hooks({"message_sending": [change]}).message_sending("text", "ada", HERE)).content == "changed"
    stop = answers(SendingVerdict(cancel=True), "stop")
    stopped = await Hooks({"message_sending": [change, stop]}).message_sending("text", "ada", HERE)
    assert stopped.cancelled
    assert [decision.what for decision in stopped.decisions] == ["injected", "dropped"]


async def test_the_first_plugin_that_claims_a_message_has_it() -> None:
    hooks = Hooks({"inbound_claim": [answers(False, "a"), answers(True, "b"), answers(True, "c")]})
    assert (await hooks.claim("inbound_claim", None, HERE)).plugin == "b"


def test_message_plugins_see_what_the_one_before_left() -> None:
    def shout(message: Any) -> Any:
        return message.evolve(content=[{"type": "text", "text": message.text.upper()}])

    def sign(message: Any) -> Any:
        return message.evolve(content=[{"type": "text", "text": f"{message.text}!"}])

    hooks = Hooks(
        {"tool_result_persist": [Handler("sign", sign, ("message",), 1), Handler("shout", shout, ("message",), 2)]}
    )
    written = hooks.tool_result_persist(result("t1", "done"), "read", "t1", HERE)
    assert written.message is not None
    assert written.message.text == "DONE!"
    assert [decision.what for decision in written.decisions] == ["written", "written"]


def test_a_message_can_be_kept_out_and_a_failing_plugin_loses_none() -> None:
    message = user("hi")
    blocked = Hooks({"before_message_write": [answers(WriteVerdict(block=True))]}).before_message_write(message, HERE)
    failed = Hooks({"before_message_write": [raises()]}).before_message_write(message, HERE)
    assert blocked.message is None
    assert failed.message is message
    assert [decision.what for decision in failed.decisions] == ["failed"]


def test_a_coroutine_in_a_message_hook_is_ignored_with_a_warning() -> None:
    async def later() -> WriteVerdict:
        return WriteVerdict(block=True)

    message = user("hi")
    written = Hooks({"before_message_write": [Handler("p", later, ())]}).before_message_write(message, HERE)
    assert written.message is message
    assert [decision.what for decision in written.decisions] == ["warned"]
