"""A settings file as a plain tree: JSON5 with includes and environment variables, before any key is checked.

Source: spec/settings.md section 1, rules 1 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turngraph.config.tree import KeyPath, Tree, merged, path_text
from turngraph.errors import ConfigError

OWN_FILE = "turngraph.json5"
FOREIGN_FILE = "openclaw.json"
INCLUDE = "$include"
INCLUDE_DEPTH = 10  # files inside files, spec/settings.md 1.2

_VARIABLE = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")
_NEAR = re.compile(r" (?:starting )?near ([0-9]+).*", re.DOTALL)


def find_file(home: Path) -> Path | None:
    """Return the settings file of a home: ours, else OpenClaw's, else none."""
    return next((home / name for name in (OWN_FILE, FOREIGN_FILE) if (home / name).is_file()), None)


def read_document(path: Path) -> tuple[Tree, tuple[Path, ...]]:
    """Read a settings file with all that it includes.

    Returns:
        The merged tree and every file that was read, the named one first.

    Raises:
        ConfigError: for a file that cannot be read or parsed (with line and column), whose root is no object, or
            that includes a file outside its folder, itself, or more than ``INCLUDE_DEPTH`` deep.
    """
    reader = _Reader(path.parent.resolve())
    tree = reader.read(path, depth=0)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path.name}: the settings must be an object in braces, found {type(tree).__name__}")
    return tree, tuple(reader.files)


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[Path] = []

    def read(self, path: Path, depth: int) -> Any:
        if depth > INCLUDE_DEPTH:
            raise ConfigError(
                f"{path.name}: {INCLUDE} is more than {INCLUDE_DEPTH} files deep; does a file include itself?"
            )
        self.files.append(path)
        return self._resolve(_parse(path), path, depth)

    def _resolve(self, value: Any, path: Path, depth: int) -> Any:
        if isinstance(value, list):
            return [self._resolve(item, path, depth) for item in value]
        if not isinstance(value, dict):
            return value
        own = {key: self._resolve(item, path, depth) for key, item in value.items() if key != INCLUDE}
        if INCLUDE not in value:
            return own
        names = value[INCLUDE] if isinstance(value[INCLUDE], list) else [value[INCLUDE]]
        included: Any = {}
        for name in names:
            included = merged(included, self.read(self._inside(name, path), depth + 1))
        return merged(included, own) if own else included

    def _inside(self, name: Any, including: Path) -> Path:
        target = (including.parent / name).resolve() if isinstance(name, str) else None
        if target is None or not target.is_relative_to(self.folder):
            raise ConfigError(f"{including.name}: {INCLUDE} must name files inside {self.folder}, found {name!r}")
        return target


def _parse(path: Path) -> Any:
    import pyjson5

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path.name}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return pyjson5.decode(text)
    except pyjson5.Json5DecoderException as error:
        raise ConfigError(f"{path.name}:{_where(text, str(error.args[0]))}") from error


def _where(text: str, message: str) -> str:
    """Return ``line:column: what`` from the parser's message, which names an offset into the text."""
    found = _NEAR.search(message)
    offset = min(int(found[1]) if found else 0, len(text))
    at = max(0, offset - 1)
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    what = re.sub(r"b'(\w+)'", r"\1", _NEAR.sub("", message))
    return f"{line}:{column}: cannot be parsed as JSON5: {what[:1].lower()}{what[1:]}"


def substitute(tree: Tree, env: Mapping[str, str]) -> tuple[Tree, dict[KeyPath, str]]:
    """Replace ``${NAME}`` in text values; ``$${NAME}`` stands for the literal.

    Returns:
        The new tree, and by its path the problem of each key that names a variable which is not set.
    """
    unset: dict[KeyPath, list[str]] = {}

    def replace(text: str, path: KeyPath) -> str:
        def one(found: re.Match[str]) -> str:
            escaped, name = found.groups()
            if escaped:
                return found[0][1:]
            if name not in env:
                unset.setdefault(path, []).append(name)
            return env.get(name, "")

        return _VARIABLE.sub(one, text)

    substituted = _mapped(tree, replace, ())
    return substituted, {path: _unset_text(path, names) for path, names in unset.items()}


def _unset_text(path: KeyPath, names: Sequence[str]) -> str:
    which = " and ".join(dict.fromkeys(names))
    one = len(set(names)) == 1
    return f"{path_text(path)}: the environment variable{'' if one else 's'} {which} {'is' if one else 'are'} not set"


def _mapped(value: Any, replace: Callable[[str, KeyPath], str], path: KeyPath) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(item, replace, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, replace, (*path, index)) for index, item in enumerate(value)]
    return replace(value, path) if isinstance(value, str) else value
