"""Settings of tools, skills, built-in hooks and plugins.

Source: spec/settings.md sections 6 to 8.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import (
    Field,
    ValidationInfo,
    field_validator,
)

from turngraph.config.fields import (
    Int,
    ModelName,
    Natural,
    Paths,
    Positive,
    Section,
    Texts,
    explained,
    read_as,
)
from turngraph.config.schema_agent import NamePatterns


class Exec(Section):
    """Time limit of a command that names none."""

    timeout_sec: Int = Field(default=120, ge=1, le=86_400)


class LoopDetectors(Section):
    """Single detectors of loops."""

    generic_repeat: bool = True
    known_poll_no_progress: bool = True
    ping_pong: bool = True
    unknown_tool_repeat: bool = True


class LoopDetection(Section):
    """Thresholds of loop detection, in rising order; an absent one lies above the one before it."""

    enabled: bool = True
    history_size: Positive = 30
    warning_threshold: Positive = 10
    critical_threshold: Positive = Field(default_factory=lambda data: max(20, data.get("warning_threshold", 0) + 1))
    global_circuit_breaker_threshold: Positive = Field(
        default_factory=lambda data: max(30, data.get("critical_threshold", 0) + 1)
    )
    detectors: LoopDetectors = Field(default_factory=LoopDetectors)

    @field_validator("critical_threshold")
    @classmethod
    def _above_warning(cls, threshold: int, info: ValidationInfo) -> int:
        return _above(threshold, "warning_threshold", "warningThreshold", info)

    @field_validator("global_circuit_breaker_threshold")
    @classmethod
    def _above_critical(cls, threshold: int, info: ValidationInfo) -> int:
        return _above(threshold, "critical_threshold", "criticalThreshold", info)


def _above(threshold: int, lower_field: str, lower_key: str, info: ValidationInfo) -> int:
    lower = int(info.data.get(lower_field, 0))
    how = read_as(info)
    if threshold > lower or how.partial:
        return threshold
    if how.lenient:
        return lower + 1
    raise explained(f"must be above {lower_key} ({lower})")


class SessionTools(Section):
    """Whose sessions a direct chat may see in its hits."""

    visibility: Literal["self", "tree", "agent", "all"] = "agent"


class Tools(NamePatterns):
    """Which tools are offered, and their limits."""

    exec: Exec = Field(default_factory=Exec)
    loop_detection: LoopDetection = Field(default_factory=LoopDetection)
    sessions: SessionTools = Field(default_factory=SessionTools)


class SkillLimits(Section):
    """Size of the skills section of the prompt; 0 = none."""

    max_skills_prompt_chars: Natural = 30_000


class Skills(Section):
    """Skills of the workspace."""

    limits: SkillLimits = Field(default_factory=SkillLimits)


class ExtraBootstrapFiles(Section):
    """More bootstrap files; the three lists are one."""

    enabled: bool = False
    paths: Texts = ()
    patterns: Texts = ()
    files: Texts = ()


class SessionNote(Section):
    """The note that is written when a session ends."""

    enabled: bool = True
    messages: Positive = 15
    llm_slug: bool = False
    model: ModelName | None = None


class HookEntries(Section):
    """The built-in hooks."""

    bootstrap_extra_files: ExtraBootstrapFiles = Field(
        default_factory=ExtraBootstrapFiles, alias="bootstrap-extra-files"
    )
    session_memory: SessionNote = Field(default_factory=SessionNote, alias="session-memory")


class InternalHooks(Section):
    """Built-in hooks."""

    enabled: bool = True
    entries: HookEntries = Field(default_factory=HookEntries)


class Hooks(Section):
    """Hooks."""

    internal: InternalHooks = Field(default_factory=InternalHooks)


class PluginLoad(Section):
    """Plugin files beside the installed ones."""

    paths: Paths = ()


class PluginHooks(Section):
    """Time limit of a plugin's hooks; an absent one is by hook."""

    timeout_ms: Positive | None = None


class Plugin(Section):
    """One plugin; ``config`` is handed to it unchecked."""

    enabled: bool = True
    config: dict[str, Any] = Field(default_factory=dict)
    hooks: PluginHooks = Field(default_factory=PluginHooks)


class Plugins(Section):
    """Plugins."""

    enabled: bool = True
    load: PluginLoad = Field(default_factory=PluginLoad)
    entries: dict[str, Plugin] = Field(default_factory=dict)
