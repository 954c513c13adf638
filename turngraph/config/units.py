"""Durations and sizes as settings spell them: ``1h30m``, ``2mb``."""

from __future__ import annotations

import math
import re
from typing import Literal

DurationUnit = Literal["ms", "s", "m", "h", "d"]
SizeUnit = Literal["b", "k", "kb", "m", "mb", "g", "gb", "t", "tb"]

UNIT_MS: dict[str, int] = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
UNIT_BYTES: dict[str, int] = {
    "b": 1,
    **dict.fromkeys(("k", "kb"), 1024),
    **dict.fromkeys(("m", "mb"), 1024**2),
    **dict.fromkeys(("g", "gb"), 1024**3),
    **dict.fromkeys(("t", "tb"), 1024**4),
}

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_BARE = re.compile(_NUMBER)
_PART = re.compile(f"({_NUMBER})(ms|s|m|h|d)")
_CHAIN = re.compile(f"(?:{_NUMBER}(?:ms|s|m|h|d))+")
_SIZE = re.compile(f"({_NUMBER})({'|'.join(sorted(UNIT_BYTES, key=len, reverse=True))})?")


def parse_duration_ms(raw: str | float, default_unit: DurationUnit = "ms") -> int:
    """Read a duration and return whole milliseconds, rounded half up.

    >>> parse_duration_ms("1h30m"), parse_duration_ms("90", "s"), parse_duration_ms(1.5, "d")
    (5400000, 90000, 129600000)

    A bare number takes ``default_unit``; a chain has no spaces and a unit for each part.

    Raises:
        ValueError: for a negative, empty or unknown form.

    Source: spec/sessions.md 3.6.
    """
    text = _lowered(raw)
    if _BARE.fullmatch(text):
        return _half_up(float(text) * UNIT_MS[default_unit])
    if not _CHAIN.fullmatch(text):
        raise ValueError("not a duration")
    return _half_up(sum(float(number) * UNIT_MS[unit] for number, unit in _PART.findall(text)))


def parse_byte_size(raw: str | float, default_unit: SizeUnit = "b") -> int:
    """Read a size and return whole bytes, rounded half up; units are powers of 1024.

    >>> parse_byte_size("2mb"), parse_byte_size("1.5k"), parse_byte_size(512)
    (2097152, 1536, 512)

    Raises:
        ValueError: for a negative, empty or unknown form.

    Source: spec/sessions.md 3.6.
    """
    found = _SIZE.fullmatch(_lowered(raw))
    if not found:
        raise ValueError("not a size")
    number, unit = found.groups()
    return _half_up(float(number) * UNIT_BYTES[unit or default_unit])


def _lowered(raw: str | float) -> str:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError("neither text nor a number")
    return str(raw).strip().lower()


def _half_up(value: float) -> int:
    return math.floor(value + 0.5)
