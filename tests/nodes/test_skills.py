"""Skills: which are named in the prompt, how, and what is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.skills import BadSkill, read_skill, skills_prompt
from stores.skill_files import MAX_SKILL_BYTES, SkillFile, read_skill_files

PLAIN = "---\nname: pdf\ndescription: Fill in PDF forms.\n---\n# PDF\n\nUse pdftk.\n"


def lines(files: list[SkillFile], max_chars: int = 30_000) -> list[str]:
    return [section.text for section in skills_prompt(files, max_chars).sections[1:]]


def numbered(count: int, description: str) -> list[SkillFile]:
    return [SkillFile(f"s{n:02}", f"---\nname: skill-{n:02}\ndescription: {description}\n---\n") for n in range(count)]


def test_a_skill_has_one_line_with_its_file() -> None:
    prompt = skills_prompt([SkillFile("pdf-forms", PLAIN)], 30_000)
    introduction, section = prompt.sections
    assert introduction.text.startswith("## Skills\n")
    assert section.text == "- pdf: Fill in PDF forms. (skills/pdf-forms/SKILL.md)"
    assert (section.kind, section.origin.path, section.origin.lines) == ("skill", "skills/pdf-forms/SKILL.md", (1, 4))
    assert prompt.decisions == ()


@pytest.mark.parametrize(
    ("text", "name", "description", "last_line"),
    [
        ("---\nname: 'a'\ndescription: \"b: c\"\n---\n", "a", "b: c", 4),
        ("---\ndescription: >\n  folded\n  text\n---\n", "folder", "folded text", 5),
        ("---\nname: 2026-03-01\ndescription: on\n---\n", "2026-03-01", "on", 4),
        ("# Title\n\n## Sub\nFirst words.\nMore.", "folder", "First words.", 4),
        ("---\nname: x\n---\n# T\r\n日本語の説明\r\n", "x", "日本語の説明", 5),
        ("\ufeff---\r\nname: x\r\ndescription: y\r\n---\r\n", "x", "y", 4),
        ("---\nmetadata:\n  name: inner\n  description: inner\n---\nText.", "folder", "Text.", 6),
        ("---\nname:\ndescription: [a]\n---\nText.", "folder", "Text.", 5),
        ("---\n---\nText.", "folder", "Text.", 3),
        ("----\nText.", "folder", "----", 1),
    ],
)
def test_front_matter_and_its_absence(text: str, name: str, description: str, last_line: int) -> None:
    skill = read_skill("folder", text)
    assert skill is not None
    assert (skill.name, skill.description, skill.lines) == (name, description, (1, last_line))


def test_a_skill_that_the_model_may_not_choose_is_left_out() -> None:
    assert lines([SkillFile("a", "---\nname: a\ndescription: b\ndisable-model-invocation: True\n---\n")]) == []


@pytest.mark.parametrize(
    "text", ["---\nname: a\ndescription: b: c\n---\n", "---\n- a\n---\n", "---\nname: [\n---\n", ""]
)
def test_bad_front_matter_is_a_decision_with_the_path(text: str) -> None:
    with pytest.raises(BadSkill):
        read_skill("a", text)
    prompt = skills_prompt([SkillFile("a", text), SkillFile("pdf", PLAIN)], 30_000)
    assert len(prompt.sections) == 2
    assert [(decision.what, decision.path) for decision in prompt.decisions] == [("skipped", "skills/a/SKILL.md")]


def test_of_two_skills_with_one_name_the_second_is_left_out() -> None:
    prompt = skills_prompt([SkillFile("a", PLAIN), SkillFile("b", PLAIN)], 30_000)
    assert [section.origin.path for section in prompt.sections[1:]] == ["skills/a/SKILL.md"]
    assert prompt.decisions[0].path == "skills/b/SKILL.md"


def test_lines_are_in_the_order_of_names() -> None:
    files = [SkillFile("1", "---\nname: zebra\n---\nz"), SkillFile("2", "---\nname: ant\n---\na")]
    assert [line[:5] for line in lines(files)] == ["- ant", "- zeb"]


def test_names_and_descriptions_lose_control_characters_and_are_cut() -> None:
    text = f'---\nname: "{"n" * 100}"\ndescription: "a\\u0007b\\n{"語" * 2000}"\n---\n'
    (line,) = lines([SkillFile("x", text)])
    assert line.startswith(f"- {'n' * 64}: ab 語")
    assert len(line) == 2 + 64 + 2 + 1024 + len(" (skills/x/SKILL.md)")


def test_too_many_lines_are_shortened_first_and_then_left_out_at_the_end() -> None:
    files = numbered(10, "x" * 300)
    shortened = skills_prompt(files, 2000)
    assert len(shortened.sections) == 11
    assert [decision.what for decision in shortened.decisions] == ["trimmed"]
    limited = skills_prompt(files, 600)
    assert limited.sections[-1].text == "- ...and 6 more in skills/"
    assert [decision.what for decision in limited.decisions] == ["trimmed", "dropped"]
    assert (limited.decisions[1].count_before, limited.decisions[1].count_after) == (10, 4)


@given(st.integers(0, 30), st.integers(0, 400), st.integers(0, 3000))
def test_all_lines_together_stay_within_the_limit(count: int, length: int, max_chars: int) -> None:
    found = lines(numbered(count, "x" * (length + 1)), max_chars)
    size = len("\n".join(found))
    assert size <= max_chars or found == [f"- ...and {count} more in skills/"]
    named = sum(line.startswith("- skill-") for line in found)
    assert found[-1:] == [f"- ...and {count - named} more in skills/"] or named in (count, 0)


def test_without_read_or_room_or_skills_there_is_no_section() -> None:
    assert skills_prompt([SkillFile("pdf", PLAIN)], 30_000, can_read=False).sections == ()
    assert skills_prompt([SkillFile("pdf", PLAIN)], 0).sections == ()
    assert skills_prompt([], 30_000).sections == ()


def test_files_are_read_under_guard(tmp_path: Path) -> None:
    skills = tmp_path / "w/skills"
    for folder in ("good", "hard", "large", "linked", "out"):
        (skills / folder).mkdir(parents=True)
    (skills / "line\nbreak").mkdir()
    (skills / "notes.txt").write_text("no folder")
    (skills / "empty").mkdir()
    (skills / "good/SKILL.md").write_text(PLAIN)
    (skills / "linked/SKILL.md").symlink_to("../good/SKILL.md")
    (tmp_path / "secret.md").write_text(PLAIN)
    (skills / "out/SKILL.md").symlink_to(tmp_path / "secret.md")
    os.link(tmp_path / "secret.md", skills / "hard/SKILL.md")
    (skills / "large/SKILL.md").write_bytes(b"x" * (MAX_SKILL_BYTES + 1))
    files = {file.folder: file for file in read_skill_files(tmp_path / "w")}
    assert "no plain text" in str(files.pop("line\nbreak").fault)
    assert sorted(files) == ["good", "hard", "large", "linked", "out"]
    assert [name for name, file in files.items() if file.text == PLAIN] == ["good", "linked"]
    assert "hard links" in str(files["hard"].fault)
    assert "256001 bytes" in str(files["large"].fault)
    assert "leads out" in str(files["out"].fault)
    assert read_skill_files(tmp_path / "none") == ()
