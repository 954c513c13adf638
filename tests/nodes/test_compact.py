"""The compact node on a real transcript; the cases of known-faults section 5 stand here with their numbers."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nodes.compact import compact
from nodes.compaction.ask import Summariser
from nodes.compaction.fit import fit_prompt
from nodes.compaction.outcome import classify_reason
from nodes.compaction.run import run_compaction
from nodes.state import Attempts
from stores.events import EventFile
from stores.transcripts import Transcript
from tests.builders import assistant, call, result, user
from tests.turn_home import KEY, NOON, TurnHome, make_home, scripted
from turngraph.clock import FixedClock
from turngraph.errors import ModelError
from turngraph.hook_calls import Handler
from turngraph.hooks import Hooks
from turngraph.messages import Message
from turngraph.models.model import ModelFacts, ModelRequest
from turngraph.models.offline import OfflineModel
from turngraph.models.scripted import ScriptedModel
from turngraph.summary_sections import build_sections, has_required_sections
from turngraph.tokens import EstimateCounter, TiktokenCounter

SMALL = {"compaction": {"keep_recent_tokens": 1_000}}
GOOD = build_sections(decisions="Use DuckDB", asks="turn number")


def turns(count: int, chars: int = 800) -> list[Message]:
    return [
        m for i in range(count) for m in (user(f"turn number {i} " + "x" * chars), assistant("done " + "y" * chars))
    ]


def run(home: TurnHome, **changes: Any) -> dict[str, Any]:
    return asyncio.run(compact(home.state(**changes), home.runtime))  # type: ignore[arg-type]


def size(home: TurnHome) -> int:
    return len(home.transcript.path.read_bytes())


def summary_of(home: TurnHome) -> str:
    return str(home.transcript.context().messages[0].raw["summary"])


def whats(update: dict[str, Any]) -> list[str]:
    return [decision.what for decision in update["decisions"]]


def test_the_entry_says_who_made_it_and_the_counters_move(tmp_path: Path) -> None:
    """known-faults 5.7: the new size is an estimate and marked as not fresh."""
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    home.say(*turns(30))
    update = run(home)
    assert update["route"] == "compacted" and whats(update) == ["summarised", "kept"]
    entry = home.transcript.branch()[-1]
    assert entry.type == "compaction"
    assert entry.raw["turngraph"]["maker"] == "model"
    assert entry.raw["turngraph"]["models"] == ["scripted:scripted"]
    assert home.entry["compactionCount"] == 1
    assert home.entry["totalTokensFresh"] is False
    assert home.entry["totalTokens"] == update["decisions"][0].tokens_after < update["decisions"][0].tokens_before


def test_a_history_of_three_windows_is_summarised_within_the_summarisers_limit(tmp_path: Path) -> None:
    """known-faults 5.1."""
    counter = EstimateCounter()
    requests: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        requests.append(request)
        return GOOD

    home = make_home(tmp_path, model=scripted(then=answer, window=8_000), settings=SMALL, counter=counter)
    home.say(*turns(40), user("z" * 60_000), assistant("long"), *turns(8))
    assert run(home)["route"] == "compacted"
    for request in requests:
        used = counter.text(request.system) + sum(counter.message(m) for m in request.messages)
        assert used + (request.max_output_tokens or 0) <= 8_000
    assert any("larger than the summariser's window" in request.messages[0].text for request in requests)
    assert len(requests) < 120
    assert "characters of very long messages were left out of this summary" in summary_of(home)


def test_a_summariser_that_hangs_ends_at_the_time_limit(tmp_path: Path) -> None:
    """known-faults 5.2."""

    class Hanging:
        facts = scripted(window=16_000).facts

        async def stream(self, request: ModelRequest) -> Any:
            await asyncio.Event().wait()
            yield

    compaction = SMALL["compaction"] | {"timeout_seconds": 1}
    home = make_home(tmp_path, model=Hanging(), settings={"compaction": compaction})
    home.say(*turns(30))
    before = size(home)
    update = run(home)
    assert update["route"] == "not compacted"
    assert update["decisions"][-1].data == {"code": "timeout", "outcome": "failed"}
    assert size(home) == before


@pytest.mark.parametrize(
    "answer", [ModelError("down", kind="bad_request"), "", "  \n", "Summary unavailable due to context limits."]
)
def test_a_failed_summary_is_not_stored(tmp_path: Path, answer: Any) -> None:
    """known-faults 5.3."""
    home = make_home(tmp_path, model=scripted(then=answer, window=16_000), settings=SMALL)
    home.say(*turns(30))
    before = size(home)
    update = run(home)
    assert update["route"] == "not compacted" and whats(update) == ["failed"]
    assert size(home) == before
    assert "compactionCount" not in home.entry


IDENTIFIERS = [
    "3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1",
    "a1b9f3c7d2e4",
    "https://example.org/t/88",
    "src/core/limits.py",
]


@pytest.mark.parametrize(
    "answer", ["We fixed the bug.", build_sections(decisions="We fixed the bug", asks="bug limits")]
)
def test_identifiers_survive_or_the_compaction_is_cancelled(tmp_path: Path, answer: str) -> None:
    """known-faults 5.4."""
    home = make_home(tmp_path, model=scripted(then=answer, window=16_000), settings=SMALL)
    # The request stands before the last three turns, so that it is folded.
    home.say(*turns(20), user("Fix the bug limits: " + " ".join(IDENTIFIERS)), assistant("ok"), *turns(3))
    update = run(home)
    if has_required_sections(answer):
        assert update["route"] == "compacted" and "repaired" in whats(update)
        text = summary_of(home)
        assert [identifier for identifier in IDENTIFIERS if identifier not in text] == []
    else:
        assert update["route"] == "not compacted" and "refused" in update["why"]


def test_the_last_request_and_the_open_points_survive(tmp_path: Path) -> None:
    """known-faults 5.5, with the extractive summariser."""
    settings = {"compaction": {"keep_recent_tokens": 100}}
    home = make_home(tmp_path, model=scripted(window=16_000), settings=settings, live=False)
    last = "Please also rename the table, but ask me first"
    home.say(*turns(8), user("5/17 items are done. Which name should the table get?"), assistant("not yet known"))
    home.say(*turns(2), user(last))
    assert run(home)["route"] == "compacted"
    kept = [m.text for m in home.transcript.context().messages if m.role == "user"]
    assert kept[-1] == last and len(kept) == 3
    assert "5/17 items are done." in summary_of(home)
    assert "Which name should the table get?" in summary_of(home)


def test_a_summariser_out_of_quota_is_replaced_and_the_entry_names_the_other(tmp_path: Path) -> None:
    """known-faults 5.6."""
    home = make_home(
        tmp_path,
        model=scripted(window=16_000),
        settings=SMALL,
        summariser=scripted(then=ModelError("429", kind="quota"), name="first", window=16_000),
        summariser_fallbacks=(scripted(then=GOOD, name="second", window=16_000),),
    )
    home.say(*turns(30))
    update = run(home)
    assert update["route"] == "compacted"
    assert home.transcript.branch()[-1].raw["turngraph"]["models"] == ["scripted:second"]
    assert update["decisions"][0].data["failures"][0] == "scripted:first: quota"


def test_the_extractive_summary_stands_in_only_when_the_user_allows_it(tmp_path: Path) -> None:
    compaction = SMALL["compaction"] | {"extractive_fallback": True}
    down = scripted(then=ModelError("down", kind="server"), window=16_000)
    home = make_home(tmp_path, model=down, settings={"compaction": compaction})
    home.say(*turns(30))
    assert run(home)["route"] == "compacted"
    assert home.transcript.branch()[-1].raw["turngraph"]["maker"] == "extractive"


def with_plugin(home: TurnHome, answer: Any) -> list[Any]:
    """Let a plugin write the summaries of ``home``; return what it was asked."""
    asked: list[Any] = []

    def write(prompt: str, system: str) -> Any:
        asked.append(prompt)
        if isinstance(answer, Exception):
            raise answer
        return answer

    home.context.hooks = Hooks({"write_summary": [Handler("scribe", write, ("prompt", "system"))]})
    return asked


def test_a_plugin_that_the_settings_name_writes_the_summary(tmp_path: Path) -> None:
    model = scripted(then=GOOD, window=16_000)
    home = make_home(tmp_path, model=model, settings={"compaction": SMALL["compaction"] | {"provider": "scribe"}})
    asked = with_plugin(home, GOOD.replace("DuckDB", "SQLite"))
    home.say(*turns(30))
    assert run(home)["route"] == "compacted"
    assert "<conversation>" in asked[0] and model.requests == []
    own = home.transcript.branch()[-1].raw["turngraph"]
    assert (own["maker"], own["models"]) == ("plugin", ["plugin:scribe"])
    assert "Use SQLite" in summary_of(home)


@pytest.mark.parametrize("answer", [ValueError("secret text"), "", 7], ids=["raises", "says nothing", "no text"])
def test_a_plugin_that_fails_is_replaced_by_the_model(tmp_path: Path, answer: Any) -> None:
    home = make_home(
        tmp_path,
        model=scripted(then=GOOD, window=16_000),
        settings={"compaction": SMALL["compaction"] | {"provider": "scribe"}},
    )
    with_plugin(home, answer)
    home.say(*turns(30))
    update = run(home)
    assert update["route"] == "compacted"
    assert home.transcript.branch()[-1].raw["turngraph"]["models"] == ["scripted:scripted"]
    assert update["decisions"][0].data["failures"][0].startswith("plugin:scribe: ")
    assert "secret text" not in str(update["decisions"])


def test_offline_a_plugin_that_is_not_loaded_leaves_the_extractive_summary(tmp_path: Path) -> None:
    compaction = SMALL["compaction"] | {"provider": "nobody"}
    home = make_home(tmp_path, model=OfflineModel(), settings={"compaction": compaction, "context_tokens": 16_000})
    home.say(*turns(30))
    update = run(home)
    assert home.transcript.branch()[-1].raw["turngraph"]["maker"] == "extractive"
    assert update["decisions"][0].data["failures"][0] == "plugin:nobody: missing"


def test_the_user_hears_of_a_compaction_where_the_session_is_verbose(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    home.say(*turns(30))
    entry = home.context.sessions.update(KEY, {"verboseLevel": "on"})
    run(home, session=replace(home.session, entry=entry))
    notices = [event["text"] for event in home.runtime.events if event["type"] == "notice"]
    assert notices == ["🧹 Auto-compaction complete (count 1)."]


class Slow(ScriptedModel):
    """Thinks for a while before it answers."""

    async def stream(self, request: ModelRequest) -> Any:
        await asyncio.sleep(0.05)
        async for event in super().stream(request):
            yield event


async def test_a_compaction_takes_nothing_from_the_time_of_the_turn(tmp_path: Path) -> None:
    """The run timer stands still while a compaction runs: spec/compaction.md 6.3."""

    slow = Slow(then=GOOD, facts=ModelFacts("scripted", "model", context_window=16_000))
    home = make_home(tmp_path, model=slow, settings=SMALL)
    home.say(*turns(30))
    home.context.deadline = deadline = asyncio.get_running_loop().time() + 1
    await compact(home.state(), home.runtime)  # type: ignore[arg-type]
    assert home.context.deadline >= deadline + 0.05


def test_compaction_can_be_off(tmp_path: Path) -> None:
    """known-faults 5.9."""
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings={"compaction": {"mode": "off"}})
    home.say(*turns(60))
    update = run(home, attempts=Attempts(overflows=1, compaction_trigger="overflow", observed_tokens=20_000))
    assert update["route"] == "answered"
    assert "compaction.mode is off" in update["reply"].text and "/new" in update["reply"].text


def test_two_compactions_lose_nothing_of_what_the_first_one_kept(tmp_path: Path) -> None:
    """known-faults 2.6: it is in the second summariser's input or still in sight."""
    seen: list[str] = []

    def answer(request: ModelRequest) -> str:
        seen.append(request.messages[-1].text)
        return GOOD

    home = make_home(tmp_path, model=scripted(then=answer, window=16_000), settings=SMALL)
    home.say(*turns(20))
    run(home)
    kept = [m.text.split("x")[0] for m in home.transcript.context().messages if m.role == "user"]
    seen.clear()
    home.say(*[user(f"later {i} " + "z" * 900) for i in range(20)])
    run(home)
    visible = " ".join(m.text for m in home.transcript.context().messages)
    assert kept and all(any(text in prompt for prompt in [*seen, visible]) for text in kept)
    assert any("<previous-summary>" in prompt for prompt in seen)


