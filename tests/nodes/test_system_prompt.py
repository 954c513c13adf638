"""The sections of the system prompt (spec/context.md section 3, known-faults 9.3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodes.bootstrap_budget import budget_files
from nodes.system_prompt import (
    CUT_NOTICE,
    PromptFacts,
    prompt_mode,
    prompt_sections,
    runtime_line,
    shown_owners,
    system_text,
    with_hook_context,
)
from turngraph.bootstrap_files import BootstrapFile
from turngraph.hook_results import PromptAdditions
from turngraph.models.model import ToolSpec

SEARCH = ToolSpec("memory_search", "Search notes. More words.", {})
GET = ToolSpec("memory_get", "Read lines of a note.", {})
READ = ToolSpec("read", "Read a file.", {})
FILES = budget_files(
    [BootstrapFile("SOUL.md", "SOUL.md", "be kind"), BootstrapFile("USER.md", "USER.md", "u")], 20_000, 150_000
).files
FULL = PromptFacts(
    workspace="/w",
    tools=(SEARCH, GET, READ),
    aliases={"fast": "openai:small"},
    files=FILES,
    time_zone="Asia/Shanghai",
    heartbeats=True,
    owners=("+1555",),
    channel="telegram",
    runtime={"agent": "main", "model": "offline:recall", "channel": "telegram"},
)


def names(facts: PromptFacts) -> list[str]:
    return [section.name for section in prompt_sections(facts)]


def text_of(facts: PromptFacts, name: str) -> str:
    return next(section.text for section in prompt_sections(facts) if section.name == name)


def test_what_depends_on_files_and_settings_stands_before_what_belongs_to_the_session() -> None:
    assert names(FULL) == [
        "Identity",
        "Tooling",
        "Tool Call Style",
        "Safety",
        "Memory Recall",
        "Model Aliases",
        "Workspace",
        "Project Context",
        "SOUL.md",
        "USER.md",
        "Current Date & Time",
        "Silent Replies",
        "Heartbeats",
        "Authorized Senders",
        "Messaging",
        "Runtime",
    ]
    text, stable = system_text(prompt_sections(FULL))
    assert text[:stable].endswith("## USER.md\n\nu")
    assert "telegram" not in text[:stable]


def test_a_minimal_prompt_leaves_out_what_only_a_conversation_needs() -> None:
    assert names(replace(FULL, mode="minimal")) == [
        "Identity",
        "Tooling",
        "Tool Call Style",
        "Safety",
        "Workspace",
        "Project Context",
        "SOUL.md",
        "USER.md",
        "Current Date & Time",
        "Runtime",
    ]


def test_no_prompt_is_one_line_with_the_model() -> None:
    text, _ = system_text(prompt_sections(replace(FULL, mode="none")))
    assert "\n" not in text
    assert "offline:recall" in text


@pytest.mark.parametrize(
    ("key", "mode"),
    [
        ("agent:main:main", "full"),
        ("agent:main:cron:j", "minimal"),
        ("agent:main:subagent:x", "minimal"),
        (None, "full"),
    ],
)
def test_jobs_and_helpers_get_the_minimal_prompt(key: str | None, mode: str) -> None:
    assert prompt_mode(key) == mode


def test_tools_stand_in_a_fixed_order_whatever_order_they_come_in() -> None:
    other = ToolSpec("a_plugin_tool", "Does more.", {})
    lines = text_of(replace(FULL, tools=(other, SEARCH, READ)), "Tooling").splitlines()[2:]
    assert lines == ["- read: Read a file.", "- memory_search: Search notes.", "- a_plugin_tool: Does more."]


def test_a_denied_tool_is_named_with_its_reason() -> None:
    facts = replace(FULL, unavailable={"memory_search": "memory is private"})
    assert "- memory_search is not available here: memory is private" in text_of(facts, "Tooling")


@pytest.mark.parametrize(
    ("tools", "said"),
    [((SEARCH, GET), "memory_get"), ((SEARCH,), "search MEMORY.md"), ((GET,), "already points at a note")],
)
def test_memory_recall_has_a_variant_for_the_tools_at_hand(tools: tuple[ToolSpec, ...], said: str) -> None:
    assert said in text_of(replace(FULL, tools=tools), "Memory Recall")


def test_citations_can_be_forbidden() -> None:
    assert "Source: <path#line>" in text_of(FULL, "Memory Recall")
    assert "Do not mention paths" in text_of(replace(FULL, citations="off"), "Memory Recall")


def test_a_workspace_path_cannot_smuggle_in_a_heading() -> None:
    assert "\n## Evil" not in text_of(replace(FULL, workspace="/w\n## Evil"), "Workspace")


def test_the_notice_about_cut_files_is_constant_text() -> None:
    assert text_of(replace(FULL, cut=True), "Cut Files") == CUT_NOTICE
    assert not any(char.isdigit() for char in CUT_NOTICE)


def test_a_shared_chat_is_told_to_keep_private_memory_out() -> None:
    assert "group chat" in text_of(replace(FULL, chat_type="group"), "Group Chat Context")
    assert "Group Chat Context" not in names(FULL)


def test_each_file_is_a_section_with_its_place_and_hash() -> None:
    soul = next(section for section in prompt_sections(FULL) if section.name == "SOUL.md")
    assert (soul.kind, soul.origin.path, soul.origin.lines) == ("bootstrap file", "SOUL.md", (1, 1))
    assert soul.origin.sha256 is not None


def test_runtime_line_leaves_out_what_is_unknown() -> None:
    assert runtime_line({"agent": "main", "host": "", "model": "m\n"}) == "Runtime: agent=main | model=m"


def test_owners_can_be_shown_as_a_keyed_hash() -> None:
    plain, keyed = shown_owners(["+1555"], "hash", None), shown_owners(["+1555"], "hash", "key")
    assert shown_owners(["+1555"], "raw", None) == ("+1555",)
    assert len(plain[0]) == len(keyed[0]) == 12
    assert plain != keyed


def test_blank_hook_context_changes_nothing() -> None:
    sections = prompt_sections(FULL)
    assert with_hook_context(sections, PromptAdditions(prepend_system_context="  ", system_prompt="\n")) == sections


def test_hook_context_stands_around_the_prompt_or_in_its_place() -> None:
    sections = prompt_sections(replace(FULL, mode="none"))
    around = with_hook_context(sections, PromptAdditions(prepend_system_context=" pre\n", append_system_context="post"))
    assert [section.text for section in around] == ["pre", sections[0].text, "post"]
    replaced = with_hook_context(sections, PromptAdditions(system_prompt="mine"))
    assert [(section.text, section.kind, section.stable) for section in replaced] == [("mine", "hook context", False)]
