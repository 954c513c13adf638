"""Arguments of a tool call: other spellings, plain conversions, and the check against the tool's schema.

The call in the transcript stays as it came; what is prepared here is what hooks and the tool see.
Source: spec/tools.md section 1.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turngraph.models.model import ToolSpec
from turngraph.text import head

TOOL_ALIASES: Mapping[str, str] = {"bash": "exec"}
ARGUMENT_ALIASES: Mapping[str, str] = {
    "file_path": "path",
    "filePath": "path",
    "old_string": "oldText",
    "oldString": "oldText",
    "old_text": "oldText",
    "new_string": "newText",
    "newString": "newText",
    "new_text": "newText",
    "cmd": "command",
}
# A first line of 0 means "from the start" to many models: spec/tools.md 2.3, spec/memory.md 5.2.
ZERO_IS_ABSENT = frozenset({("read", "offset"), ("memory_get", "from")})

_EDIT_ITEM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"oldText": {"type": "string", "minLength": 1}, "newText": {"type": "string"}},
    "required": ["oldText", "newText"],
}
# Forms that are understood though not offered: argument that marks the form -> its schema (spec/tools.md 4.2).
OTHER_FORMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "edit": (
        "edits",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "edits": {"type": "array", "minItems": 1, "items": _EDIT_ITEM}},
            "required": ["path", "edits"],
        },
    )
}

_SHOWN_VALUE_CHARS = 80
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def fit_arguments(spec: ToolSpec, given: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Return the arguments of a call as its tool takes them, and what is wrong with them, if anything.

    Other spellings get their name, text that is a number becomes one, ``null`` of an optional argument is left
    out. Arguments that the schema does not know stay and are for the tool to ignore. The problem names every
    argument that is missing or does not fit.
    """
    schema = _schema_for(spec, given)
    arguments = _renamed(schema, given)
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    for name in list(arguments):
        if (arguments[name] is None and name not in required) or _is_absent_zero(spec.name, name, arguments[name]):
            del arguments[name]
        elif name in properties:
            arguments[name] = _converted(properties[name], arguments[name])
    missing = [name for name in required if arguments.get(name) is None]
    if missing:
        return arguments, f"Missing argument: {', '.join(missing)}. Call {spec.name} again with it."
    problems = [
        problem
        for name, part in properties.items()
        if name in arguments
        for problem in _misfits(part, arguments[name], name)
    ]
    return arguments, f"Bad argument for {spec.name}: {'; '.join(problems)}." if problems else None


def _schema_for(spec: ToolSpec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    marker, schema = OTHER_FORMS.get(spec.name, ("", {}))
    return schema if marker and given.get(marker) is not None else spec.parameters


def _renamed(schema: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    arguments = dict(given)
    for alias, name in ARGUMENT_ALIASES.items():
        if alias in arguments and alias not in properties and name in properties and arguments.get(name) is None:
            arguments[name] = arguments.pop(alias)
    for name, part in properties.items():
        items = part.get("items", {})
        if items.get("type") == "object" and isinstance(arguments.get(name), list):
            arguments[name] = [_renamed(items, item) if isinstance(item, dict) else item for item in arguments[name]]
    return arguments


def _is_absent_zero(tool: str, name: str, value: Any) -> bool:
    return (tool, name) in ZERO_IS_ABSENT and value in (0, "0") and value is not False


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _converted(schema: Mapping[str, Any], value: Any) -> Any:
    kinds = _kinds(schema)
    if "string" in kinds or not {"integer", "number"} & set(kinds):
        return value
    number = value
    if isinstance(value, str):
        try:
            number = float(value) if any(sign in value for sign in ".eE") else int(value)
        except ValueError:
            return value
    if "number" not in kinds and isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _misfits(schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    """Yield a sentence part for everything in ``value`` that the part of JSON Schema we use does not allow."""
    kinds = _kinds(schema)
    if kinds and not any(_is_kind(value, kind) for kind in kinds):
        yield f"{where} must be {' or '.join(kinds)}, not {_shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} must be one of {', '.join(str(choice) for choice in schema['enum'])}, not {_shown(value)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield f"{where} must be at least {schema['minimum']}, not {value}"
        if value > schema.get("maximum", value):
            yield f"{where} must be at most {schema['maximum']}, not {value}"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield f"{where} must not be empty" if not value else f"{where} is too short"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} must not be empty"
        for index, item in enumerate(value):
            yield from _misfits(schema.get("items", {}), item, f"{where}[{index}]")
    if isinstance(value, dict):
        yield from _object_misfits(schema, value, where)


def _object_misfits(schema: Mapping[str, Any], value: Mapping[str, Any], where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield f"{where}.{name} is missing"
    others = schema.get("additionalProperties")
    for name, item in value.items():
        part = properties.get(name, others)
        if isinstance(part, dict) and item is not None:
            yield from _misfits(part, item, f"{where}.{name}")


def _is_kind(value: Any, kind: str) -> bool:
    if isinstance(value, bool) and kind != "boolean":
        return False
    return isinstance(value, _TYPES.get(kind, (object,)))


def _shown(value: Any) -> str:
    return head(repr(value) if isinstance(value, str) else json.dumps(value, default=str), _SHOWN_VALUE_CHARS)
