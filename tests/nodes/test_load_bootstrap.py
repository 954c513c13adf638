"""The node that reads the workspace and builds the system prompt (spec/context.md 2.3, known-faults 9 and 13.1)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.load_bootstrap import load_bootstrap, run_set
from nodes.state import SessionFacts, TurnContext
from nodes.system_prompt import system_text
from stores.home import Home
from stores.workspace import snapshots
from turngraph.bootstrap_files import BootstrapFile
from turngraph.clock import DerivedIds, FixedClock
from turngraph.config import AgentSettings, default_settings
from turngraph.hook_calls import Handler
from turngraph.hooks import Hooks
from turngraph.inbound import Inbound
from turngraph.models.model import ModelFacts, ToolSpec
from turngraph.tokens import EstimateCounter

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def a_context(home: Path, *, live: bool = True, hooks: Hooks | None = None, **settings: Any) -> TurnContext:
    chosen = AgentSettings.model_validate(settings) if settings else default_settings()
    return TurnContext(
        home=Home(home),
        agent_id="main",
        settings=chosen,
        clock=FixedClock(NOON),
        ids=DerivedIds("test"),
        counter=EstimateCounter(),
        model=SimpleNamespace(facts=ModelFacts("offline", "recall")),
        sessions=None,  # type: ignore[arg-type]
        media=None,  # type: ignore[arg-type]
        hooks=hooks or Hooks.empty(),
        live=live,
    )


async def run(context: TurnContext, key: str = "agent:main:main", kind: Any = "user", **facts: Any) -> dict[str, Any]:
    session = SessionFacts(key, facts.pop("session_id", "s1"), Path("s1.jsonl"), {}, **facts)
    state = {"session": session, "inbound": Inbound("hi", kind=kind)}
    return await load_bootstrap(state, SimpleNamespace(context=context))  # type: ignore[arg-type]


def files_in(result: dict[str, Any]) -> list[str]:
    return [section.name for section in result["system"] if section.kind == "bootstrap file"]


def write(home: Path, **files: str) -> None:
    for name, text in files.items():
        path = home / "workspace" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


async def test_a_new_workspace_is_created_once_and_said_so(tmp_path: Path) -> None:
    first = await run(a_context(tmp_path))
    again = await run(a_context(tmp_path))
    assert files_in(first) == [
        "AGENTS.md",
        "SOUL.md",
        "TOOLS.md",
        "IDENTITY.md",
        "USER.md",
        "HEARTBEAT.md",
        "BOOTSTRAP.md",
    ]
    assert [d.what for d in first["decisions"]].count("written") == 7
    assert "written" not in [d.what for d in again["decisions"]]


async def test_a_replay_only_reads(tmp_path: Path) -> None:
    result = await run(a_context(tmp_path, live=False))
    assert list(tmp_path.iterdir()) == []
    text, _ = system_text(result["system"])
    assert "[MISSING] Expected at: AGENTS.md" in text
    assert str(tmp_path) not in text


async def test_the_prompt_is_byte_equal_a_minute_later(tmp_path: Path) -> None:
    # known-faults 9.3
    context = a_context(tmp_path)
    await run(context)
    first = system_text((await run(context))["system"])
    context.clock.at = datetime(2026, 3, 2, 13, 1, tzinfo=UTC)  # type: ignore[attr-defined]
    assert system_text((await run(context))["system"]) == first


async def test_a_running_session_keeps_its_files_until_it_is_refreshed(tmp_path: Path) -> None:
    context = a_context(tmp_path)
    write(tmp_path, SOUL="old soul")
    assert "old soul" in system_text((await run(context))["system"])[0]
    write(tmp_path, SOUL="new soul")
    assert "old soul" in system_text((await run(context))["system"])[0]
    assert "new soul" in system_text((await run(context, session_id="s2"))["system"])[0]
    write(tmp_path, SOUL="newest soul")
    snapshots.refresh(context.workspace)
    assert "newest soul" in system_text((await run(context, session_id="s2"))["system"])[0]


@pytest.mark.parametrize(
    ("key", "chat", "has_memory"),
    [
        ("agent:main:main", "direct", True),
        ("agent:main:telegram:direct:7", "direct", True),
        ("agent:main:telegram:group:-1", "group", False),
        ("agent:main:discord:channel:9", "channel", False),
        ("agent:main:shared", "group", False),
        ("agent:main:cron:job", "direct", False),
        ("agent:main:subagent:x", "direct", False),
    ],
)
async def test_private_memory_reaches_direct_chats_only(tmp_path: Path, key: str, chat: Any, has_memory: bool) -> None:
    # known-faults 13.1 and 9.2
    write(tmp_path, MEMORY="Birthday: 1 March")
    result = await run(a_context(tmp_path), key, chat_type=chat)
    text, _ = system_text(result["system"])
    assert ("Birthday" in text) is has_memory
    left_out = [d.path for d in result["decisions"] if d.what == "skipped"]
    assert ("MEMORY.md" in left_out) is not has_memory


async def test_a_lower_case_memory_file_is_private_too(tmp_path: Path) -> None:
    write(tmp_path, memory="Birthday: 1 March")
    assert "memory.md" in files_in(await run(a_context(tmp_path)))
    assert "memory.md" not in files_in(
        await run(a_context(tmp_path), "agent:main:telegram:group:-1", chat_type="group")
    )


async def test_jobs_and_helpers_get_the_minimal_set(tmp_path: Path) -> None:
    # known-faults 9.2
    for key in ("agent:main:cron:j", "agent:main:subagent:x"):
        assert files_in(await run(a_context(tmp_path), key)) == [
            "AGENTS.md",
            "SOUL.md",
            "TOOLS.md",
            "IDENTITY.md",
            "USER.md",
        ]


async def test_the_set_of_a_kind_can_be_configured_and_empty(tmp_path: Path) -> None:
    sets = {"cron": [], "direct": ["SOUL.md"]}
    assert files_in(await run(a_context(tmp_path, bootstrapSets=sets), "agent:main:cron:j")) == []
    assert files_in(await run(a_context(tmp_path, bootstrapSets=sets))) == ["SOUL.md"]


async def test_a_light_heartbeat_gets_its_own_file_only(tmp_path: Path) -> None:
    context = a_context(tmp_path, heartbeat={"lightContext": True})
    assert files_in(await run(context, kind="heartbeat")) == ["HEARTBEAT.md"]
    assert len(files_in(await run(context))) == 7


async def test_a_refused_file_says_why_in_the_prompt(tmp_path: Path) -> None:
    write(tmp_path, SOUL="x")
    outside = tmp_path / "outside.md"
    outside.write_text("secret", encoding="utf-8")
    (tmp_path / "workspace" / "USER.md").symlink_to(outside)
    text, _ = system_text((await run(a_context(tmp_path)))["system"])
    assert "[UNREADABLE: the path leads out of its folder]" in text
    assert "secret" not in text


async def test_a_vanished_workspace_is_reported_and_not_seeded_again(tmp_path: Path) -> None:
    state = tmp_path / "workspace" / ".openclaw" / "workspace-state.json"
    state.parent.mkdir(parents=True)
    state.write_text('{"version": 1, "setupCompletedAt": "2026-01-01T00:00:00.000Z"}', encoding="utf-8")
    result = await run(a_context(tmp_path))
    assert next(d.why for d in result["decisions"] if d.what == "warned").startswith("the setup of the workspace")
    assert sorted(path.name for path in (tmp_path / "workspace").iterdir()) == [".openclaw"]


async def test_a_workspace_that_cannot_be_written_does_not_end_the_turn(tmp_path: Path) -> None:
    (tmp_path / "workspace").write_text("a file in its place", encoding="utf-8")
    result = await run(a_context(tmp_path))
    assert "cannot be prepared: File exists" in next(d.why for d in result["decisions"] if d.what == "failed")
    assert "[MISSING] Expected at: AGENTS.md" in system_text(result["system"])[0]


async def test_recent_notes_are_offered_on_a_bare_reset_of_a_direct_chat_only(tmp_path: Path) -> None:
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "2026-03-01.md").write_text("met Ada", encoding="utf-8")
    (notes / "2026-02-28-plans.md").write_text("plan the trip", encoding="utf-8")
    (notes / "2026-02-27.md").write_text("too old", encoding="utf-8")
    context = a_context(tmp_path)
    bare = await run(context, bare_reset=True, reset_reason="new", is_new=True)
    assert [note.origin.path for note in bare["notes"]] == ["memory/2026-03-01.md", "memory/2026-02-28-plans.md"]
    assert (await run(context, reset_reason="new"))["notes"] == ()
    group = await run(context, "agent:main:telegram:group:-1", chat_type="group", bare_reset=True, reset_reason="new")
    assert group["notes"] == ()


async def test_extra_files_are_read_where_the_settings_ask_for_them(tmp_path: Path) -> None:
    extra = tmp_path / "workspace" / "packages" / "core" / "AGENTS.md"
    extra.parent.mkdir(parents=True)
    extra.write_text("core rules", encoding="utf-8")
    context = a_context(tmp_path)
    asked = context.settings.root.model_validate(
        {"hooks": {"internal": {"entries": {"bootstrap-extra-files": {"enabled": True, "paths": ["packages/*/*.md"]}}}}}
    )
    context.settings = context.settings.model_copy(update={"root": asked})
    result = await run(context)
    assert files_in(result)[-1] == "packages/core/AGENTS.md"


async def test_a_plugin_may_replace_the_files(tmp_path: Path) -> None:
    def swap(files: Any) -> list[BootstrapFile]:
        return [BootstrapFile("SOUL.md", "SOUL.md", "from a plugin"), BootstrapFile("USER.md", " ", "no path")]

    hooks = Hooks({"bootstrap_files": [Handler("swapper", swap, ("files",))]})
    result = await run(a_context(tmp_path, hooks=hooks))
    assert files_in(result) == ["SOUL.md"]
    assert "USER.md left out: it has no path" in [d.why for d in result["decisions"]]


async def test_the_report_lists_raw_and_injected_sizes(tmp_path: Path) -> None:
    write(tmp_path, MEMORY="m" * 14_296)
    result = await run(a_context(tmp_path, bootstrapMaxChars=12_000))
    sizes = {item["path"]: item for item in result["decisions"][-1].data["files"]}
    assert sizes["MEMORY.md"]["raw"] == 14_296
    assert sizes["MEMORY.md"]["injected"] <= 12_000
    assert "Cut Files" in [section.name for section in result["system"]]
    off = await run(a_context(tmp_path, bootstrapMaxChars=12_000, bootstrapPromptTruncationWarning="off"))
    assert "Cut Files" not in [section.name for section in off["system"]]


async def test_skills_are_named_where_they_can_be_read(tmp_path: Path) -> None:
    skill = tmp_path / "workspace" / "skills" / "trip" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: trip\ndescription: Plan a trip.\n---\n", encoding="utf-8")
    context = a_context(tmp_path)
    assert "Skills" not in [section.name for section in (await run(context))["system"]]
    context.tools = (SimpleNamespace(spec=ToolSpec("read", "Read a file.", {})),)
    text, stable = system_text((await run(context))["system"])
    assert "\n- trip: Plan a trip. (skills/trip/SKILL.md)" in text[:stable]


def test_a_group_by_key_or_by_facts_is_a_group() -> None:
    assert run_set("agent:main:telegram:group:1", "direct") == "group"
    assert run_set("agent:main:main", "channel") == "channel"
    assert run_set(None) == "direct"