def test_a_compaction_that_frees_nothing_is_refused_with_advice(tmp_path: Path) -> None:
    long = build_sections(decisions="d " * 3_000, asks="turn number 0")
    home = make_home(
        tmp_path, model=scripted(then=long, window=16_000), settings={"compaction": {"keep_recent_tokens": 1}}
    )
    home.say(*turns(2, chars=20), *turns(3, chars=20))
    update = run(home)
    assert update["route"] == "not compacted" and "would free nothing" in update["why"] and "/new" in update["why"]


def test_no_credential_of_the_history_is_stored(tmp_path: Path) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwx"
    leaky = build_sections(decisions=f"the key is {secret}", asks="turn number")
    home = make_home(tmp_path, model=scripted(then=leaky, window=16_000), settings=SMALL)
    home.say(
        *turns(20), assistant(call("t", "exec", command="x")), result("t", f"bad key {secret}", "exec", error=True)
    )
    home.say(*turns(4))
    assert run(home)["route"] == "compacted"
    assert secret not in summary_of(home)
    assert "## Tool Failures\n- exec: bad key" in summary_of(home)


def test_workspace_rules_failures_and_files_stand_behind_the_summary(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=200_000), settings=SMALL)
    (home.context.workspace / "AGENTS.md").write_text("## Red Lines\nnever push\n", encoding="utf-8")
    home.say(user("turn number " + "x" * 8_000), assistant(call("t", "edit", path="a.py")), result("t"), *turns(6))
    run(home)
    assert summary_of(home).endswith(
        "<workspace-critical-rules>\n## Red Lines\nnever push\n</workspace-critical-rules>"
    )
    assert "<modified-files>\na.py\n" in summary_of(home)


