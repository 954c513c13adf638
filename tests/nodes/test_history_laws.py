"""Laws of the governed history, over generated broken histories and every provider."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.guard_tools import Window, cap_results, fit_results, govern, guard_results
from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.sizes import guard_chars, prune_chars
from nodes.history.validators import PROVIDERS, Provider, problems
from nodes.limit_history import limit_and_settle
from nodes.projections import by_key, replay_projections
from nodes.prune import prune_results
from nodes.prune_rules import PruneRules
from nodes.sanitize import prepare_request, sanitize_history
from tests.nodes.histories import NOW_MS, POLICIES, model_histories, session_histories, texts
from turngraph.messages import Message
from turngraph.text import js_trim, weighted_chars
from turngraph.tokens import EstimateCounter
from turngraph.truncation import result_chars, truncate_result, truncate_text

ROUTES = [
    *POLICIES.items(),
    ("anthropic", resolve_policy("amazon-bedrock", "bedrock-converse-stream", "us.anthropic.claude-3")),
    ("openai-chat", resolve_policy("ollama", None, "qwen3")),
    ("mistral", resolve_policy("openrouter", "openai-completions", "mistralai/devstral")),
    ("anthropic", resolve_policy("minimax", "anthropic-messages", "MiniMax-M2")),
]
every_route = pytest.mark.parametrize(
    ("provider", "policy"), ROUTES, ids=lambda value: value if isinstance(value, str) else ""
)
thorough = settings(max_examples=60, deadline=None)


@every_route
@given(history=model_histories)
@thorough
def test_a_sanitised_history_is_accepted(
    provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...]
) -> None:
    assert problems(sanitize_history(history, policy, NOW_MS).messages, provider) == ()


@every_route
@given(history=session_histories)
@thorough
def test_a_request_is_accepted_whatever_roles_the_session_holds(
    provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...]
) -> None:
    sanitised = sanitize_history(history, policy, NOW_MS).messages
    prepared = prepare_request(sanitised, policy, NOW_MS).messages
    assert problems(prepared, provider) == ()
    again = prepare_request(prepared, policy, NOW_MS).messages
    assert [message.raw for message in again] == [message.raw for message in prepared]


@every_route
@given(history=session_histories)
@thorough
def test_sanitising_twice_changes_nothing(
    provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...]
) -> None:
    once = sanitize_history(history, policy, NOW_MS)
    twice = sanitize_history(once.messages, policy, NOW_MS)
    assert twice.decisions == ()
    assert twice.messages is once.messages


@every_route
@given(history=session_histories)
@thorough
def test_no_user_text_is_lost(provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...]) -> None:
    said = [text for message in history if message.role == "user" for text in _words(message)]
    sanitised = sanitize_history(history, policy, NOW_MS).messages
    kept = "\n".join(text for message in sanitised if message.role == "user" for text in _words(message))
    at = 0
    for text in said:
        at = kept.index(text, at) + len(text)


def _words(message: Message) -> list[str]:
    content = message.raw.get("content")
    blocks = content if isinstance(content, list) else [content]
    found = [
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, (str, dict))
    ]
    return [text for text in found if isinstance(text, str) and js_trim(text)]


@given(history=session_histories)
@thorough
def test_input_messages_are_never_mutated_and_untouched_ones_stay_the_same(history: tuple[Message, ...]) -> None:
    before = [repr(message.raw) for message in history]
    for policy in POLICIES.values():
        sanitize_history(history, policy, NOW_MS)
    assert [repr(message.raw) for message in history] == before


@every_route
@given(history=model_histories, limit=st.integers(1, 4))
@thorough
def test_the_limit_keeps_a_history_acceptable(
    provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...], limit: int
) -> None:
    sanitised = sanitize_history(history, policy, NOW_MS).messages
    limited = limit_and_settle(sanitised, limit, policy, NOW_MS).messages
    assert problems(limited, provider) == ()


@every_route
@given(history=model_histories, window=st.sampled_from((1, 100, 8_000)))
@thorough
def test_guard_and_prune_keep_a_history_acceptable(
    provider: Provider, policy: TranscriptPolicy, history: tuple[Message, ...], window: int
) -> None:
    sanitised = sanitize_history(history, policy, NOW_MS).messages
    governed = govern(sanitised, Window(window), EstimateCounter(), last_resort=True).messages
    pruned = prune_results(governed, window, PruneRules(soft_trim_ratio=0, hard_clear_ratio=0, keep_last_assistants=0))
    assert problems(pruned.messages, provider) == ()


@given(history=model_histories, window=st.sampled_from((1, 100, 8_000)))
@thorough
def test_guard_and_prune_never_grow_a_message(history: tuple[Message, ...], window: int) -> None:
    rules = PruneRules(
        soft_trim_ratio=0,
        hard_clear_ratio=0,
        keep_last_assistants=0,
        min_prunable_tool_chars=0,
        trim_max_chars=20,
        trim_head_chars=5,
        trim_tail_chars=5,
    )
    for guarded in (
        guard_results(history, window).messages,
        govern(history, Window(window), EstimateCounter()).messages,
    ):
        assert all(guard_chars(new) <= guard_chars(old) for new, old in zip(guarded, history, strict=True))
    pruned = prune_results(history, window, rules)
    assert all(prune_chars(new) <= prune_chars(old) for new, old in zip(pruned.messages, history, strict=True))


@given(history=model_histories, limit=st.integers(0, 200))
@thorough
def test_capped_results_are_within_the_cap(history: tuple[Message, ...], limit: int) -> None:
    for message in cap_results(history, limit).messages:
        assert message.role != "toolResult" or result_chars(message) <= limit


@given(history=model_histories, budget=st.integers(0, 400))
@thorough
def test_fitting_results_only_shortens_them(history: tuple[Message, ...], budget: int) -> None:
    fitted = fit_results(history, budget, min_keep=50).messages
    assert len(fitted) == len(history)
    for new, old in zip(fitted, history, strict=True):
        assert new is old or (new.role == "toolResult" and result_chars(new) < result_chars(old))


@given(texts=st.lists(texts, max_size=6), limit=st.integers(0, 500))
@thorough
def test_a_cut_is_within_its_limit_and_splits_no_character(texts: list[str], limit: int) -> None:
    import regex

    text = "".join(texts)
    cut = truncate_text(text, limit)
    assert weighted_chars(cut) <= max(limit, 0) or cut == text
    if cut != text and "[..." in cut:
        head = cut[: cut.index("[...")].rstrip("\n")
        clusters = regex.findall(r"\X", text)
        prefixes = {""}
        for cluster in clusters:
            prefixes.add(max(prefixes, key=len) + cluster)
        assert head in prefixes or "omitted" in cut or head.rstrip() in {p.rstrip() for p in prefixes}


@given(history=model_histories)
@thorough
def test_what_was_pruned_once_is_shown_the_same_again(history: tuple[Message, ...]) -> None:
    rules = PruneRules(
        soft_trim_ratio=0, keep_last_assistants=0, trim_max_chars=20, trim_head_chars=5, trim_tail_chars=5
    )
    pruned = prune_results(history, 100, rules)
    shown = replay_projections(history, by_key(pruned.projections)).messages
    assert [message.content for message in shown] == [message.content for message in pruned.messages]


def test_every_provider_has_a_policy() -> None:
    assert set(POLICIES) == set(PROVIDERS)


def test_a_result_is_cut_even_when_its_blocks_are_small() -> None:
    blocks = [{"type": "text", "text": "日" * 10} for _ in range(50)]
    message = Message({"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": blocks})
    assert result_chars(truncate_result(message, 300)) <= 300
