"""The worked plugin of ``examples/``, loaded as a user would load it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stores.home import Home
from tests.builders import result
from turngraph.config import default_settings
from turngraph.errors import PluginError
from turngraph.hook_results import HookContext
from turngraph.hooks import Hooks

FILE = Path(__file__).parents[2] / "examples" / "house_rules.py"


def load(home: Path, **config: Any) -> Hooks:
    plugins = {"load": {"paths": [str(FILE)]}, "entries": {"house_rules": {"config": config}}}
    settings = default_settings()
    root = settings.root.model_validate({"plugins": plugins})
    return Hooks.load(settings.model_copy(update={"root": root}), Home(home))


async def test_a_forbidden_command_is_blocked_with_its_reason(tmp_path: Path) -> None:
    hooks = load(tmp_path, forbidden=["rm -rf"])
    blocked = await hooks.before_tool_call("exec", {"command": "cd /tmp && rm  -rf x"}, "t1", HookContext())
    assert (blocked.blocked, blocked.reason) == (True, "The rules of this house forbid `rm -rf`.")
    assert not (await hooks.before_tool_call("exec", {"command": "ls"}, "t2", HookContext())).blocked


def test_credentials_are_masked_before_they_are_stored(tmp_path: Path) -> None:
    secret = "sk-" + "a" * 30
    written = load(tmp_path).tool_result_persist(result("t1", f"the key is {secret}"), "exec", "t1", HookContext())
    assert written.message is not None
    assert secret not in written.message.text
    clean = result("t2", "nothing here")
    assert load(tmp_path).tool_result_persist(clean, "exec", "t2", HookContext()).message is clean


async def test_the_rule_stands_behind_the_system_prompt(tmp_path: Path) -> None:
    built = await load(tmp_path, rule="Speak plainly.").before_prompt_build("hi", (), HookContext())
    assert built.additions.append_system_context == "Speak plainly."


def test_a_misspelt_setting_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="unknown: forbiden; known: forbidden, rule"):
        load(tmp_path, forbiden=["rm"])