def test_attachments_of_an_earlier_summary_are_made_anew_and_not_twice(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(window=32_000), settings=SMALL, live=False)
    (home.context.workspace / "AGENTS.md").write_text("## Red Lines\nnever push\n", encoding="utf-8")
    failed = (assistant(call("t1", "edit", path="a.py")), result("t1", "no such file", "edit", error=True))
    home.say(user("turn number " + "x" * 8_000), *failed, *turns(12))
    run(home)
    assert summary_of(home).count("## Tool Failures") == 1
    home.say(*turns(20))
    run(home)
    text = summary_of(home)
    assert text.count("<workspace-critical-rules>") == 1 and text.count("<modified-files>") == 1
    assert "## Tool Failures" not in text  # those of the first compaction are past
    assert "a.py" in text


def test_the_plain_mode_has_its_own_headings_and_no_audit(tmp_path: Path) -> None:
    compaction = SMALL["compaction"] | {"mode": "default"}
    model = scripted(then="## Goal\nfree text", window=16_000)
    home = make_home(tmp_path, model=model, settings={"compaction": compaction})
    home.say(*turns(30))
    assert run(home)["route"] == "compacted"
    assert summary_of(home).startswith("## Goal\nfree text")
    assert "## Critical Context" in model.requests[0].messages[0].text


