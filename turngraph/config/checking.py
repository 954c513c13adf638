"""Checks a tree of settings against the schema: every problem at once, or every bad value replaced.

Source: spec/settings.md section 1, rules 4 and 5.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import ValidationError

from turngraph.config.fields import EXPLAINED, Allowed, ReadAs, Section, Span
from turngraph.config.keys import child, field_at, is_section, sections
from turngraph.config.settings import SECRET_KEYS
from turngraph.config.tree import KeyPath, Tree, has, path_text, value_at, with_value, without
from turngraph.config.units import UNIT_MS

SHOWN_VALUE_CHARS = 60  # longest value in a message
_IGNORED = frozenset({"default_factory_not_called"})  # follows from another error of the same block


@dataclass(frozen=True, slots=True)
class BadValue:
    """A value that a key does not allow: where, and what would be allowed."""

    path: KeyPath
    allowed: str
    missing: bool = False


def bad_values(section: type[Section], tree: Any, how: ReadAs) -> list[BadValue]:
    """Return every value of a tree that its key does not allow, each path once, in the order of the schema."""
    try:
        section.model_validate(tree, context=how)
    except ValidationError as error:
        found: dict[KeyPath, BadValue] = {}
        for problem in error.errors(include_url=False, include_input=False):
            if problem["type"] not in _IGNORED:
                bad = _bad_value(section, tree, problem)
                found.setdefault(bad.path, bad)
        return list(found.values())
    return []


def _bad_value(section: type[Section], tree: Any, problem: Any) -> BadValue:
    path: KeyPath = problem["loc"]
    if problem["type"] == "missing":
        return BadValue(path, "is required", missing=True)
    while not has(tree, path):  # pydantic adds names of validators to the place
        path = path[:-1]
    if problem["type"] == EXPLAINED:
        return BadValue(path, problem["msg"])
    return BadValue(path, f"must be {_allowed_at(section, path)}")


def _allowed_at(section: type[Section], path: KeyPath) -> str:
    kind: Any = section
    metadata: list[Any] = []
    for part in path:
        info = field_at(kind, (part,))
        metadata = info.metadata if info else []
        kind = child(kind, part)
    return describe(kind, metadata)


def describe(kind: Any, marks: Sequence[Any] = ()) -> str:
    """Say in words what a type allows, with the marks of the field that has it."""
    metadata = [*marks, *_metadata(kind)]
    plain = sections(kind)
    words = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}
    if marked := _marked(metadata):
        return marked
    if numbers := _numbers(kind, metadata):
        return numbers
    if get_origin(plain) is Literal:
        return "one of " + ", ".join(map(str, get_args(plain)))
    if get_origin(plain) is tuple:
        return f"a list, each element {describe(get_args(plain)[0])}"
    if is_section(plain) or get_origin(plain) is dict:
        return "an object in braces"
    return words.get(plain, "another value")


def _metadata(kind: Any) -> list[Any]:
    """Return the marks of a type itself, not those of its elements."""
    found: list[Any] = []
    for part in get_args(kind):
        found += _metadata(part) if get_origin(kind) in (Annotated, Union, UnionType) else []
    return [*getattr(kind, "__metadata__", ()), *found]


def _marked(metadata: list[Any]) -> str | None:
    return next((mark.text for mark in metadata if isinstance(mark, Allowed | Span)), None)


def _numbers(kind: Any, metadata: list[Any]) -> str | None:
    plain = sections(kind)
    if plain not in (int, float):
        return None
    noun = "a whole number" if plain is int else "a number"
    low = next((f"{mark.ge}" for mark in metadata if isinstance(mark, Ge)), None)
    above = next((f"{mark.gt}" for mark in metadata if isinstance(mark, Gt)), None)
    high = next((f"{mark.le}" for mark in metadata if isinstance(mark, Le)), None)
    if low is not None and high is not None:
        return f"{noun} from {low} to {high}"
    if above is not None:
        return f"{noun} above {above}"
    return f"{noun}, {low} or more" if low is not None else noun


def shown(path: KeyPath, value: Any) -> str:
    """Return a value for a message, cut; a secret is never shown."""
    if any(part in SECRET_KEYS for part in path):
        return "(not shown)"
    text = written(value)
    return text if len(text) <= SHOWN_VALUE_CHARS else f"{text[: SHOWN_VALUE_CHARS - 3]}..."


def written(value: Any) -> str:
    """Return a value as a settings file spells it."""
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if not isinstance(value, timedelta):
        return str(value)
    ms = value // timedelta(milliseconds=1)
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if ms % UNIT_MS[unit] == 0)
    return f"{ms // UNIT_MS[unit]}{unit}"


def problem_text(bad: BadValue, tree: Any) -> str:
    """Return one line for the user about a bad value."""
    if bad.missing:
        return f"{path_text(bad.path)}: {bad.allowed}"
    return f"{path_text(bad.path)} = {shown(bad.path, value_at(tree, bad.path))}: {bad.allowed}"


def repaired(section: type[Section], tree: Tree, how: ReadAs) -> tuple[Tree, list[str]]:
    """Replace bad values by the defaults of their keys, as often as it takes.

    Returns:
        A tree that the schema accepts, and one line for each value that was replaced.
    """
    notes: list[str] = []
    tried: set[KeyPath] = set()
    while bad := bad_values(section, tree, how):
        problem = bad[0]
        path = problem.path[:-1] if problem.missing else _key_of(problem.path)
        default = None if problem.missing or path in tried else _default(section, path)
        taken = "it is left out" if default is None else f"the default {shown(path, default)} is taken"
        notes.append(f"{problem_text(problem, tree)}; {taken}")
        tree = without(tree, path) if default is None else with_value(tree, path, default)
        tried.add(path)
    return tree, notes


def _key_of(path: KeyPath) -> KeyPath:
    while path and isinstance(path[-1], int):
        path = path[:-1]
    return path


def _default(section: type[Section], path: KeyPath) -> Any:
    info = field_at(section, path)
    return None if info is None or info.is_required() or info.default_factory else info.default
