"""Settings of an agent: every key of ``agents.defaults`` with its default and its range.

Source: spec/settings.md sections 2, 6, 7, 9, 10 and 12.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from turngraph.config.fields import (
    Allowed,
    BoundedNatural,
    BoundedRatio,
    ClockTime,
    EndTime,
    FilePath,
    Int,
    Minutes,
    MinutesOrNever,
    ModelName,
    Natural,
    Positive,
    Ratio,
    Section,
    SizeOrOff,
    Texts,
    Zone,
)
from turngraph.config.schema_memory import MemorySearch

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high"]

BOOTSTRAP_FILES = (
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
    "MEMORY.md",
)
MINIMAL_BOOTSTRAP_FILES = ("AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md")
_SHARED_BOOTSTRAP_FILES = tuple(name for name in BOOTSTRAP_FILES if name != "MEMORY.md")


def _choice(value: Any) -> Any:
    return {"primary": value} if isinstance(value, str) else value


class ModelChain(Section):
    """A model and what replaces it when it fails, in order."""

    primary: ModelName = "offline"
    fallbacks: Annotated[tuple[ModelName, ...], Strict(False)] = ()


ModelChoice = Annotated[
    ModelChain, BeforeValidator(_choice), Allowed("a model, an alias, or {primary, fallbacks: [...]}")
]


class ModelAlias(Section):
    """One model that ``/new`` may choose, with the short name a user can write."""

    alias: str | None = None


class Sandbox(Section):
    """Which sessions count as sandboxed, and what these may do in the workspace."""

    mode: Literal["off", "non-main", "all"] = "off"
    workspace_access: Literal["none", "ro", "rw"] = "none"


class Media(Section):
    """How many of the newest images are loaded back into the prompt."""

    images_in_context: Int = Field(default=4, ge=0, le=100)


class ContextLimits(Section):
    """Upper bounds of what tools put into the prompt; characters of tool results are weighted."""

    tool_result_max_chars: Positive | None = None
    stored_tool_result_max_chars: Int = Field(default=64_000, ge=2_000, le=400_000)
    memory_get_default_lines: Positive = 120
    memory_get_max_chars: Positive = 12_000
    post_compaction_max_chars: Positive = 1_800


class BootstrapSets(Section):
    """Bootstrap files of each kind of run; an empty list means none."""

    direct: Texts = BOOTSTRAP_FILES
    group: Texts = _SHARED_BOOTSTRAP_FILES
    channel: Texts = _SHARED_BOOTSTRAP_FILES
    cron: Texts = MINIMAL_BOOTSTRAP_FILES
    subagent: Texts = MINIMAL_BOOTSTRAP_FILES


class StartupContext(Section):
    """Recent notes that go with a bare ``/new`` or ``/reset``."""

    enabled: bool = True
    apply_on: Annotated[tuple[Literal["new", "reset"], ...], Strict(False)] = ("new", "reset")
    daily_memory_days: Int = Field(default=2, ge=1, le=14)
    max_file_bytes: Positive = 16_384
    max_file_chars: Positive = 1_200
    max_total_chars: Positive = 2_800


class NamePatterns(Section):
    """Names of tools that are let in and kept out; an absent ``allow`` lets all in."""

    allow: Texts | None = None
    deny: Texts | None = None


class SoftTrim(Section):
    """Results longer than ``max_chars`` keep their head and tail."""

    max_chars: BoundedNatural = 4_000
    head_chars: BoundedNatural = 1_500
    tail_chars: BoundedNatural = 1_500


class HardClear(Section):
    """Results that are replaced by a placeholder."""

    enabled: bool = True
    placeholder: str = "[Old tool result content cleared]"


class ContextPruning(Section):
    """Pruning of old tool results once the provider's cache has expired."""

    mode: Literal["off", "cache-ttl"] = "off"
    ttl: Minutes = timedelta(minutes=5)
    eligible: Literal["auto", "always"] = "auto"
    pressure_ratio: Annotated[
        Ratio | None,
        BeforeValidator(lambda value: None if value is False else value),
        Allowed("a number from 0 to 1, or false"),
    ] = None
    keep_last_assistants: BoundedNatural = 3
    soft_trim_ratio: BoundedRatio = 0.3
    hard_clear_ratio: BoundedRatio = 0.5
    min_prunable_tool_chars: BoundedNatural = 50_000
    tools: NamePatterns = Field(default_factory=NamePatterns)
    soft_trim: SoftTrim = Field(default_factory=SoftTrim)
    hard_clear: HardClear = Field(default_factory=HardClear)


class QualityGuard(Section):
    """Checks of a summary, with repeated attempts."""

    enabled: bool = True
    max_retries: Int = Field(default=1, ge=0, le=3)


