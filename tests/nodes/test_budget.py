from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nodes.budget import REFRESH, active_bytes, budget, compaction_is_due
from nodes.compaction.settings import effective_limits, flush_threshold_tokens
from nodes.state import Attempts, Section
from tests.builders import assistant, user
from tests.turn_home import TurnHome, make_home, scripted
from turngraph.inbound import Inbound

SYSTEM = (Section("Base", "You are an agent."),)


def run(home: TurnHome, **changes: Any) -> dict[str, Any]:
    return asyncio.run(budget(home.state(**changes), home.runtime))  # type: ignore[arg-type]


def test_a_short_session_fits_and_the_decision_has_the_numbers(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    home.say(user("hi"))
    update = run(home, system=SYSTEM)
    assert update["route"] == "fits"
    assert update["why"] == "about 9 tokens of 200000, compaction above 180000"
    data = update["decisions"][0].data
    assert {name: data[name] for name in ("system", "tools", "messages", "incoming")} == {
        "system": 5,
        "tools": 0,
        "messages": 1,
        "incoming": 1,
    }


def test_the_reported_usage_anchors_the_count_of_a_live_turn(tmp_path: Path) -> None:
    usage = {"input": 190_000, "output": 100, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 190_100}
    home = make_home(tmp_path)
    home.say(user("hi"), assistant("ok", usage=usage))
    assert run(home, attempts=Attempts(flush_tried=True))["route"] == "compact due"
    home.context.live = False
    assert run(home, attempts=Attempts(flush_tried=True))["route"] == "fits"


def test_after_a_failed_compaction_the_turn_goes_on(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(window=8_000))
    home.say(user("x" * 40_000))
    attempts = Attempts(flush_tried=True)
    assert run(home, attempts=attempts)["route"] == "compact due"
    assert run(home, attempts=attempts.bump(failed="no"))["route"] == "fits"
    assert run(home, attempts=attempts.bump(compactions=3))["route"] == "fits"


@pytest.mark.parametrize("kind", ["heartbeat", "cron", "flush", "subagent"])
def test_system_runs_have_no_flush(tmp_path: Path, kind: Any) -> None:
    home = make_home(tmp_path, model=scripted(window=8_000))
    home.say(user("x" * 40_000))
    assert run(home, inbound=Inbound(kind=kind))["route"] == "compact due"


def test_off_and_disabled(tmp_path: Path) -> None:
    for changes, expected in (({"mode": "off"}, "fits"), ({"enabled": False}, "fits")):
        home = make_home(tmp_path / str(changes), model=scripted(window=8_000), settings={"compaction": changes})
        home.say(user("x" * 40_000))
        assert run(home, attempts=Attempts(flush_tried=True))["route"] == expected


def test_a_large_active_transcript_is_flushed_and_compacted(tmp_path: Path) -> None:
    settings = {"compaction": {"max_active_transcript_bytes": 1_000}}
    home = make_home(tmp_path, settings=settings)
    home.say(user("x" * 2_000))
    assert active_bytes(home.context, 0) == len(home.transcript.path.read_bytes().splitlines(keepends=True)[-1])
    assert run(home)["route"] == "flush due"
    assert run(home, attempts=Attempts(flush_tried=True))["route"] == "compact due"


def test_the_size_since_the_last_compaction_forces_a_flush(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    flush = home.context.settings.compaction.memory_flush.model_copy(update={"force_flush_transcript_bytes": 1_000})
    settings = home.context.settings
    compaction = settings.compaction.model_copy(update={"memory_flush": flush})
    home.context.settings = settings.model_copy(update={"compaction": compaction})
    ids = home.say(user("x" * 2_000), user("y"))
    assert run(home)["route"] == "flush due"
    home.transcript.append_compaction("S", ids[1], 9)
    assert run(home)["route"] == "fits"


def test_the_command_compacts_at_once(tmp_path: Path) -> None:
    assert run(make_home(tmp_path), command="compact")["route"] == "compact due"


def test_workspace_rules_come_back_for_the_turn_after_a_compaction(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    agents_md = "## Session Startup\nread memory/YYYY-MM-DD.md\n## Red Lines\nnever push\n"
    (home.context.workspace / "AGENTS.md").write_text(agents_md, encoding="utf-8")
    ids = home.say(user("a"), user("b"))
    home.transcript.append_compaction("S", ids[1], 9)
    home.transcript.append_custom("openclaw.cache-ttl", {})
    update = run(home, system=SYSTEM)
    section = update["system"][-1]
    assert update["system"][:1] == SYSTEM and section.name == REFRESH and not section.stable
    assert section.text.startswith("[Post-compaction context refresh]")
    assert section.text.endswith("## Session Startup\nread memory/2026-03-16.md\n\n## Red Lines\nnever push")
    assert update["decisions"][0].what == "injected"
    assert "system" not in run(home, system=update["system"])
    home.say(user("c"))
    assert "system" not in run(home, system=SYSTEM)


def test_an_empty_list_of_sections_switches_the_refresh_off(tmp_path: Path) -> None:
    home = make_home(tmp_path, settings={"compaction": {"post_compaction_sections": ()}})
    (home.context.workspace / "AGENTS.md").write_text("## Red Lines\nx\n", encoding="utf-8")
    home.transcript.append_compaction("S", home.say(user("a"))[0], 9)
    assert "system" not in run(home, system=SYSTEM)


@pytest.mark.parametrize("window", [8_000, 16_000, 24_000, 32_768, 200_000])
def test_every_window_from_8k_has_room_for_flush_and_compaction(window: int) -> None:
    limits = effective_limits(
        window_tokens=window,
        reserve_tokens=16_384,
        reserve_tokens_floor=20_000,
        keep_recent_tokens=20_000,
        recent_turns_preserve=3,
    )
    assert limits.reserve_tokens <= window // 4
    assert limits.keep_tokens + limits.summary_tokens < limits.threshold_tokens
    assert 0 < flush_threshold_tokens(window, limits.reserve_tokens, 4_000) < limits.threshold_tokens


def test_an_unknown_window_is_never_compacted() -> None:
    assert not compaction_is_due(10**9, 0, 0)
