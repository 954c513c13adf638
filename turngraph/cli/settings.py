"""``turngraph settings``: every key that holds for an agent, with its value and whether it is the default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    find_home,
    pick_agent,
    print_json,
    read_settings,
)
from turngraph.errors import NotFound


def settings(
    part: Annotated[str, typer.Argument(help="Show only keys that hold this text.")] = "",
    changed: Annotated[bool, typer.Option("--changed", help="Show only what differs from the default.")] = False,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Show the settings that hold for an agent: file, environment and flags over the defaults.

    Example: turngraph settings compaction --changed
    """
    from turngraph.config import default_settings

    loaded = read_settings(find_home(home), set)
    values = flat(loaded.agent(pick_agent(loaded, agent)))
    defaults = flat(default_settings())
    shown = {
        key: value
        for key, value in values.items()
        if part.lower() in key.lower() and not (changed and defaults.get(key) == value)
    }
    if json:
        print_json(shown)
        return
    if not shown:
        raise NotFound(f"no settings key holds {part!r}" if part else "every setting has its default")
    for key, value in shown.items():
        print(f"{'  ' if defaults.get(key) == value else '* '}{key} = {value}")


def flat(agent_settings: Any) -> dict[str, Any]:
    """Return the resolved settings of an agent by dotted key as a settings file spells it; secrets are masked."""
    own = agent_settings.model_dump(mode="json", by_alias=True, exclude={"root", "agent_id", "name", "beats"})
    root = agent_settings.root.model_dump(mode="json", by_alias=True)
    return dict(sorted([*_leaves(own, "agents.defaults"), *_leaves(root, "")]))


def _leaves(value: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        name = f"{path}.{key}".lstrip(".")
        if isinstance(item, dict) and item:
            yield from _leaves(item, name)
        else:
            yield name, item
