"""The settings that the program works with: of one agent, and of a home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import Field

from turngraph.clock import host_zone
from turngraph.config.fields import canonical_model
from turngraph.config.schema_agent import AgentDefaults
from turngraph.config.schema_channels import Channel, Commands, Messages
from turngraph.config.schema_root import Cost, Memory, Models, RootSettings, Traces
from turngraph.config.schema_schedule import Cron, Serve
from turngraph.config.schema_session import Session
from turngraph.config.schema_tools import Hooks, Plugins, Skills, Tools
from turngraph.errors import NotFound
from turngraph.session_keys import DEFAULT_AGENT, normalize_agent_id

SECRET_KEYS = frozenset({"apiKey", "token", "webhookToken", "headers", "ownerDisplaySecret"})  # spec/settings.md 1.12


class AgentRoot(RootSettings):
    """The root settings as one agent sees them: its own ``tools``, ``messages.groupChat`` and ``skills`` merged in."""

    default_agent_id: str = Field(default=DEFAULT_AGENT, exclude=True)


class AgentSettings(AgentDefaults):
    """Resolved settings of one agent; the root groups are attributes too (``settings.session``).

    Attributes:
        agent_id, name: normalised id and display name.
        beats: whether this agent has heartbeats: all have, unless some entry has a block of its own.
        root: the root groups; ``root.default_agent_id`` is the agent of keys that name none.
    """

    agent_id: str = DEFAULT_AGENT
    name: str = DEFAULT_AGENT
    beats: bool = True
    root: AgentRoot = Field(default_factory=AgentRoot)

    @property
    def models(self) -> Models:
        return self.root.models

    @property
    def session(self) -> Session:
        return self.root.session

    @property
    def channels(self) -> Mapping[str, Channel]:
        return self.root.channels

    @property
    def messages(self) -> Messages:
        return self.root.messages

    @property
    def commands(self) -> Commands:
        return self.root.commands

    @property
    def tools(self) -> Tools:
        return self.root.tools

    @property
    def skills(self) -> Skills:
        return self.root.skills

    @property
    def hooks(self) -> Hooks:
        return self.root.hooks

    @property
    def plugins(self) -> Plugins:
        return self.root.plugins

    @property
    def memory(self) -> Memory:
        return self.root.memory

    @property
    def cron(self) -> Cron:
        return self.root.cron

    @property
    def serve(self) -> Serve:
        return self.root.serve

    @property
    def traces(self) -> Traces:
        return self.root.traces

    @property
    def cost(self) -> Cost:
        return self.root.cost

    @property
    def zone(self) -> tzinfo:
        """The user's time zone: ``userTimezone``, else the host's."""
        return ZoneInfo(self.user_timezone) if self.user_timezone else host_zone()

    @property
    def sessions_file(self) -> Path:
        """``sessions.json`` of this agent, relative to the home unless the settings name another place."""
        template = self.session.store or Path("agents/{agentId}/sessions/sessions.json")
        return Path(str(template).replace("{agentId}", self.agent_id))

    @property
    def index_file(self) -> Path:
        """The memory index of this agent, relative to the home unless the settings name another place.

        A name of the original's index (``.sqlite``) is not used: it is another format.
        """
        named = self.memory_search.store.path
        template = named if named and named.suffix != ".sqlite" else Path("memory/{agentId}.duckdb")
        return Path(str(template).replace("{agentId}", self.agent_id))

    def unaliased(self, text: str) -> str:
        """Return the model that an alias stands for; any other text as it is."""
        wanted = text.strip().casefold()
        choices = self.model_choices.items()
        return next((model for model, choice in choices if choice.alias and choice.alias.casefold() == wanted), text)

    def model_named(self, text: str) -> str:
        """Return the model that an alias or a name means, as ``provider:model``."""
        return canonical_model(self.unaliased(text))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of these settings without secrets: equal settings have equal digests on every machine."""
        plain = without_secrets(self.model_dump(mode="json", by_alias=True))
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return sha256(text.encode()).hexdigest()


def without_secrets(value: Any) -> Any:
    """Return plain settings without the values of keys that hold secrets, at any depth."""
    if isinstance(value, dict):
        return {key: without_secrets(item) for key, item in value.items() if key not in SECRET_KEYS}
    return [without_secrets(item) for item in value] if isinstance(value, list) else value


def default_settings() -> AgentSettings:
    """Return the settings of agent ``main`` where no file sets anything."""
    return AgentSettings()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a home.

    Attributes:
        source: the file they came from, if there is one.
        notes: one-line notices for the user: keys without use or effect, values that were replaced.
        default_agent_id: agent of keys that name none.
        agents: resolved settings by agent id, in the order of the file.
    """

    source: Path | None
    notes: tuple[str, ...]
    default_agent_id: str
    agents: Mapping[str, AgentSettings]

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """Ids of the agents, in the order of the file."""
        return tuple(self.agents)

    def agent(self, agent_id: str | None = None) -> AgentSettings:
        """Return the settings of an agent; without an id, of the default agent.

        Raises:
            NotFound: when no agent has that id.
        """
        wanted = normalize_agent_id(agent_id) if agent_id else self.default_agent_id
        if wanted not in self.agents:
            raise NotFound(f"no agent {wanted!r} in the settings; there are: {', '.join(self.agents)}")
        return self.agents[wanted]
