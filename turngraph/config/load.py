"""Loads the settings of a home: flag over environment over file over default, then agent by agent.

Source: spec/settings.md section 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turngraph.config.checking import bad_values, problem_text, repaired
from turngraph.config.document import FOREIGN_FILE, find_file, read_document, substitute
from turngraph.config.fields import ReadAs, Section
from turngraph.config.keys import inert_keys, unknown_keys, unknown_text
from turngraph.config.notices import notices
from turngraph.config.overrides import OF_EVERY_AGENT, Override, as_trees, parse_environment, parse_sets
from turngraph.config.schema_agent import AgentDefaults
from turngraph.config.schema_file import SettingsFile
from turngraph.config.schema_root import RootSettings
from turngraph.config.settings import AgentSettings, Settings
from turngraph.config.tree import KeyPath, Tree, has, merged, path_text, value_at, with_value, without
from turngraph.errors import ConfigError
from turngraph.session_keys import DEFAULT_AGENT, normalize_agent_id

NAMED_KEYS = 3  # unknown keys that the one line about a foreign file names
_ROOT_OF_AGENT = ("tools", "messages", "skills")  # root groups that an agent's entry may hold


def load_settings(home: Path, *, sets: Sequence[str] = (), env: Mapping[str, str]) -> Settings:
    """Read and check the settings of a home.

    Args:
        home: the home folder; it need not exist.
        sets: texts of ``--set``, ``PATH=VALUE``.
        env: the environment; nothing is read from the process.

    Raises:
        ConfigError: with every problem of our own file, of a flag or of a variable; for a foreign file only when
            it cannot be parsed, names a variable that is not set, or has two agents of one id.
    """
    return read_settings(home, sets=sets, env=env)[0]


def read_settings(home: Path, *, sets: Sequence[str], env: Mapping[str, str]) -> tuple[Settings, tuple[Path, ...]]:
    """Read settings as :func:`load_settings` does, and name the files that were read."""
    path = find_file(home)
    tree, files = read_document(path) if path else ({}, ())
    draft = _Draft(name=path.name if path else "settings", lenient=bool(path and path.name == FOREIGN_FILE), env=env)
    draft.take_file(tree)
    draft.take_overrides(sets)
    draft.stop_at_problems()
    agents = draft.agents()
    draft.stop_at_problems()
    by_id = {agent.agent_id: agent for agent in agents}
    default_id = agents[0].root.default_agent_id
    lines = (*draft.notes, *notices(by_id.values(), draft.name))
    return Settings(path, lines, default_id, by_id), files


@dataclass(slots=True)
class _Draft:
    """The settings while they are read: the tree so far, and what is wrong with it."""

    name: str
    lenient: bool
    env: Mapping[str, str]
    tree: Tree = field(default_factory=dict)
    every_agent: list[Override] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def how(self) -> ReadAs:
        return ReadAs(lenient=self.lenient, env=self.env)

    def stop_at_problems(self) -> None:
        if self.problems:
            lines = tuple(dict.fromkeys(self.problems))
            count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
            raise ConfigError(f"{self.name}: {count}; correct or remove what follows:", lines)

    def take_file(self, tree: Tree) -> None:
        """Check the tree of the file: strictly, or with the bad values of a foreign file replaced."""
        tree = self._without_inert(tree)
        unknown = list(unknown_keys(tree))
        if self.lenient:
            for path in reversed(unknown):
                tree = without(tree, path)
            self._note_unused(unknown)
        tree, unset = substitute(tree, self.env)
        self.problems += unset.values()
        if self.lenient:
            tree, replaced = repaired(SettingsFile, tree, replace(self.how, partial=True))
            self.notes += [f"{self.name}: {line}" for line in replaced]
        else:
            self.problems += [unknown_text(path) for path in unknown]
            self._check(tree, "", told=(*unknown, *unset))
        self.tree = tree

    def take_overrides(self, sets: Sequence[str]) -> None:
        """Put the values of environment and flags in their places; flags win."""
        from_env, problems = parse_environment(self.env, self.tree)
        self.problems += problems
        for override, alone in as_trees([*from_env, *parse_sets(sets)]):
            if inert := inert_keys(alone):
                self.notes.append(f"{override.source}: {path_text(inert[0])} has no effect here")
                continue
            self._check_override(override, alone)
            if override.every_agent:
                self.every_agent.append(override)
            else:
                self.tree = with_value(self.tree, override.path, override.value)

    def _check(self, tree: Tree, source: str, told: Sequence[KeyPath]) -> None:
        """Collect the bad values of a tree, but for the places of which a problem is told already."""
        how = ReadAs(env=self.env, partial=True)
        for bad in bad_values(SettingsFile, tree, how):
            if not bad.missing and bad.path not in told:
                self.problems.append(f"{source}{problem_text(bad, tree)}")

    def _check_override(self, override: Override, alone: Tree) -> None:
        unknown = tuple(unknown_keys(alone))
        self.problems += [f"{override.source}: {unknown_text(path)}" for path in unknown]
        self._check(alone, f"{override.source}: ", told=unknown)

    def _without_inert(self, tree: Tree) -> Tree:
        found = inert_keys(tree)
        if found:
            names = ", ".join(path_text(path) for path in found)
            self.notes.append(f"{self.name}: {_count(found, 'has', 'have')} no effect here ({names})")
        for path in reversed(found):
            tree = without(tree, path)
        return tree

    def _note_unused(self, unknown: Sequence[KeyPath]) -> None:
        if unknown:
            names = ", ".join(path_text(path) for path in unknown[:NAMED_KEYS])
            more = ", ..." if len(unknown) > NAMED_KEYS else ""
            self.notes.append(f"{self.name}: {_count(unknown, 'is', 'are')} not used here ({names}{more})")

    def agents(self) -> list[AgentSettings]:
        """Resolve every agent; problems are collected."""
        entries = self._entries()
        default_id = next((id_ for id_, entry in entries.items() if entry.get("default")), next(iter(entries)))
        some_beat = any("heartbeat" in entry for entry in entries.values())
        resolved = [
            self._agent(id_, entry, default_id, beats="heartbeat" in entry or not some_beat)
            for id_, entry in entries.items()
        ]
        return [agent for agent in resolved if agent]

    def _entries(self) -> dict[str, Tree]:
        """Return the entries of the agents by normalised id; the two spellings of one agent are merged."""
        entries: dict[str, Tree] = {}
        for spelling, named in (("list", _listed(self.tree)), ("entries", _by_id(self.tree))):
            seen: dict[str, str] = {}
            for name, entry in named:
                if name is None:
                    lines = self.notes if self.lenient else self.problems
                    lines.append("agents.list: an agent without an id; it is not used")
                    continue
                id_ = normalize_agent_id(name)
                if id_ in seen:
                    self.problems.append(f"agents.{spelling}: {seen[id_]!r} and {name!r} are both {id_!r}; rename one")
                seen[id_] = name
                entries[id_] = merged(entries.get(id_, {"name": name}), entry)
        return entries or {DEFAULT_AGENT: {}}

    def _agent(self, id_: str, entry: Tree, default_id: str, *, beats: bool) -> AgentSettings | None:
        own = {key: value for key, value in entry.items() if key not in ("id", "default", "name", *_ROOT_OF_AGENT)}
        defaults = value_at(self.tree, OF_EVERY_AGENT) or {}
        if id_ != default_id:
            defaults = without(defaults, ("workspace",))
        agent = _with_extra_paths(merged(defaults, own), defaults, own)
        for override in self.every_agent:
            agent = with_value(agent, override.path[len(OF_EVERY_AGENT) :], override.value)
        root = {key: value for key, value in self.tree.items() if key != "agents"}
        root = merged(root, {key: entry[key] for key in _ROOT_OF_AGENT if key in entry})
        agent = self._settled(AgentDefaults, agent, id_, "agents.defaults")
        root = self._settled(RootSettings, root, id_, "")
        if self.problems:
            return None
        whole = {
            **agent,
            "agentId": id_,
            "name": entry.get("name", id_),
            "beats": beats,
            "root": {**root, "defaultAgentId": default_id},
        }
        return AgentSettings.model_validate(whole, context=self.how)

    def _settled(self, section: type[Section], tree: Tree, agent_id: str, place: str) -> Tree:
        """Check what defaults and entry give together; alone each was right."""
        if self.lenient:
            tree, replaced = repaired(section, tree, self.how)
            self.notes += [line for text in replaced if (line := f"{self.name}: {text}") not in self.notes]
            return tree
        for bad in bad_values(section, tree, self.how):
            where = f"{place}." if place else ""
            self.problems.append(f"{where}{problem_text(bad, tree)} (agent {agent_id})")
        return tree


def _listed(tree: Tree) -> list[tuple[str | None, Tree]]:
    return [(entry.get("id"), entry) for entry in value_at(tree, ("agents", "list")) or []]


def _by_id(tree: Tree) -> list[tuple[str | None, Tree]]:
    return list((value_at(tree, ("agents", "entries")) or {}).items())


def _with_extra_paths(agent: Tree, defaults: Tree, own: Tree) -> Tree:
    """Append the agent's ``memorySearch.extraPaths`` to those of the defaults (spec/memory.md 1.2)."""
    place = ("memorySearch", "extraPaths")
    if not (has(defaults, place) and has(own, place)):
        return agent
    return dict(with_value(agent, place, [*value_at(defaults, place), *value_at(own, place)]))


def _count(keys: Sequence[Any], one: str, many: str) -> str:
    return f"1 key {one}" if len(keys) == 1 else f"{len(keys)} keys {many}"
