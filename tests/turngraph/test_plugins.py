"""Finding and registering plugins (spec/settings.md section 8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stores.home import Home
from turngraph.config import AgentSettings, default_settings
from turngraph.errors import PluginError
from turngraph.hook_results import HookContext, PromptAdditions
from turngraph.hook_specs import hookimpl, priority
from turngraph.hooks import Hooks
from turngraph.plugins import Plugin, register

PLUGIN = """
from turngraph.hook_results import PromptAdditions
from turngraph.hook_specs import hookimpl

greeting = "hello"

@hookimpl
def configure(config):
    global greeting
    if "greeting" not in config:
        raise ValueError("greeting is missing")
    greeting = config["greeting"]

@hookimpl
async def before_prompt_build(prompt):
    return PromptAdditions(prepend_context=f"{greeting} {prompt}")
"""


def settings_with(**plugins: Any) -> AgentSettings:
    settings = default_settings()
    root = settings.root.model_validate({"plugins": plugins})
    return settings.model_copy(update={"root": root})


def plugin_file(home: Path, text: str = PLUGIN, name: str = "greeter") -> None:
    (home / "plugins").mkdir(exist_ok=True)
    (home / "plugins" / f"{name}.py").write_text(text, encoding="utf-8")


async def test_a_plugin_file_is_loaded_and_configured(tmp_path: Path) -> None:
    plugin_file(tmp_path)
    entries = {"greeter": {"config": {"greeting": "good day"}}}
    hooks = Hooks.load(settings_with(load={"paths": ["plugins/greeter.py"]}, entries=entries), Home(tmp_path))
    built = await hooks.before_prompt_build("Ada", (), HookContext())
    assert built.additions.prepend_context == "good day Ada"
    assert hooks.plugins == ("greeter",)


def test_a_disabled_plugin_is_not_even_imported(tmp_path: Path) -> None:
    plugin_file(tmp_path, "raise RuntimeError")
    entries = {"greeter": {"enabled": False}}
    settings = settings_with(load={"paths": ["plugins/greeter.py"]}, entries=entries)
    assert Hooks.load(settings, Home(tmp_path)).plugins == ()
    off = settings_with(enabled=False, load={"paths": ["plugins/greeter.py"]})
    assert Hooks.load(off, Home(tmp_path)).plugins == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no')", "cannot be imported: RuntimeError"),
        (PLUGIN, "refuses plugins.entries.greeter.config: greeting is missing"),
        (PLUGIN.replace("before_prompt_build", "before_promt_build"), "does not fit the hooks"),
        (PLUGIN.replace("build(prompt)", "build(promt)"), "does not fit the hooks"),
        (None, "is not there"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error_with_a_way_out(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        plugin_file(tmp_path, text)
    settings = settings_with(load={"paths": ["plugins/greeter.py"]})
    with pytest.raises(PluginError, match="enabled: false") as caught:
        Hooks.load(settings, Home(tmp_path))
    assert said in str(caught.value)


class Marked:
    def __init__(self, name: str, **marks: Any) -> None:
        self.name = name

    @hookimpl
    def before_prompt_build(self) -> PromptAdditions:
        return PromptAdditions(prepend_context=self.name)


class High(Marked):
    @hookimpl
    @priority(10)
    def before_prompt_build(self) -> PromptAdditions:
        return PromptAdditions(prepend_context=self.name)


class First(Marked):
    @hookimpl(tryfirst=True)
    def before_prompt_build(self) -> PromptAdditions:
        return PromptAdditions(prepend_context=self.name)


async def test_priority_orders_plugins_and_tryfirst_only_equal_ones(tmp_path: Path) -> None:
    plugins = [
        Plugin(module.name, module, {}) for module in (Marked("plain"), Marked("second"), First("first"), High("high"))
    ]
    built = await Hooks(register(plugins, tmp_path)).before_prompt_build("p", (), HookContext())
    assert built.additions.prepend_context == "high\n\nfirst\n\nplain\n\nsecond"


def test_two_plugins_of_one_name_are_refused(tmp_path: Path) -> None:
    plugins = [Plugin("same", Marked("a"), {}), Plugin("same", Marked("b"), {})]
    with pytest.raises(PluginError, match="two plugins are called same"):
        register(plugins, tmp_path)


def test_a_wrapper_is_refused(tmp_path: Path) -> None:
    class Wraps:
        @hookimpl(wrapper=True)
        def agent_end(self) -> Any:
            return (yield)

    with pytest.raises(PluginError, match="has no wrappers"):
        register([Plugin("wraps", Wraps, {})], tmp_path)
