"""The settings file as a whole: the root groups and the agents.

Source: spec/settings.md sections 1 (rule 7) and 2.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, Strict

from turngraph.config.fields import Section
from turngraph.config.schema_agent import AgentDefaults
from turngraph.config.schema_channels import GroupChat
from turngraph.config.schema_root import RootSettings
from turngraph.config.schema_tools import Skills, Tools


class AgentMessages(Section):
    """The part of ``messages`` that an agent may have of its own."""

    group_chat: GroupChat = Field(default_factory=GroupChat)


class AgentEntry(AgentDefaults):
    """One agent: any key of the defaults, and what of the root it has of its own."""

    id: str | None = None
    default: bool = False
    name: str | None = None
    tools: Tools = Field(default_factory=Tools)
    messages: AgentMessages = Field(default_factory=AgentMessages)
    skills: Skills = Field(default_factory=Skills)


class Agents(Section):
    """The agents of a home; ``entries`` is the newer spelling of ``list``, by id."""

    defaults: AgentDefaults = Field(default_factory=AgentDefaults)
    list: Annotated[tuple[AgentEntry, ...], Strict(False)] = ()
    entries: dict[str, AgentEntry] = Field(default_factory=dict)


class SettingsFile(RootSettings):
    """A whole settings file."""

    agents: Agents = Field(default_factory=Agents)