def test_what_the_summariser_used_is_in_the_decision(tmp_path: Path) -> None:
    answer = {"content": GOOD, "usage": {"input": 100, "output": 7}}
    home = make_home(tmp_path, model=scripted(then=answer, window=16_000), settings=SMALL)
    home.say(*turns(30))
    update = run(home)
    calls = len(home.context.model.requests)  # type: ignore[attr-defined]
    assert update["decisions"][0].data["usage"] == {"input": 100 * calls, "output": 7 * calls}


def test_a_history_of_heartbeats_is_folded_without_a_model(tmp_path: Path) -> None:
    model = scripted(window=16_000)
    home = make_home(tmp_path, model=model, settings=SMALL)
    home.say(*[m for _ in range(400) for m in (user("HEARTBEAT_OK"), assistant("NO_REPLY"))])
    assert run(home)["route"] == "compacted"
    assert model.requests == []
    assert home.transcript.branch()[-1].raw["turngraph"]["maker"] == "none"


def test_a_second_overflow_keeps_half_as_much(tmp_path: Path) -> None:
    home = make_home(
        tmp_path, model=scripted(then=GOOD, window=200_000), settings={"compaction": {"recent_turns_preserve": 0}}
    )
    home.say(*turns(120))
    whole = asyncio.run(run_compaction(home.context, home.session, trigger="overflow", dry_run=True))
    half = asyncio.run(run_compaction(home.context, home.session, trigger="overflow", halvings=1, dry_run=True))
    assert whole.plan and half.plan
    assert len(half.plan.kept) in (len(whole.plan.kept) // 2, len(whole.plan.kept) // 2 + 1)


def test_a_dry_run_stores_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    home.say(*turns(30))
    before = size(home)
    outcome = asyncio.run(run_compaction(home.context, home.session, trigger="manual", dry_run=True))
    assert outcome.compacted and outcome.summary and outcome.entry is None
    assert size(home) == before and "compactionCount" not in home.entry


def test_a_summary_of_dense_text_keeps_to_an_eighth_of_the_window_in_tokens(tmp_path: Path) -> None:
    counter = TiktokenCounter()
    dense = build_sections(decisions=" ".join(f"{i * 7919:x}%{i}^" for i in range(3_000)), asks="turn number")
    home = make_home(tmp_path, model=scripted(then=dense, window=8_000), settings=SMALL, counter=counter)
    home.say(*turns(60))
    assert run(home)["route"] == "compacted"
    assert counter.text(summary_of(home)) <= 1_000
    assert has_required_sections(summary_of(home))


def test_a_cancelled_compaction_stores_nothing(tmp_path: Path) -> None:
    home = make_home(tmp_path, settings=SMALL)
    home.say(*turns(30))
    before = size(home)

    class Cancelling:
        facts = scripted(window=16_000).facts

        async def stream(self, request: ModelRequest) -> Any:
            home.context.cancel.set()
            await asyncio.Event().wait()
            yield

    home.context.model = Cancelling()
    with pytest.raises(asyncio.CancelledError):
        run(home)
    assert size(home) == before


def test_the_manual_command_answers_with_the_sizes(tmp_path: Path) -> None:
    model = scripted(then=GOOD, window=16_000)
    home = make_home(tmp_path, model=model, settings=SMALL)
    home.say(*turns(30))
    update = run(home, command="compact", command_text="the database")
    assert update["route"] == "answered"
    sizes = r"⚙️ Compacted \(1\d,\d{3} → \d,\d{3} tokens\) • context \d% of 16,000"
    assert re.fullmatch(sizes, update["reply"].text)
    (told,) = EventFile(home.context.home.events_file("main")).waiting("event", KEY)
    assert told.text == update["reply"].text
    assert "the database" in model.requests[0].messages[0].text
    home = make_home(tmp_path / "small", model=scripted(window=16_000))
    home.say(user("hi"))
    assert run(home, command="compact")["reply"].text == (
        "⚙️ Compaction skipped: Nothing to compact (session too small)"
    )


def test_an_overflow_without_a_summary_goes_on_to_shrink_large_results(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=ModelError("no", kind="auth"), window=8_000))
    home.say(user("go " * 4_000), assistant(call("t1")), result("t1", "r" * 30_000), user("and"), assistant("ok"))
    update = run(home, attempts=Attempts(overflows=1, compaction_trigger="overflow", observed_tokens=9_001))
    assert update["route"] == "shrink due"


