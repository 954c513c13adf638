"""Settings from flags and from the environment: one value each, at one path.

Source: spec/settings.md section 1, rules 8 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from turngraph.config.keys import child, fields_by_key, folded, is_section, known_keys, sections, unknown_text
from turngraph.config.schema_file import SettingsFile
from turngraph.config.tree import KeyPath, Tree, parse_path, value_at
from turngraph.errors import ConfigError

ENV_PREFIX = "TURNGRAPH__"
OF_EVERY_AGENT: KeyPath = ("agents", "defaults")


@dataclass(frozen=True, slots=True)
class Override:
    """One value from outside the file.

    Attributes:
        source: the flag or the variable, for messages.
        path: full path in the file.
        every_agent: whether it was looked up below ``agents.defaults`` and so wins over each agent's entry.
    """

    source: str
    path: KeyPath
    value: Any
    every_agent: bool = False


def parse_sets(sets: Sequence[str]) -> list[Override]:
    """Read ``PATH=VALUE`` texts of ``--set``; a path that begins with no root key belongs to every agent.

    Raises:
        ConfigError: for a text of another form.
    """
    overrides: list[Override] = []
    for text in sets:
        left, equals, right = text.partition("=")
        try:
            path = parse_path(left.strip())
        except ValueError as error:
            raise ConfigError(f"--set {left}: write PATH=VALUE, such as compaction.mode=off") from error
        if not equals:
            raise ConfigError(f"--set {left}: the value is missing; write {left}=VALUE")
        short = path[0] not in fields_by_key(SettingsFile)
        full = (*OF_EVERY_AGENT, *path) if short else path
        overrides.append(Override(f"--set {left.strip()}", full, _value(right), every_agent=short))
    return overrides


def parse_environment(env: Mapping[str, str], tree: Tree) -> tuple[list[Override], list[str]]:
    """Read the ``TURNGRAPH__`` variables; a free name is matched with the names that ``tree`` has.

    Returns:
        The overrides in the order of their names, and one problem for each variable that fits no key.
    """
    overrides: list[Override] = []
    problems: list[str] = []
    for name in sorted(name for name in env if name.startswith(ENV_PREFIX)):
        parts = name.removeprefix(ENV_PREFIX).split("__")
        path = _fit(parts, tree)
        if path is None:
            problems.append(f"{name}: {_no_fit(parts)}")
        else:
            overrides.append(Override(name, path, _value(env[name])))
    return overrides, problems


def _fit(parts: Sequence[str], tree: Tree) -> KeyPath | None:
    kind: Any = SettingsFile
    path: KeyPath = ()
    for part in parts:
        kind = sections(kind)
        if get_origin(kind) is tuple or not part:
            return None
        present = value_at(tree, path)
        names = [*fields_by_key(kind)] if is_section(kind) else [*present] if isinstance(present, dict) else []
        fitting = next((name for name in names if folded(name) == folded(part)), None)
        if fitting is None and is_section(kind):
            return None
        if not is_section(kind) and get_origin(kind) is not dict and kind is not Any:
            return None
        path = (*path, fitting or part.lower())
        kind = child(kind, path[-1])
    return path


def _no_fit(parts: Sequence[str]) -> str:
    wanted = [folded(part) for part in parts]
    for key in known_keys():
        if [folded(part) for part in key.split(".")][-len(wanted) :] == wanted:
            return f"fits no key; nearest known key: {key} ({ENV_PREFIX}{_as_variable(key)})"
    return unknown_text(tuple(part.lower() for part in parts)).replace("unknown key", "fits no key", 1)


def _as_variable(key: str) -> str:
    snake = "".join(f"_{char}" if char.isupper() else char for char in key)
    return snake.replace(".", "__").replace("-", "_").upper()


def _value(text: str) -> Any:
    import pyjson5

    try:
        return pyjson5.decode(text)
    except pyjson5.Json5DecoderException:
        return text


def as_trees(overrides: Sequence[Override]) -> Iterator[tuple[Override, Tree]]:
    """Yield each override with a tree that holds only its value."""
    for override in overrides:
        tree: Any = override.value
        for part in reversed(override.path):
            tree = {part: tree}
        yield override, tree
