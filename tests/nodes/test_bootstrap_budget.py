"""Fitting bootstrap files into their limits (spec/context.md 2.4, 2.6; known-faults 9.1)."""

from __future__ import annotations

import regex
from hypothesis import given
from hypothesis import strategies as st

from nodes.bootstrap_budget import budget_files, clamp, rule_digest, trim_file
from turngraph.bootstrap_files import BootstrapFile

SCRIPTS = ["ab c\n", "日本語の文。", "👩‍👩‍👧", "مرحبا ", "é̂", "- must not\n", "\r\n"]
TEXTS = st.lists(st.sampled_from(SCRIPTS), max_size=200).map("".join)


def file(name: str, content: str | None) -> BootstrapFile:
    return BootstrapFile(name, name, content)


def test_a_memory_file_over_its_limit_says_so_and_how_much_is_kept() -> None:
    # known-faults 9.1
    budgeted = budget_files([file("MEMORY.md", "x" * 14_296)], 12_000, 150_000)
    injected = budgeted.files[0]
    assert len(injected.text) <= 12_000
    assert "read MEMORY.md for full content" in injected.text
    assert "of 14296)" in injected.text
    assert [(d.what, d.path, d.chars_before, d.chars_after) for d in budgeted.decisions] == [
        ("truncated", "MEMORY.md", 14_296, len(injected.text))
    ]


def test_user_file_has_a_limit_of_its_own() -> None:
    budgeted = budget_files([file("USER.md", "u" * 5_000), file("SOUL.md", "s" * 5_000)], 20_000, 150_000)
    assert [len(injected.text) <= 4_000 for injected in budgeted.files] == [True, False]


def test_a_missing_file_is_named_with_its_path() -> None:
    assert budget_files([file("SOUL.md", None)], 100, 1_000).files[0].text == "[MISSING] Expected at: SOUL.md"


def test_files_without_budget_are_left_out_each_with_a_decision() -> None:
    files = [file("AGENTS.md", "a" * 90), file("SOUL.md", "s" * 50), file("USER.md", "u" * 9)]
    budgeted = budget_files(files, 100, 100)
    assert [injected.file.name for injected in budgeted.files] == ["AGENTS.md"]
    assert [injected.file.name for injected in budgeted.left_out] == ["SOUL.md", "USER.md"]
    assert [d.what for d in budgeted.decisions] == ["skipped", "skipped"]
    assert budgeted.truncated


def test_a_cut_by_the_total_says_that_the_total_was_the_cause() -> None:
    budgeted = budget_files([file("AGENTS.md", "a" * 900), file("SOUL.md", "s" * 900)], 900, 1_000)
    assert [injected.causes for injected in budgeted.files] == [(), ("total-limit",)]
    assert budgeted.near_total


def test_rules_in_the_middle_of_agents_md_survive_the_cut() -> None:
    text = "\n".join(["prose"] * 400 + ["- You must ask first", "- 必须先询问", "plain"] + ["prose"] * 400)
    trimmed = trim_file(text, "AGENTS.md", 800).text
    assert "[Policy digest from AGENTS.md]" in trimmed
    assert "- You must ask first" in trimmed
    assert "- 必须先询问" in trimmed


def test_binding_rules_are_chosen_before_others_and_stand_in_file_order() -> None:
    text = "# Heading\n- a list item\n\nSecrets stay secret\n"
    assert rule_digest(text, 30) == ("# Heading\nSecrets stay secret", 1)
    assert rule_digest(text, 20) == ("Secrets stay secret", 2)


def test_simplified_chinese_rule_words_count_as_rules() -> None:
    for rule in ("提交前必须运行", "务必备份", "严禁外传", "绝不删除", "这是红线"):
        assert rule_digest(f"普通一行\n\n{rule}\n", 200) == (rule, 0)


def test_a_rule_keeps_the_line_above_it() -> None:
    # "for example" in front of a rule turns its meaning around
    assert rule_digest("A bad example:\nYou must delete all\n", 200)[0] == "A bad example:\nYou must delete all"


def test_clamp_shows_that_it_cut() -> None:
    assert [clamp("abcdef", n) for n in (6, 5, 3, 0)] == ["abcdef", "abcd…", "abc", ""]


@given(TEXTS, st.sampled_from(["AGENTS.md", "SOUL.md"]), st.integers(1, 600))
def test_a_trimmed_file_is_never_longer_than_its_limit_and_splits_no_character(
    text: str, name: str, limit: int
) -> None:
    trimmed = trim_file(text, name, limit)
    assert len(trimmed.text) <= limit
    if not trimmed.truncated:
        assert text.startswith(trimmed.text)
    whole = set(regex.findall(r"\X", text))
    first = regex.match(r"\X", trimmed.text)
    assert first is None or not text or first[0] in whole or first[0] in "[…"


@given(st.lists(TEXTS, max_size=6), st.integers(1, 300), st.integers(1, 900))
def test_all_files_together_stay_within_the_total(texts: list[str], max_chars: int, total: int) -> None:
    files = [BootstrapFile("SOUL.md", f"{index}/SOUL.md", text) for index, text in enumerate(texts)]
    budgeted = budget_files(files, max_chars, total)
    assert budgeted.injected_chars <= total
    kept = [injected.file for injected in budgeted.files]
    left_out = [injected.file for injected in budgeted.left_out]
    assert kept == [f for f in files if f not in left_out]
    assert left_out == [f for f in files if f not in kept]
