"""Types of settings values: each reads one spelling of the file and says what it allows.

Validation may be lenient (a foreign file): pass ``ReadAs(lenient=True)`` as pydantic's context.
Source: spec/settings.md section 1, rules 3, 5 and 10.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from annotated_types import Ge, Gt, Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    SecretStr,
    Strict,
    ValidationInfo,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from turngraph.config.units import DurationUnit, parse_byte_size, parse_duration_ms


class Section(BaseModel):
    """A block of settings: camelCase keys in the file, snake_case attributes, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", alias_generator=to_camel, defer_build=True, protected_namespaces=()
    )


@dataclass(frozen=True, slots=True)
class ReadAs:
    """How values are read.

    Attributes:
        lenient: as the original does, for a foreign file.
        partial: what is read is a part of the settings, so values are not compared with each other.
        env: the environment, for secrets and ``~``.
    """

    lenient: bool = False
    partial: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a value may be, in the words of an error message."""

    text: str


EXPLAINED = "explained"  # type of the errors whose text goes to the user as it stands


def explained(text: str) -> PydanticCustomError:
    """Return an error that says by itself what is allowed and why."""
    return PydanticCustomError(EXPLAINED, "{text}", {"text": text})


def read_as(info: ValidationInfo) -> ReadAs:
    """Return how the running validation reads values."""
    return info.context if isinstance(info.context, ReadAs) else ReadAs()


def _whole(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, float) and math.isfinite(value) and (value.is_integer() or read_as(info).lenient):
        return math.floor(value)
    return value


def _bounded(low: float, high: float = math.inf) -> BeforeValidator:
    """Move a number of a foreign file to the nearest allowed one, where the original does."""

    def bound(value: Any, info: ValidationInfo) -> Any:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return min(max(value, low), high) if is_number and read_as(info).lenient else value

    return BeforeValidator(bound)


def _id_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_UNIT_NAMES: dict[DurationUnit, str] = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Span:
    """Marks a duration whose bare numbers count ``bare_unit``; with ``never``, ``false`` is read as ``None``."""

    bare_unit: DurationUnit
    never: bool = False

    @property
    def text(self) -> str:
        """What is allowed, in the words of an error message."""
        form = f"a duration such as 90s or 1h30m (a bare number counts {_UNIT_NAMES[self.bare_unit]})"
        return f"{form} or false" if self.never else form

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._read, handler(source))

    def _read(self, value: Any) -> timedelta | None:
        if self.never and (value is False or value is None):
            return None
        return value if isinstance(value, timedelta) else _to_timedelta(value, self.bare_unit)


def _to_timedelta(value: Any, bare_unit: DurationUnit) -> timedelta:
    try:
        return timedelta(milliseconds=parse_duration_ms(value, bare_unit))
    except OverflowError as error:
        raise ValueError("too long") from error


def _size(value: Any) -> Any:
    return parse_byte_size(value)


def _size_or_off(value: Any) -> Any:
    return None if value is None or value is False else parse_byte_size(value) or None


def _path(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, str) or not value.strip():
        return value if isinstance(value, Path) else None
    if value == "~" or value.startswith("~/"):
        return Path(read_as(info).env.get("HOME") or Path.home()) / value[2:]
    return Path(value)


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError("not a time zone") from error
    return value


def _clock_time(value: str) -> str:
    if not re.fullmatch(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]", value):
        raise ValueError("not a time of day")
    return value


def _end_time(value: str) -> str:
    return value if value == "24:00" else _clock_time(value)


def _secret(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, Mapping):
        name = value.get("id")
        if value.get("source") != "env" or not isinstance(name, str):
            raise explained("must be text or have the source env; other sources are not read")
        if name not in read_as(info).env:
            raise explained(f"the environment variable {name} is not set")
        value = read_as(info).env[name]
    return SecretStr(value) if isinstance(value, str) else value


PROVIDER_ALIASES = {
    "google": "google_genai",
    "gemini": "google_genai",
    "google-genai": "google_genai",
    "mistral": "mistralai",
    "voyage": "voyageai",
}


def canonical_provider(name: str) -> str:
    """Return the name that langchain-core has for a provider, any other in lower case.

    >>> canonical_provider("gemini"), canonical_provider("OpenRouter")
    ('google_genai', 'openrouter')
    """
    lowered = name.strip().lower()
    return PROVIDER_ALIASES.get(lowered, lowered)


def canonical_model(name: str) -> str:
    """Return a model as ``provider:model``; a text without a provider may be an alias and stays.

    >>> canonical_model("google/gemini-2.5-pro"), canonical_model("ollama:qwen3:8b"), canonical_model("fast")
    ('google_genai:gemini-2.5-pro', 'ollama:qwen3:8b', 'fast')

    Raises:
        ValueError: when the text, the provider or the model is empty.
    """
    parts = [part.strip() for part in re.split(r"[:/]", name.strip(), maxsplit=1)]
    if not all(parts):
        raise ValueError("not a model")
    return parts[0] if len(parts) == 1 else f"{canonical_provider(parts[0])}:{parts[1]}"


def strip_text(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


Int = Annotated[int, BeforeValidator(_whole)]
Positive = Annotated[int, BeforeValidator(_whole), Gt(0)]
Natural = Annotated[int, BeforeValidator(_whole), Ge(0)]
Ratio = Annotated[float, Ge(0), Le(1)]
BoundedNatural = Annotated[int, _bounded(0), BeforeValidator(_whole), Ge(0)]
BoundedRatio = Annotated[float, _bounded(0, 1), Ge(0), Le(1)]
Money = Annotated[float, Ge(0)]
Id = Annotated[str, BeforeValidator(_id_text)]
Texts = Annotated[tuple[Id, ...], Strict(False)]
Minutes = Annotated[timedelta, Span("m")]
Days = Annotated[timedelta, Span("d")]
Milliseconds = Annotated[timedelta, Span("ms")]
MinutesOrNever = Annotated[timedelta | None, Span("m", never=True)]
HoursOrNever = Annotated[timedelta | None, Span("h", never=True)]
DaysOrNever = Annotated[timedelta | None, Span("d", never=True)]
Size = Annotated[int, BeforeValidator(_size), Allowed("a size such as 2mb (a bare number counts bytes)")]
SizeOrOff = Annotated[int | None, BeforeValidator(_size_or_off), Allowed("a size such as 2mb; 0 or false = off")]
FilePath = Annotated[Path, BeforeValidator(_path), Allowed("a path")]
Paths = Annotated[tuple[FilePath, ...], Strict(False)]
Zone = Annotated[str, AfterValidator(_zone), Allowed("an IANA time zone such as Europe/Paris")]
ClockTime = Annotated[str, AfterValidator(_clock_time), Allowed("a time of day such as 08:30")]
EndTime = Annotated[str, AfterValidator(_end_time), Allowed("a time of day such as 22:00, or 24:00")]
Secret = Annotated[SecretStr, BeforeValidator(_secret), Allowed('text, or {source: "env", id: NAME} of a set variable')]
ProviderName = Annotated[str, AfterValidator(canonical_provider)]
ModelName = Annotated[str, AfterValidator(canonical_model), Allowed("a model such as openai:gpt-5-mini, or an alias")]
