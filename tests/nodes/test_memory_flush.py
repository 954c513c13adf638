"""The flush on a real workspace; the cases of known-faults 6.1 to 6.5 stand here with their numbers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nodes.budget import budget
from nodes.compact import compact
from nodes.flush_prompts import PROMPT, SAFETY_RULES, flush_prompts, with_safety_rules
from nodes.memory_flush import memory_flush, newest_that_fit
from nodes.state import Attempts
from tests.builders import assistant, call, result, user
from tests.turn_home import TurnHome, make_home, scripted
from turngraph.errors import ModelError
from turngraph.inbound import Inbound
from turngraph.messages import Message
from turngraph.models.model import ModelRequest
from turngraph.summary_sections import build_sections
from turngraph.tokens import EstimateCounter

TODAY = "memory/2026-03-16.md"
GOOD = build_sections(asks="turn number")


def turns(count: int) -> list[Message]:
    return [m for i in range(count) for m in (user(f"turn number {i} " + "x" * 800), assistant("done " + "y" * 800))]


def write(content: str, path: str = TODAY) -> dict[str, Any]:
    return {"content": [call("w1", "write", path=path, content=content)]}


def run(home: TurnHome, **changes: Any) -> dict[str, Any]:
    return asyncio.run(memory_flush(home.state(**changes), home.runtime))  # type: ignore[arg-type]


def route(home: TurnHome, **changes: Any) -> str:
    return str(asyncio.run(budget(home.state(**changes), home.runtime))["route"])  # type: ignore[arg-type]


def note(home: TurnHome) -> str:
    return (home.context.workspace / TODAY).read_text(encoding="utf-8")


def prepare_note(home: TurnHome, text: str) -> None:
    path = home.context.workspace / TODAY
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_in_a_flush_writing_means_appending(tmp_path: Path) -> None:
    """known-faults 6.1."""
    held = "".join(f"line {i}\n" for i in range(12))
    home = make_home(tmp_path, model=scripted([write("a\nb\nc\n"), "NO_REPLY"]))
    prepare_note(home, held)
    update = run(home)
    assert note(home) == f"{held}a\nb\nc\n"
    assert update["decisions"][0].what == "flushed" and update["decisions"][0].data["bytes"] == 6


def test_other_files_are_refused_in_a_flush(tmp_path: Path) -> None:
    """known-faults 6.1."""
    paths = ["MEMORY.md", "SOUL.md", "AGENTS.md", "TOOLS.md", "../out.md", "memory/2026-03-16-1200.md"]
    calls = {"content": [call(f"w{i}", "write", path=path, content="x") for i, path in enumerate(paths)]}
    model = scripted([calls, "NO_REPLY"])
    home = make_home(tmp_path, model=model)
    run(home)
    answers = [m for m in model.requests[1].messages if m.role == "toolResult"]
    assert len(answers) == len(paths) and all(m.is_error and TODAY in m.text for m in answers)
    assert [p for p in home.context.workspace.rglob("*") if p.is_file()] == []


def test_the_days_note_may_be_read_before_there_is_one(tmp_path: Path) -> None:
    reads = {"content": [call("r1", "read", path=TODAY), call("r2", "read", path="memory/2026-03-15.md")]}
    model = scripted([reads, "NO_REPLY"])
    home = make_home(tmp_path, model=model)
    run(home)
    today, yesterday = [m for m in model.requests[1].messages if m.role == "toolResult"]
    assert not today.is_error and "empty" in today.text
    assert yesterday.is_error
    assert not (home.context.workspace / TODAY).exists()


def test_only_read_and_write_are_offered(tmp_path: Path) -> None:
    model = scripted([{"content": [call("e1", "exec", command="ls")]}, "NO_REPLY"])
    run(make_home(tmp_path, model=model))
    assert [tool.name for tool in model.requests[0].tools] == ["read", "write"]
    assert model.requests[0].purpose == "flush"
    assert "exec not found" in model.requests[1].messages[-1].text


def test_blocks_are_not_repeated(tmp_path: Path) -> None:
    """known-faults 6.2."""
    held, more = "# Day\n\n## A\n- a\n", "\n## B\n- b\n"
    home = make_home(tmp_path, model=scripted([write(held + more), "NO_REPLY"]))
    prepare_note(home, held)
    run(home)
    assert note(home) == held + more


def test_one_flush_in_each_compaction_cycle(tmp_path: Path) -> None:
    """known-faults 6.3."""
    model = scripted(then=lambda request: GOOD if request.purpose == "summary" else "NO_REPLY", window=16_000)
    home = make_home(tmp_path, model=model, settings={"compaction": {"keep_recent_tokens": 1_000}})
    flushes = 0
    for cycle in range(4):
        home.say(*turns(17))
        for _ in range(2):  # two turns above the flush threshold
            if route(home) == "flush due":
                run(home)
                flushes += 1
            home.say(*turns(1))
        assert flushes == cycle + 1
        home.say(*turns(10))
        tried = Attempts(flush_tried=True)
        assert route(home, attempts=tried) == "compact due"
        assert asyncio.run(compact(home.state(), home.runtime))["route"] == "compacted"  # type: ignore[arg-type]
    assert flushes == 4 and home.entry["compactionCount"] == 4


def test_a_small_window_with_a_large_reserve_does_not_loop(tmp_path: Path) -> None:
    """known-faults 6.4."""
    home = make_home(tmp_path, model=scripted(then="NO_REPLY", window=16_000))
    home.say(*turns(3))
    assert route(home) == "fits"
    home.say(*turns(14))
    assert route(home) == "flush due"
    update = run(home)
    assert route(home, **{key: update[key] for key in ("attempts", "session")}) != "flush due"
    assert route(home, inbound=Inbound(kind="flush"), attempts=Attempts()) != "flush due"


def test_the_date_is_resolved_before_the_model_is_asked() -> None:
    """known-faults 6.5."""
    zone = ZoneInfo("America/New_York")
    for hour in (datetime(2026, 2, 15, 23, 37, tzinfo=UTC), datetime(2026, 2, 16, 4, 37, tzinfo=UTC)):
        prompts = flush_prompts(None, None, hour, zone)
        assert prompts.path == "memory/2026-02-15.md"
        assert "memory/2026-02-15.md" in prompts.prompt and "YYYY" not in prompts.prompt + prompts.system


def test_nothing_of_a_flush_reaches_the_transcript(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted([write("fact\n"), "Saved it."]))
    home.say(*turns(2))
    before = home.transcript.path.read_bytes()
    run(home)
    assert home.transcript.path.read_bytes() == before
    assert home.state()["messages"] == home.transcript.context().messages


def test_three_failures_in_a_row_end_the_cycle_and_the_user_is_told_once(tmp_path: Path) -> None:
    model = scripted(then=ModelError("down", kind="server"), window=16_000)
    home = make_home(tmp_path, model=model, settings={"compaction": {"notify_user": True}})
    home.say(*turns(17))
    for number in (1, 2, 3):
        assert route(home) == "flush due"
        update = run(home)
        assert update["attempts"].flush_tried and update["decisions"][0].what == "failed"
        assert len(update["decisions"]) == (2 if number == 3 else 1)
    assert route(home) != "flush due"
    notices = [event["text"] for event in home.runtime.events if event["type"] == "notice"]
    assert len(notices) == 1 and "could not be saved" in notices[0]


def test_a_fallback_of_the_session_model_takes_over_but_a_named_flush_model_has_none(tmp_path: Path) -> None:
    down = ModelError("429", kind="rate")
    home = make_home(tmp_path / "a", model=scripted([down]), fallbacks=(scripted([write("fact\n"), "NO_REPLY"]),))
    assert run(home)["decisions"][0].what == "flushed" and note(home) == "fact\n"
    other = scripted(then="NO_REPLY")
    home = make_home(tmp_path / "b", model=other, fallbacks=(other,), flush_model=scripted([down]))
    assert run(home)["decisions"][0].what == "failed" and other.requests == []


def test_a_success_clears_earlier_failures(tmp_path: Path) -> None:
    down = ModelError("down", kind="server")
    home = make_home(tmp_path, model=scripted([down, down, "NO_REPLY"]))
    for _ in range(3):
        run(home)
    assert home.entry["memoryFlush"] == {"kind": "succeeded", "compactionCount": 0}


def test_a_reply_marked_as_error_is_a_failed_flush(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted([{"content": "x", "stopReason": "error"}]))
    assert run(home)["decisions"][0].what == "failed"
    assert "memoryFlushCompactionCount" not in home.entry


def test_the_count_is_taken_before_the_run(tmp_path: Path) -> None:
    home = make_home(tmp_path)

    def compacts_meanwhile(request: ModelRequest) -> str:
        home.context.sessions.update("agent:main:main", {"compactionCount": 7})
        return "NO_REPLY"

    home.context.model = scripted([compacts_meanwhile])
    run(home)
    assert home.entry["memoryFlushCompactionCount"] == 0


def test_offline_the_facts_are_picked_out_of_what_is_folded(tmp_path: Path) -> None:
    """Design decision 12: what stays in the kept tail is not written."""
    settings = {"compaction": {"keep_recent_tokens": 3, "recent_turns_preserve": 1}}
    home = make_home(tmp_path, model=scripted(), settings=settings, live=False)
    home.say(user("Remember that my cat is called Miso. " + "x" * 400), assistant("ok"), user("I prefer tea."))
    update = run(home)
    assert note(home) == "- Remember that my cat is called Miso.\n"
    assert update["decisions"][0].data["by"] == "extractive"


def test_custom_prompts_get_the_rules_that_they_lack() -> None:
    text = with_safety_rules(f"  Save notes. {SAFETY_RULES[1]} ", PROMPT)
    assert text.startswith("Save notes.")
    assert all(text.count(rule) == 1 for rule in SAFETY_RULES)
    assert text.endswith("answer NO_REPLY.")


def test_the_copy_holds_the_newest_messages_with_their_calls() -> None:
    messages = [user("old " * 100), assistant(call("t")), result("t", "r" * 40), user("new")]
    kept = newest_that_fit(messages, 30, EstimateCounter())
    assert [m.role for m in kept] == ["assistant", "toolResult", "user"]
    assert newest_that_fit(messages, 8, EstimateCounter()) == (messages[-1],)


def test_a_sandboxed_session_without_full_access_has_no_flush(tmp_path: Path) -> None:
    for access, expected in (("ro", "fits"), ("none", "fits"), ("rw", "flush due")):
        sandbox = {"mode": "all", "workspace_access": access}
        home = make_home(tmp_path / access, model=scripted(window=16_000), settings={"sandbox": sandbox})
        home.say(*turns(17))
        assert route(home).replace("compact due", "fits") == expected
