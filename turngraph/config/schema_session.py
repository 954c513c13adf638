"""Settings of sessions: scope, resets, durability and maintenance.

Source: spec/settings.md section 4.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from turngraph.config.fields import (
    Allowed,
    Days,
    DaysOrNever,
    FilePath,
    Int,
    Natural,
    Positive,
    Section,
    Size,
    SizeOrOff,
    Texts,
    Zone,
    read_as,
)


def _reset_mode(value: Any) -> Any:
    return "none" if value == "off" else value


class ResetRule(Section):
    """When a session ends by itself; an absent ``mode`` inherits, else means daily (spec/sessions.md 2.2)."""

    mode: Annotated[Literal["none", "daily", "idle"] | None, BeforeValidator(_reset_mode)] = None
    at_hour: Annotated[Int | None, Allowed("a whole number from 0 to 23")] = Field(default=None, ge=0, le=23)
    idle_minutes: Positive | None = None
    timezone: Zone | None = None


class ResetByType(Section):
    """Reset rules per kind of chat; ``dm`` is the old spelling of ``direct``."""

    direct: ResetRule | None = Field(default=None, validation_alias=AliasChoices("direct", "dm"))
    group: ResetRule | None = None
    thread: ResetRule | None = None

    @model_validator(mode="before")
    @classmethod
    def _new_spelling_wins(cls, raw: Any) -> Any:
        return _without(raw, "dm", beside="direct")


def _without(raw: Any, old: str, *, beside: str) -> Any:
    if isinstance(raw, dict) and old in raw and raw.get(beside) is not None:
        return {key: value for key, value in raw.items() if key != old}
    return raw


_BUDGET_SHARE = 0.8  # spec/sessions.md 3.6: a sweep stops at this share of the budget


def _high_water(data: dict[str, Any]) -> int | None:
    budget = data.get("max_disk_bytes")
    return max(1, int(budget * _BUDGET_SHARE)) if budget else None


class Maintenance(Section):
    """How old entries and leftovers of a sessions folder are swept.

    Unset, ``reset_archive_retention`` is ``prune_after`` and ``high_water_bytes`` a share of ``max_disk_bytes``.
    """

    mode: Literal["warn", "enforce"] = "warn"
    prune_after: Days = Field(default=timedelta(days=30), validation_alias=AliasChoices("pruneAfter", "pruneDays"))
    max_entries: Positive = 500
    rotate_bytes: Size = 10 * 1024 * 1024
    reset_archive_retention: DaysOrNever = Field(
        default_factory=lambda data: data.get("prune_after", timedelta(days=30))
    )
    leftover_retention: DaysOrNever = timedelta(days=30)
    max_disk_bytes: SizeOrOff = None
    high_water_bytes: Size | None = Field(default_factory=_high_water)

    @model_validator(mode="before")
    @classmethod
    def _new_spelling_wins(cls, raw: Any, info: ValidationInfo) -> Any:
        if read_as(info).lenient and isinstance(raw, dict):
            raw = {key: value for key, value in raw.items() if value is not None}  # null is absence there
        return _without(raw, "pruneDays", beside="pruneAfter")

    @field_validator("high_water_bytes")
    @classmethod
    def _within_budget(cls, bytes_: int | None, info: ValidationInfo) -> int | None:
        budget = info.data.get("max_disk_bytes")
        return None if budget is None or bytes_ is None else min(bytes_, budget)


class Session(Section):
    """What a session is, when it ends, and how it is kept."""

    scope: Literal["per-sender", "global"] = "per-sender"
    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = "main"
    group_scope: Literal["per-group", "main"] = "per-group"
    identity_links: dict[str, Texts] = Field(default_factory=dict)
    main_key: str = "main"
    reset_triggers: Annotated[Texts, AfterValidator(lambda given: given or DEFAULT_RESET_TRIGGERS)] = ("/new", "/reset")
    reset: ResetRule | None = None
    reset_by_type: ResetByType = Field(default_factory=ResetByType)
    reset_by_channel: dict[str, ResetRule] = Field(default_factory=dict)
    idle_minutes: Positive | None = None
    store: FilePath | None = None
    parent_fork_max_tokens: Natural = 100_000
    durability: Literal["fsync", "turn", "none"] = "fsync"
    busy_timeout_ms: Natural = 10_000
    maintenance: Maintenance = Field(default_factory=Maintenance)


DEFAULT_RESET_TRIGGERS = ("/new", "/reset")
