"""Pruning of old tool output (spec/context.md 6, known-faults 4.4 to 4.6)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from nodes.projections import Projection, read_projections, replay_projections
from nodes.prune import IMAGE_REMOVED, PruneState, prune_request, prune_results
from nodes.prune_gate import is_eligible, prune_gate, read_touch
from nodes.prune_rules import CLEARED, PruneRules, prune_rules
from tests.builders import assistant, call, result, thinking, user
from turngraph.config.schema_agent import ContextPruning
from turngraph.decisions import Origin
from turngraph.messages import Message, text_block

HOUR_MS = 3_600_000
RULES = PruneRules(ttl=timedelta(hours=1))
IMAGE = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}


def session(results: int, size: int = 30_000) -> tuple[Message, ...]:
    rounds = [(assistant(call(f"c{n}")), result(f"c{n}", "x" * size, at=n, entry=f"e{n}")) for n in range(results)]
    return (user("start"), *(m for pair in rounds for m in pair), *(assistant(f"a{n}") for n in range(3)))


def test_the_first_turn_after_a_start_is_pruned_when_the_cache_expired_long_ago() -> None:
    window = 20_000
    pruned = prune_request(session(2), PruneState({}, 0), RULES, window_tokens=window, now_ms=5 * HOUR_MS)
    assert all(
        "[Tool result trimmed: kept first 1500 chars" in m.text for m in pruned.messages if m.role == "toolResult"
    )
    assert [d.what for d in pruned.decisions] == ["trimmed"]


def test_a_touch_that_was_never_recorded_counts_as_expired() -> None:
    assert prune_gate(now_ms=0, last_touch_ms=None, rules=RULES).open


def test_a_busy_chat_is_pruned_under_pressure_or_the_status_says_why_not() -> None:
    calm = prune_gate(now_ms=30_000, last_touch_ms=0, rules=RULES, filled_ratio=0.9)
    assert not calm.open
    assert "TTL not reached" in calm.why
    pressed = prune_gate(now_ms=30_000, last_touch_ms=0, rules=replace(RULES, pressure_ratio=0.8), filled_ratio=0.9)
    assert pressed.open


def test_a_provider_without_such_a_cache_is_named_as_the_reason() -> None:
    assert not is_eligible("ollama", "qwen3")
    gate = prune_gate(now_ms=9e9, last_touch_ms=0, rules=RULES, eligible=False)
    assert not gate.open
    assert "eligible" in gate.why


@pytest.mark.parametrize(
    ("provider", "model", "eligible"),
    [
        ("anthropic", "claude", True),
        ("google_genai", "gemini-3-pro", True),
        ("Bedrock", "us.anthropic.claude", True),
        ("openrouter", "anthropic/claude", True),
        ("openrouter", "qwen/x", False),
    ],
)
def test_a_provider_counts_under_every_name_and_a_router_by_the_model_behind_it(
    provider: str, model: str, eligible: bool
) -> None:
    assert is_eligible(provider, model) is eligible


def test_a_touch_counts_for_its_own_model_under_every_name_of_the_provider() -> None:
    touch = {"timestamp": 5, "provider": "google", "modelId": "gemini-3-pro"}
    assert read_touch(touch, "google_genai", "gemini-3-pro") == 5
    assert read_touch(touch, "google_genai", "gemini-3-flash") is None
    assert read_touch(touch, "anthropic", "gemini-3-pro") is None


def test_a_ttl_of_zero_never_prunes() -> None:
    assert not prune_gate(now_ms=9e9, last_touch_ms=0, rules=replace(RULES, ttl=timedelta(0))).open


def test_the_last_answers_and_everything_before_the_first_user_are_never_touched() -> None:
    early = (assistant(call("b0")), result("b0", "b" * 30_000))
    late = (assistant(call("z0")), result("z0", "z" * 30_000))
    history = (*early, *session(2)[:-2], *late)
    pruned = prune_results(history, 10_000, RULES).messages
    assert pruned[:2] == early
    assert pruned[-3:] == history[-3:]


def test_user_and_assistant_texts_are_never_touched() -> None:
    history = (user("u" * 50_000), assistant(thinking("t" * 50_000), "a" * 50_000), *session(1)[1:])
    pruned = prune_results(history, 1_000, RULES).messages
    assert pruned[:2] == history[:2]


def test_an_image_in_an_old_result_becomes_its_marker_and_the_text_stays() -> None:
    old = result("c0", [text_block("a picture"), IMAGE])
    history = (user("q"), assistant(call("c0")), old, *session(1)[3:])
    pruned = prune_results(history, 2_000, RULES).messages
    assert pruned[2].text == f"a picture\n{IMAGE_REMOVED}"


def test_results_are_cleared_from_the_oldest_on_until_enough_is_free() -> None:
    history = session(40, 4_000)
    pruned = prune_results(history, 50_000, RULES)
    cleared = [m.text == CLEARED for m in pruned.messages if m.role == "toolResult"]
    assert cleared == sorted(cleared, reverse=True)
    assert any(cleared) and not all(cleared)


def test_few_characters_are_not_worth_clearing() -> None:
    pruned = prune_results(session(3, 4_000), 3_000, RULES).messages
    assert not any(m.text == CLEARED for m in pruned)


def test_tools_that_are_denied_are_left_alone() -> None:
    assert not prune_results(session(2), 10_000, replace(RULES, deny=("re*",))).changed


def test_what_was_pruned_is_shown_the_same_before_the_ttl_is_over_again() -> None:
    history = session(2)
    first = prune_request(history, PruneState({}, None), RULES, window_tokens=20_000, now_ms=0)
    state = PruneState({}, None).after(first, 0)
    again = prune_request((*history, user("more")), state, RULES, window_tokens=20_000, now_ms=1_000)
    assert [m.text for m in again.messages[:-1]] == [m.text for m in first.messages]
    assert again.projections == ()
    assert "TTL not reached" in again.decisions[-1].why


def test_projections_survive_being_written_down() -> None:
    history = session(2)
    pruned = prune_results(history, 20_000, RULES)
    written = [{"results": [projection.to_data() for projection in pruned.projections]}, {"results": "damaged"}, None]
    shown = replay_projections(history, read_projections(written)).messages
    assert [m.text for m in shown] == [m.text for m in pruned.messages]


def test_a_trim_never_cuts_inside_a_character() -> None:
    family = "👩‍👩‍👧"
    rules = replace(RULES, trim_max_chars=10, trim_head_chars=7, trim_tail_chars=7)
    history = (user("q"), assistant(call("c0")), result("c0", family * 400), *session(1)[3:])
    head, tail = prune_results(history, 100, rules).messages[2].text.split("\n...\n")
    assert head == family
    assert tail.startswith(family + "\n\n[Tool result trimmed")


def test_the_rules_come_from_the_settings_and_off_means_none() -> None:
    assert prune_rules(ContextPruning()) is None
    assert prune_rules(ContextPruning.model_validate({"mode": "cache-ttl"})) == PruneRules()


def test_a_projection_holds_for_its_entry_when_the_id_of_the_call_was_rewritten() -> None:
    as_written = Message(result("exec-1", "x" * 50).raw, Origin("entry", entry_id="e1"))
    recorded = Projection("exec-1", as_written.timestamp_ms, "short", "e1")
    renamed = as_written.evolve(toolCallId="exec1aaaa")
    read = read_projections([{"results": [recorded.to_data()]}])
    assert replay_projections((renamed,), read).messages[0].text == "short"
    assert replay_projections((as_written,), read).messages[0].text == "short"
