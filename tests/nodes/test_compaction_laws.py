"""Laws of the visible context after a compaction, over broken histories and every provider."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.compaction.outcome import Outcome
from nodes.compaction.run import run_compaction
from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.validators import Provider, problems
from nodes.sanitize import prepare_request, sanitize_history
from tests.builders import START_MS, assistant, call, result, user
from tests.nodes.histories import session_histories
from tests.turn_home import TurnHome, make_home, scripted
from turngraph.messages import Message
from turngraph.text import weighted_chars
from turngraph.tokens import total

POLICIES: dict[Provider, TranscriptPolicy] = {
    "anthropic": resolve_policy("anthropic", "anthropic-messages", "claude-sonnet-4-5"),
    "openai-chat": resolve_policy("openai", "openai-completions", "gpt-4.1"),
    "openai-responses": resolve_policy("openai", "openai-responses", "gpt-5"),
    "gemini": resolve_policy("google", "google-generative-ai", "gemini-2.5-pro"),
    "mistral": resolve_policy("mistral", "openai-completions", "mistral-large"),
}
thorough = settings(max_examples=60, deadline=None)
windows = st.sampled_from([8_000, 16_000, 32_000])


def turns(count: int, chars: int) -> Iterator[Message]:
    for number in range(count):
        yield user(f"ask {number} 请看 " + "x" * chars)
        yield assistant(call(f"c{number}", path=f"src/f{number}.py"), stop="toolUse")
        yield result(f"c{number}", "r" * chars)
        yield assistant(f"answer {number} " + "y" * chars)


def compacted(root: Path, history: list[Message], window: int, **compaction: Any) -> tuple[TurnHome, Outcome]:
    home = make_home(root, model=scripted(window=window), settings={"compaction": compaction}, live=False)
    home.say(*history)
    return home, asyncio.run(run_compaction(home.context, home.session, trigger="threshold"))


@given(broken=session_histories, window=windows, keep=st.integers(1, 3_000), after=st.integers(0, 2))
@thorough
def test_the_visible_context_is_accepted_by_every_provider(
    broken: tuple[Message, ...], window: int, keep: int, after: int
) -> None:
    spoken = [Message({"timestamp": START_MS, **m.raw}) for m in broken if m.role != "compactionSummary"]
    with TemporaryDirectory() as folder:
        history = [*turns(6, 1_200), *spoken, *turns(after, 300)]
        home, _ = compacted(Path(folder), history, window, keep_recent_tokens=keep)
        visible = home.transcript.context().messages
    for provider, policy in POLICIES.items():
        prepared = prepare_request(sanitize_history(visible, policy, START_MS).messages, policy, START_MS).messages
        assert problems(prepared, provider) == ()


@given(st.integers(1, 12), st.integers(1, 4_000), windows, st.integers(1, 6_000), st.integers(0, 5), st.integers(1, 3))
@thorough
def test_after_a_compaction_the_context_is_smaller_and_holds_the_last_turns(
    count: int, chars: int, window: int, keep: int, recent: int, rounds: int
) -> None:
    history = list(turns(count, chars))
    with TemporaryDirectory() as folder:
        home = make_home(
            Path(folder),
            model=scripted(window=window),
            settings={"compaction": {"keep_recent_tokens": keep, "recent_turns_preserve": recent}},
            live=False,
        )
        for _ in range(rounds):
            home.say(*history)
            before = total(home.context.counter, home.transcript.context().messages)
            outcome = asyncio.run(run_compaction(home.context, home.session, trigger="threshold"))
            visible = home.transcript.context().messages
            if not outcome.compacted:
                assert home.transcript.branch()[-1].type == "message"
                continue
            assert total(home.context.counter, visible) < before
            summary = str(visible[0].raw["summary"])
            assert weighted_chars(summary) <= min(16_000, window // 2)
            whole = [m.text for m in visible if m.role == "user"]
            for ask in [m.text for m in history if m.role == "user"][-recent:] if recent else []:
                assert ask in whole or "Recent turns" in summary or "left out to fit budget" in summary


def test_kept_turns_have_their_original_bytes(tmp_path: Path) -> None:
    history = list(turns(10, 900))
    home, outcome = compacted(tmp_path, history, 16_000, keep_recent_tokens=1_500)
    assert outcome.plan is not None
    kept = [m.raw for m in home.transcript.context().messages[1:]]
    assert kept == [m.raw for m in history[-len(kept) :]]
