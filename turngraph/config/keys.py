"""The keys that exist: walks the schema, finds unknown keys and the nearest known ones.

Source: spec/settings.md section 1, rule 4, and section 18.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AliasChoices
from pydantic.fields import FieldInfo

from turngraph.config.fields import Section
from turngraph.config.schema_agent import AgentDefaults
from turngraph.config.schema_file import SettingsFile
from turngraph.config.tree import KeyPath, parse_path, path_text

FREE = "<name>"
ITEM = "[]"

# An agent's entry may hold every key of the defaults; these are the ones of its own.
_ENTRY = re.compile(r"agents\.(?:list\[\]|entries\.<name>)\.")
_OF_ENTRY = frozenset({"agents.list[].id", "agents.list[].default", "agents.list[].name"})

# Accepted without effect, spec/settings.md section 18; "*" stands for any one key.
_OF_AGENT = (
    "compaction.truncateAfterCompaction",
    "memorySearch.rememberAcrossConversations",
    "memorySearch.local",
    "memorySearch.remote.batch",
    "memorySearch.store.driver",
    "memorySearch.store.fts",
    "memorySearch.store.vector.extensionPath",
)
_INERT = tuple(
    tuple(key.split("."))
    for key in (
        *(f"{place}.{key}" for place in ("agents.defaults", "agents.list.*", "agents.entries.*") for key in _OF_AGENT),
        "session.maintenance.archiveDashboardAfter",
        "session.maintenance.preserveRecent",
        "session.maintenance.coldStorage",
        "memory.qmd",
        "tools.fs.workspaceOnly",
        *(
            f"plugins.entries.{plugin}.{key}"
            for plugin in ("memory-lancedb", "active-memory", "memory-core")
            for key in ("config", "dreaming")
        ),
        "bindings",
    )
)


def sections(annotation: Any) -> Any:
    """Return what an annotation is made of: a ``Section`` class, ``dict[...]``, ``tuple[...]`` or a plain type."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(kind for kind in get_args(annotation) if kind is not NoneType)
        else:
            return annotation


def is_section(kind: Any) -> bool:
    """Return whether a type is a block of settings."""
    return isinstance(kind, type) and issubclass(kind, Section)


@cache
def fields_by_key(section: type[Section]) -> dict[str, FieldInfo]:
    """Return the fields of a block by each spelling of its key, the current one first."""
    found: dict[str, FieldInfo] = {}
    for info in section.model_fields.values():
        if info.exclude:
            continue
        spelling = info.validation_alias
        names = spelling.choices if isinstance(spelling, AliasChoices) else [spelling]
        found |= {str(name): info for name in names}
    return found


def child(kind: Any, key: str | int) -> Any:
    """Return the type below ``key``, ``None`` when there is no such key, ``Any`` where anything goes."""
    kind = sections(kind)
    if is_section(kind):
        info = fields_by_key(kind).get(str(key))
        return None if info is None else info.annotation
    if get_origin(kind) is dict:
        return get_args(kind)[1]
    return get_args(kind)[0] if get_origin(kind) is tuple and isinstance(key, int) else Any


def field_at(kind: Any, path: KeyPath) -> FieldInfo | None:
    """Return the field that a path below a type names; ``None`` for list elements, free names and unknown keys."""
    for part in path[:-1]:
        kind = child(kind, part)
    kind = sections(kind)
    return fields_by_key(kind).get(str(path[-1])) if path and is_section(kind) else None


def unknown_keys(tree: Any, kind: Any = SettingsFile, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of each key that does not exist, topmost only, in the order of the file."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            below = child(kind, key)
            if below is None:
                yield (*path, key)
            else:
                yield from unknown_keys(value, below, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from unknown_keys(value, child(kind, index), (*path, index))


def inert_keys(tree: Any) -> list[KeyPath]:
    """Return the paths of the keys that are accepted without effect."""

    def find(value: Any, pattern: Sequence[str], path: KeyPath) -> Iterator[KeyPath]:
        if not pattern:
            yield path
        elif isinstance(value, dict):
            for key in value if pattern[0] == "*" else [pattern[0]]:
                if key in value:
                    yield from find(value[key], pattern[1:], (*path, key))
        elif isinstance(value, list) and pattern[0] == "*":
            for index, item in enumerate(value):
                yield from find(item, pattern[1:], (*path, index))

    return [path for pattern in _INERT for path in find(tree, pattern, ())]


@cache
def known_keys() -> tuple[str, ...]:
    """Return every key with its dotted path: ``<name>`` stands for a free name, ``[]`` for a list element."""

    def walk(kind: Any, path: str) -> Iterator[str]:
        kind = sections(kind)
        if is_section(kind):
            for key, info in fields_by_key(kind).items():
                yield f"{path}.{key}".lstrip(".")
                yield from walk(info.annotation, f"{path}.{key}")
        elif get_origin(kind) is dict:
            yield from walk(get_args(kind)[1], f"{path}.{FREE}")
        elif get_origin(kind) is tuple:
            yield from walk(get_args(kind)[0], f"{path}{ITEM}")

    keys = dict.fromkeys(walk(SettingsFile, ""))
    return tuple(key for key in keys if not _ENTRY.match(key) or key in _OF_ENTRY)


def knows_key(text: str) -> bool:
    """Return whether a dotted path names a key: in full, or as ``--set`` looks it up below ``agents.defaults``."""
    try:
        path = parse_path(text.replace(ITEM, ""))
    except ValueError:
        return False
    return any(_reaches(kind, path) for kind in (SettingsFile, AgentDefaults))


def _reaches(kind: Any, path: KeyPath) -> bool:
    for part in path:
        kind = sections(kind)
        while get_origin(kind) is tuple:
            kind = sections(get_args(kind)[0])
        kind = child(kind, part)
        if kind is None:
            return False
    return True


def nearest_key(path: KeyPath) -> str | None:
    """Return the known key that an unknown one was most likely meant to be.

    A key of the same block goes first, then any key anywhere, by edit distance of the last part; ``None`` when
    nothing is near.
    """
    kind: Any = SettingsFile
    for part in path[:-1]:
        kind = sections(child(kind, part))
    wanted = str(path[-1])
    siblings = fields_by_key(kind) if is_section(kind) else {}
    near = _nearest(wanted, {key: key for key in siblings})
    if near:
        return path_text((*path[:-1], near))
    return _nearest(wanted, {key: key.rpartition(".")[2] for key in known_keys()})


def unknown_text(path: KeyPath) -> str:
    """Return one line for the user about an unknown key."""
    near = nearest_key(path)
    return f"{path_text(path)}: unknown key" + (f"; nearest known key: {near}" if near else "")


def _nearest(wanted: str, names: dict[str, str]) -> str | None:
    """Return the key of ``names`` whose name is nearest, unless even that differs in more than a third."""
    if not names:
        return None
    distances = {key: edit_distance(folded(wanted), folded(name)) for key, name in names.items()}
    best = min(distances, key=lambda key: (distances[key], len(key)))
    return best if distances[best] <= min(max(2, len(wanted) // 3), len(wanted) - 1) else None


def folded(key: str) -> str:
    """Return a key without case, underscores and dashes."""
    return key.replace("_", "").replace("-", "").casefold()


def edit_distance(left: str, right: str) -> int:
    """Count the insertions, deletions and replacements between two texts.

    >>> edit_distance("compactoin", "compaction")
    2
    """
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]
