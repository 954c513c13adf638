"""Settings of the whole home: model providers, traces, cost, and the root that holds every group.

Source: spec/settings.md sections 3, 11 and 15.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    Strict,
)

from turngraph.config.fields import (
    Allowed,
    DaysOrNever,
    Int,
    Minutes,
    Money,
    Natural,
    Positive,
    ProviderName,
    Secret,
    Section,
)
from turngraph.config.schema_channels import Channel, Commands, Messages
from turngraph.config.schema_schedule import Cron, Serve
from turngraph.config.schema_session import Session
from turngraph.config.schema_tools import Hooks, Plugins, Skills, Tools

SMALLEST_WINDOW_TOKENS = 8_000  # design decision 1


class ModelCost(Section):
    """Prices of a model, per million tokens; what is absent comes from the packaged table."""

    input: Money | None = None
    output: Money | None = None
    cache_read: Money | None = None
    cache_write: Money | None = None
    cache_write_1h: Money | None = Field(default=None, alias="cacheWrite1h")


class ModelEntry(Section):
    """What is known of one model, merged over the packaged table."""

    id: str
    context_window: Int | None = Field(default=None, ge=SMALLEST_WINDOW_TOKENS)
    max_tokens: Positive | None = None
    reasoning: bool | None = None
    input: Annotated[tuple[Literal["text", "image"], ...], Strict(False)] | None = None
    cost: ModelCost = Field(default_factory=ModelCost)


class Provider(Section):
    """How a provider of models is reached."""

    base_url: str | None = None
    api_key: Secret | None = None
    api: str | None = None
    headers: dict[str, Secret] = Field(default_factory=dict)
    models: Annotated[tuple[ModelEntry, ...], Strict(False)] = ()


class Models(Section):
    """Providers by the name that langchain-core has for them."""

    providers: dict[ProviderName, Provider] = Field(default_factory=dict)


class Memory(Section):
    """What all agents' memory shares."""

    citations: Literal["auto", "on", "off"] = "auto"
    backend: Literal["builtin", "qmd"] = "builtin"


def _store_text(value: Any) -> Any:
    return {True: "all", False: "none"}[value] if isinstance(value, bool) else value


class Traces(Section):
    """What is kept of each turn, and for how long."""

    enabled: bool = True
    store_text: Annotated[
        Literal["segments", "all", "none"],
        BeforeValidator(_store_text),
        Allowed("one of segments, all (true), none (false)"),
    ] = "segments"
    retention: DaysOrNever = timedelta(days=90)


class Cost(Section):
    """The model of a provider's prompt cache."""

    cache_ttl: Minutes = timedelta(minutes=5)
    min_cache_tokens: Natural = 1_024


class RootSettings(Section):
    """Every root key but ``agents``."""

    models: Models = Field(default_factory=Models)
    session: Session = Field(default_factory=Session)
    channels: dict[str, Channel] = Field(default_factory=dict)
    messages: Messages = Field(default_factory=Messages)
    commands: Commands = Field(default_factory=Commands)
    tools: Tools = Field(default_factory=Tools)
    skills: Skills = Field(default_factory=Skills)
    hooks: Hooks = Field(default_factory=Hooks)
    plugins: Plugins = Field(default_factory=Plugins)
    memory: Memory = Field(default_factory=Memory)
    cron: Cron = Field(default_factory=Cron)
    serve: Serve = Field(default_factory=Serve)
    traces: Traces = Field(default_factory=Traces)
    cost: Cost = Field(default_factory=Cost)
