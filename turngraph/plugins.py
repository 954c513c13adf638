"""Plugins: finds them in installed packages and in the settings, and turns their functions into hook handlers.

A plugin that cannot be loaded is an error and not a warning: it may be a guard. Each way out is a setting.
Source: spec/context.md section 7, spec/settings.md section 8.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turngraph.errors import PluginError
from turngraph.hook_calls import Handler
from turngraph.hook_specs import PRIORITY_ATTRIBUTE, PROJECT, HookSpecs

if TYPE_CHECKING:
    from stores.home import Home
    from turngraph.config import AgentSettings

GROUP = "turngraph.plugins"
SETUP_HOOK = "configure"
FILE_ATTRIBUTE = "plugin"  # of a plugin file: the class or object that is meant; without it, the module


@dataclass(frozen=True, slots=True)
class Plugin:
    """A loaded plugin.

    Attributes:
        id: entry-point name, or stem of the file.
        module: the module or object whose functions are marked.
        config: its ``plugins.entries.<id>.config``.
        timeout_s: its own time limit, if any.
    """

    id: str
    module: Any
    config: Mapping[str, Any]
    timeout_s: float | None = None


def load_plugins(settings: AgentSettings, home: Home) -> dict[str, list[Handler]]:
    """Load the installed plugins by name, then the plugin files in the order of the settings.

    Raises:
        PluginError: one cannot be found, imported or configured, or two have the same id.
    """
    entries = settings.plugins.entries
    plugins = []
    for plugin_id, load in _found(settings.plugins.load.paths, home.root):
        entry = entries.get(plugin_id)
        if entry is not None and not entry.enabled:
            continue
        timeout = entry.hooks.timeout_ms if entry is not None else None
        plugins.append(
            Plugin(plugin_id, load(), entry.config if entry is not None else {}, timeout / 1000 if timeout else None)
        )
    return register(plugins, home.root)


def register(plugins: Sequence[Plugin], home: Path) -> dict[str, list[Handler]]:
    """Check the functions of ``plugins`` against the specifications, configure each, and return handlers by hook.

    Raises:
        PluginError: a function fits no hook, or a plugin refuses its configuration.
    """
    import pluggy

    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(HookSpecs)
    by_id: dict[str, Plugin] = {}
    for plugin in plugins:
        if plugin.id in by_id:
            raise PluginError(f"two plugins are called {plugin.id}; rename the file of one of them")
        by_id[plugin.id] = plugin
        try:
            manager.register(_instance(plugin), plugin.id)
            manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError(_advice(plugin.id, f"does not fit the hooks: {' '.join(str(error).split())}")) from error
    handlers: dict[str, list[Handler]] = {}
    for name in (name for name, _ in inspect.getmembers(HookSpecs, inspect.isfunction)):
        for implementation in _in_order(getattr(manager.hook, name).get_hookimpls()):
            if implementation.hookwrapper or implementation.wrapper:
                raise PluginError(_advice(implementation.plugin_name, f"wraps {name}, which has no wrappers"))
            plugin = by_id[implementation.plugin_name]
            handler = Handler(
                plugin.id,
                implementation.function,
                tuple(implementation.argnames),
                getattr(implementation.function, PRIORITY_ATTRIBUTE, 0),
                plugin.timeout_s,
            )
            if name == SETUP_HOOK:
                _configure(handler, plugin, home)
            else:
                handlers.setdefault(name, []).append(handler)
    return handlers


def _found(paths: Sequence[Path], home: Path) -> Iterator[tuple[str, Any]]:
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        yield point.name, lambda point=point: _loaded(point.name, point.load)
    for path in (home / named.expanduser() for named in paths):  # an absolute path stays as it is
        yield path.stem, lambda path=path: _loaded(path.stem, lambda: _import_file(path))


def _loaded(plugin_id: str, load: Any) -> Any:
    try:
        return load()
    except PluginError:
        raise
    except Exception as error:  # importing runs foreign code
        raise PluginError(_advice(plugin_id, f"cannot be imported: {type(error).__name__}: {error}")) from error


def _import_file(path: Path) -> Any:
    if not path.is_file():
        raise PluginError(_advice(path.stem, f"is not there: {path} (plugins.load.paths)"))
    spec = importlib.util.spec_from_file_location(f"turngraph_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise PluginError(_advice(path.stem, f"is no Python file: {path} (plugins.load.paths)"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, FILE_ATTRIBUTE, module)


def _instance(plugin: Plugin) -> Any:
    if not inspect.isclass(plugin.module):
        return plugin.module
    try:
        return plugin.module()
    except Exception as error:  # a constructor is foreign code
        raise PluginError(_advice(plugin.id, f"cannot be created: {type(error).__name__}")) from error


def _configure(handler: Handler, plugin: Plugin, home: Path) -> None:
    try:
        handler.run({"config": plugin.config, "home": home})
    except Exception as error:  # the plugin says what is wrong with its settings
        raise PluginError(_advice(plugin.id, f"refuses plugins.entries.{plugin.id}.config: {error}")) from error


def _in_order(implementations: Sequence[Any]) -> list[Any]:
    """Order of registration; pluggy's ``tryfirst`` and ``trylast`` decide only between equal priorities."""
    return sorted(implementations, key=lambda found: 0 if found.tryfirst else 2 if found.trylast else 1)


def _advice(plugin_id: str, fault: str) -> str:
    return f"plugin {plugin_id} {fault}; repair it, or set plugins.entries.{plugin_id}.enabled: false"
