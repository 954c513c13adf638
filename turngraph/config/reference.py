"""The table of all settings: key, what is allowed, default; made from the schema, for documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from turngraph.config.checking import describe, written
from turngraph.config.fields import Section
from turngraph.config.keys import FREE, ITEM, fields_by_key, is_section, sections
from turngraph.config.schema_file import AgentEntry, SettingsFile


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key.

    Attributes:
        key: dotted path; ``<name>`` stands for a free name, ``[]`` for a list element.
        allowed: what a value may be, in words.
        default: as a settings file spells it; empty when the key is absent by default.
    """

    key: str
    allowed: str
    default: str


@dataclass(frozen=True, slots=True)
class Block:
    """The keys of one block of settings, with what the block is for."""

    path: str
    about: str
    rows: tuple[KeyRow, ...]


def blocks(kind: type[Section] = SettingsFile, path: str = "") -> Iterator[Block]:
    """Yield every block with keys of its own, outermost first; not an agent's entry, which repeats the defaults."""
    spellings = {id(info): (key, info) for key, info in reversed(fields_by_key(kind).items())}  # the current one stays
    fields = [(f"{path}.{key}".lstrip("."), info, _group(info.annotation)) for key, info in spellings.values()][::-1]
    if rows := tuple(_row(key, info) for key, info, group in fields if group is None):
        yield Block(path, " ".join((kind.__doc__ or "").split()), rows)
    for key, _, group in fields:
        if group and group[0] is not AgentEntry:
            yield from blocks(group[0], f"{key}{group[1]}")


def _group(annotation: Any) -> tuple[type[Section], str] | None:
    """Return the block below a key and how its path goes on, ``None`` when the key has a plain value."""
    kind, suffix = sections(annotation), ""
    while get_origin(kind) in (dict, tuple):
        suffix += f".{FREE}" if get_origin(kind) is dict else ITEM
        kind = sections(get_args(kind)[-1 if get_origin(kind) is dict else 0])
    return (kind, suffix) if is_section(kind) else None


def _row(path: str, info: FieldInfo) -> KeyRow:
    allowed = describe(info.annotation, info.metadata)
    if info.is_required():
        return KeyRow(path, allowed, "required")
    return KeyRow(path, allowed, "" if info.default in (None, PydanticUndefined) else written(info.default))
