"""Plain trees of settings (objects, lists, values) and the paths into them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Tree = dict[str, Any]
KeyPath = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[^.\[\]\"'\s]+")
_PART = re.compile(r"""\.?(?:(?P<plain>[^.\[\]"'\s]+)|\[(?P<quote>["'])(?P<quoted>.*?)(?P=quote)\])""", re.DOTALL)


def path_text(path: Sequence[str | int]) -> str:
    """Write a path as the user does.

    >>> path_text(("agents", "list", 0, "model")), path_text(("channels", "a.b", "dms"))
    ('agents.list[0].model', 'channels["a.b"].dms')
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f'["{part}"]'
    return text


def parse_path(text: str) -> tuple[str, ...]:
    """Read a path; keys with dots are written as ``models["openai:gpt-4.1"]``.

    Raises:
        ValueError: when the text is no path.
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        found = _PART.match(text, at)
        if not found or (found[0].startswith(".") != bool(parts) and found["plain"]):
            raise ValueError("not a path")
        parts.append(found["plain"] or found["quoted"])
        at = found.end()
    if not parts:
        raise ValueError("not a path")
    return tuple(parts)


def merged(low: Any, high: Any) -> Any:
    """Merge two values: objects key by key, anything else is replaced by ``high``."""
    if isinstance(low, dict) and isinstance(high, dict):
        return low | {key: merged(low[key], value) if key in low else value for key, value in high.items()}
    return high


def has(tree: Any, path: KeyPath) -> bool:
    """Return whether the tree holds something at a path."""
    for part in path:
        inside = isinstance(tree, dict) and part in tree
        if not inside and not (isinstance(tree, list) and isinstance(part, int) and part < len(tree)):
            return False
        tree = tree[part]
    return True


def value_at(tree: Any, path: KeyPath) -> Any:
    """Return what stands at a path, ``None`` when there is nothing."""
    if not has(tree, path):
        return None
    for part in path:
        tree = tree[part]
    return tree


def with_value(tree: Any, path: KeyPath, value: Any) -> Any:
    """Return a tree that holds ``value`` at a path; what is in the way is replaced by objects."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(tree, list) and isinstance(key, int):
        return [with_value(item, rest, value) if index == key else item for index, item in enumerate(tree)]
    base = tree if isinstance(tree, dict) else {}
    return {**base, key: with_value(base.get(key), rest, value)}


def without(tree: Any, path: KeyPath) -> Any:
    """Return a tree that lacks what stands at a path."""
    if not has(tree, path):
        return tree
    key, rest = path[0], path[1:]
    if isinstance(tree, list):
        index = int(key)
        return [*tree[:index], *([without(tree[index], rest)] if rest else []), *tree[index + 1 :]]
    if rest:
        return {**tree, key: without(tree[key], rest)}
    return {name: item for name, item in tree.items() if name != key}