class MidTurnPrecheck(Section):
    """Route check between tool rounds."""

    enabled: bool = True


class MemoryFlush(Section):
    """The turn that saves notes before a compaction."""

    enabled: bool = True
    soft_threshold_tokens: Natural = 4_000
    force_flush_transcript_bytes: SizeOrOff = 2 * 1024 * 1024
    prompt: str | None = None
    system_prompt: str | None = None
    model: ModelName | None = None


class Compaction(Section):
    """When and how old history is folded into a summary."""

    mode: Literal["default", "safeguard", "off"] = "safeguard"
    enabled: bool = True
    reserve_tokens: Natural = 16_384
    reserve_tokens_floor: Natural = 20_000
    keep_recent_tokens: Positive = 20_000
    max_history_share: float = Field(default=0.5, ge=0.1, le=0.9)
    recent_turns_preserve: Int = Field(default=3, ge=0, le=12)
    custom_instructions: str | None = None
    identifier_policy: Literal["strict", "off", "custom"] = "strict"
    identifier_instructions: str | None = None
    quality_guard: QualityGuard = Field(default_factory=QualityGuard)
    model: ModelChoice | None = None
    extractive_fallback: bool = False
    thinking_level: ThinkingLevel = "low"
    provider: str | None = None
    timeout_seconds: Positive = 900
    post_index_sync: Literal["off", "async", "await"] = "async"
    post_compaction_sections: Texts | None = None
    notify_user: bool = False
    max_active_transcript_bytes: SizeOrOff = None
    mid_turn_precheck: MidTurnPrecheck = Field(default_factory=MidTurnPrecheck)
    memory_flush: MemoryFlush = Field(default_factory=MemoryFlush)


class ActiveHours(Section):
    """The part of the day in which an agent may beat; ``user`` and ``local`` name the user's and the host's zone."""

    start: ClockTime
    end: EndTime
    timezone: Annotated[Literal["user", "local"] | Zone | None, Allowed("an IANA time zone, user or local")] = None


class Sink(Section):
    """Where the result of a job or an alert is delivered; each kind has its own fields (spec/scheduling.md C2)."""

    kind: Literal["session", "file", "command", "webhook"]
    session_key: str | None = None
    path: str | None = None
    mode: Literal["append", "replace"] = "append"
    argv: Texts | None = None
    timeout_sec: Positive = 30
    url: str | None = None
    token_env: str | None = None


def _beat_target(value: Any) -> Any:
    return "last" if value == "owner" else value


class Heartbeat(Section):
    """The agent's own regular turns."""

    every: Minutes = timedelta(minutes=30)
    anchor: ClockTime | None = None
    active_hours: ActiveHours | None = None
    model: ModelName | None = None
    session: str = "main"
    target: Annotated[str, BeforeValidator(_beat_target)] = "none"
    to: str | None = None
    account_id: str | None = None
    direct_policy: Literal["allow", "block"] = "allow"
    sink: Sink | None = None
    prompt: str | None = None
    ack_max_chars: Natural = 300
    light_context: bool = False
    isolated_session: bool = False
    include_reasoning: bool = False
    suppress_tool_error_warnings: bool = False
    timeout_seconds: Positive | None = None
    idle_gate: MinutesOrNever = None
    backoff_max: Minutes = timedelta(hours=6)


class AgentDefaults(Section):
    """Every key that may stand in ``agents.defaults`` and in the entry of an agent."""

    workspace: FilePath | None = None
    skip_bootstrap: bool = False
    repo_root: FilePath | None = None
    user_timezone: Zone | None = None
    model: ModelChoice = Field(default_factory=ModelChain)
    model_choices: dict[ModelName, ModelAlias] = Field(default_factory=dict, alias="models")
    thinking_default: ThinkingLevel = "off"
    timeout_seconds: Positive = 600
    max_model_calls: Positive = 200
    context_tokens: Positive | None = None
    sandbox: Sandbox = Field(default_factory=Sandbox)
    image_max_dimension_px: Positive = 1_200
    media_max_mb: float = Field(default=5.0, gt=0)
    media: Media = Field(default_factory=Media)
    context_limits: ContextLimits = Field(default_factory=ContextLimits)
    bootstrap_max_chars: Positive = 20_000
    bootstrap_total_max_chars: Positive = 150_000
    bootstrap_prompt_truncation_warning: Literal["off", "once", "always"] = "once"
    bootstrap_sets: BootstrapSets = Field(default_factory=BootstrapSets)
    startup_context: StartupContext = Field(default_factory=StartupContext)
    context_pruning: ContextPruning = Field(default_factory=ContextPruning)
    compaction: Compaction = Field(default_factory=Compaction)
    memory_search: MemorySearch = Field(default_factory=MemorySearch)
    heartbeat: Heartbeat = Field(default_factory=Heartbeat)