def test_a_forced_compaction_halves_the_tail_until_something_can_be_folded(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=200_000))
    home.say(*turns(20))  # about 8,000 tokens: less than keepRecentTokens
    outcome = asyncio.run(run_compaction(home.context, home.session, trigger="threshold"))
    assert outcome.reason == "Nothing to compact (session too small)"
    assert asyncio.run(run_compaction(home.context, home.session, trigger="overflow")).compacted


def test_nothing_to_fold_is_no_failure_unless_it_was_forced(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(window=16_000))
    home.say(user("hi"))
    assert run(home)["attempts"].failed is None
    forced = run(home, attempts=Attempts(overflows=1, compaction_trigger="overflow"))
    assert forced["attempts"].failed == "Nothing to compact (session too small)"
    assert forced["route"] == "answered"


def test_hooks_run_before_and_after_with_their_facts(tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    before = Handler("p", lambda message_count: seen.append(("before", message_count)), ("message_count",))
    names = ("message_count", "compacted_count", "tokens")
    after = Handler("p", lambda **event: seen.append(("after", *event.values())), names)
    home.context.hooks = Hooks({"before_compaction": [before], "after_compaction": [after]})
    home.say(*turns(30))
    update = run(home)
    kept = update["decisions"][0].count_after
    assert seen == [("before", 60), ("after", kept, 1, update["decisions"][0].tokens_after)]


def test_the_index_is_told_only_where_sessions_are_searched(tmp_path: Path) -> None:
    told: list[tuple[str, bool]] = []

    async def changed(path: Path, wait: bool) -> None:
        told.append((path.name, wait))

    for name, sources in (("a", ("memory",)), ("b", ("memory", "sessions"))):
        settings = SMALL | {"memory_search": {"sources": sources}}
        home = make_home(tmp_path / name, model=scripted(then=GOOD, window=16_000), settings=settings)
        home.context.session_changed = changed
        home.say(*turns(30))
        run(home)
    assert told == [("s1.jsonl", False)]


def test_a_reader_of_the_file_sees_the_same_context(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    home.say(*turns(30))
    run(home)
    again = Transcript.open(home.transcript.path, session_id="s1", clock=home.context.clock, ids=home.context.ids)
    seen = [m.raw for m in again.context().messages]
    assert seen == [m.raw for m in home.transcript.context().messages]


def test_a_kill_between_transcript_and_table_does_not_lose_the_cycle(tmp_path: Path) -> None:
    home = make_home(tmp_path, model=scripted(then=GOOD, window=16_000), settings=SMALL)
    home.say(*turns(30))
    run(home)
    home.context.sessions.update(KEY, {}, drop=("compactionCount",))
    home.say(*turns(30))
    run(home)
    assert home.entry["compactionCount"] == 2


def test_retries_wait_and_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("nodes.compaction.ask.asyncio.sleep", sleep)
    busy = ModelError("busy", kind="rate", retryable=True)
    summariser = Summariser((scripted([busy, busy, "S"]),), FixedClock(NOON))
    assert asyncio.run(summariser.ask("x", 100)) == "S"
    assert waited == [0.5, 1.0]


def test_what_does_not_fit_the_summariser_is_cut_in_its_middle() -> None:
    cut = fit_prompt("a" * 400 + "b" * 40_000 + "c" * 400, 500, EstimateCounter())
    assert EstimateCounter().text(cut.text) <= 500
    assert cut.text.startswith("a" * 400) and cut.text.endswith("c" * 400)
    assert f"{cut.left_out_chars} characters of this part left out" in cut.text


def test_reasons_have_codes() -> None:
    assert classify_reason("summary failed (other): the summary was refused after 2 attempts") == "summary_failed"
    assert classify_reason(None) == "unknown"
