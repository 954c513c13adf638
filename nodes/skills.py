"""skills: name the skills of the workspace in the prompt; the model reads the one that fits.

Source: spec/tools.md section 9, design decision 15.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nodes.state import Section
from stores.skill_files import SKILL_FILE, SKILLS_FOLDER, SkillFile
from turngraph.decisions import Decision, Origin
from turngraph.text import head
from turngraph.untrusted import prompt_literal

NODE = "load_bootstrap"
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1024
SHORT_DESCRIPTION_CHARS = 100
_INTRODUCTION = (
    "## Skills\n"
    "Before you act, look for the one skill below that fits the task. If one does, read its file with `read` first and "
    "follow it; take at most one. If none fits, read none."
)
_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill as the prompt names it.

    Attributes:
        name, description: cleaned and cut to their limits.
        folder: under ``skills``.
        lines: of the file that name and description come from, from 1.
    """

    name: str
    description: str
    folder: str
    lines: tuple[int, int]

    @property
    def path(self) -> str:
        """Path of its file, relative to the workspace."""
        return f"{SKILLS_FOLDER}/{self.folder}/{SKILL_FILE}"

    @property
    def line(self) -> str:
        """Its line in the prompt."""
        return f"- {self.name}: {self.description} ({prompt_literal(self.path)})"


@dataclass(frozen=True, slots=True)
class SkillsPrompt:
    """The sections that name the skills: an introduction, then one for each skill; empty when there is none."""

    sections: tuple[Section, ...]
    decisions: tuple[Decision, ...] = ()


class BadSkill(ValueError):
    """A SKILL.md file that cannot be used; the text says why."""


def skills_prompt(files: Sequence[SkillFile], max_chars: int, *, can_read: bool = True) -> SkillsPrompt:
    """Choose and name the skills.

    Args:
        files: the files in the order of their folders.
        max_chars: size of all lines together; 0 names none.
        can_read: whether ``read`` is offered; without it no skill is named.
    """
    if not files or not can_read or max_chars <= 0:
        return SkillsPrompt(())
    skills, left_out = _usable(files)
    named, more, cuts = _fitted(skills, max_chars)
    if not named and not more:
        return SkillsPrompt((), left_out)
    sections = [Section("Skills", _INTRODUCTION)]
    for skill in named:
        origin = Origin("skill", path=skill.path, lines=skill.lines, name=skill.name)
        sections.append(Section(skill.name, skill.line, "skill", origin))
    if more:
        sections.append(Section("Skills left out", more, "skill", Origin("skill", name="left out")))
    return SkillsPrompt(tuple(sections), (*left_out, *cuts))


def read_skill(folder: str, text: str) -> Skill | None:
    """Read name and description of a SKILL.md file; ``None`` when the skill is not for the model to choose.

    Raises:
        BadSkill: the front matter is broken, or there is nothing to describe the skill with.
    """
    match = _FRONT_MATTER.match(text)
    fields = _front_matter(match[1]) if match else {}
    if str(fields.get("disable-model-invocation", "")).strip().lower() == "true":
        return None
    last = text[: match.end()].count("\n") if match else 0
    name = _clean(_field(fields, "name") or folder, MAX_NAME_CHARS)
    description = _field(fields, "description")
    if not description:
        description, last = _first_text(text, last)
    description = _clean(description, MAX_DESCRIPTION_CHARS)
    if not name or not description:
        raise BadSkill("it has no description and no text")
    return Skill(name, description, folder, (1, max(1, last)))


def _usable(files: Sequence[SkillFile]) -> tuple[list[Skill], tuple[Decision, ...]]:
    skills: dict[str, Skill] = {}
    decisions = []
    for file in files:
        path = f"{SKILLS_FOLDER}/{file.folder}/{SKILL_FILE}"
        try:
            if file.text is None:
                raise BadSkill(file.fault or "it cannot be read")
            skill = read_skill(file.folder, file.text)
        except BadSkill as fault:
            decisions.append(Decision(NODE, "skipped", f"skill left out: {fault}", path=path))
            continue
        if skill is None:
            continue
        first = skills.setdefault(skill.name, skill)
        if first is not skill:
            why = f"skill left out: {first.path} already has the name {skill.name}"
            decisions.append(Decision(NODE, "skipped", why, path=path))
    return [skills[name] for name in sorted(skills)], tuple(decisions)


def _fitted(skills: Sequence[Skill], max_chars: int) -> tuple[list[Skill], str, list[Decision]]:
    """Shorten descriptions, then leave lines out from the end, until all lines together fit."""
    size = _chars(skills)
    if size <= max_chars:
        return list(skills), "", []
    short = [replace(skill, description=head(skill.description, SHORT_DESCRIPTION_CHARS)) for skill in skills]
    why = f"skill lines have {size} characters, limit {max_chars}: descriptions cut to {SHORT_DESCRIPTION_CHARS}"
    decisions = [Decision(NODE, "trimmed", why, chars_before=size, chars_after=_chars(short))]
    kept, more = list(short), ""
    while kept and _chars(kept) + len(more) + bool(more) > max_chars:
        kept.pop()
        more = f"- ...and {len(short) - len(kept)} more in {SKILLS_FOLDER}/"
    if more:
        why = f"skill lines have {_chars(short)} characters, limit {max_chars}: {len(short) - len(kept)} left out"
        decisions.append(Decision(NODE, "dropped", why, count_before=len(short), count_after=len(kept)))
    return kept, more, decisions


def _chars(skills: Sequence[Skill]) -> int:
    return sum(len(skill.line) + 1 for skill in skills) - bool(skills)


def _front_matter(text: str) -> dict[str, Any]:
    import yaml

    try:
        # Every scalar stays text: a name like 2026-03-01 or "on" must not become a date or a boolean.
        fields = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        raise BadSkill(f"its front matter is not YAML{where}; put texts with a colon in quotes") from error
    if fields is None or fields == "":
        return {}
    if not isinstance(fields, dict):
        raise BadSkill("its front matter is no list of fields")
    return fields


def _field(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value.strip() if isinstance(value, str) else ""


def _first_text(text: str, skipped_lines: int) -> tuple[str, int]:
    for number, line in enumerate(text.split("\n")[skipped_lines:], skipped_lines + 1):
        if line.strip() and not line.lstrip().startswith("#"):
            return line.strip(), number
    return "", skipped_lines


def _clean(text: str, limit: int) -> str:
    return head(prompt_literal(" ".join(text.split())), limit).strip()
