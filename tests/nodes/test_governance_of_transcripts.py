"""Every request made from real transcripts is accepted by every provider, whatever the window."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest

from nodes.guard_tools import Window, cap_results, govern
from nodes.history.validators import Provider, problems
from nodes.limit_history import limit_and_settle
from nodes.prune import prune_results
from nodes.prune_rules import PruneRules
from nodes.sanitize import prepare_request, repair_history
from tests.nodes.histories import NOW_MS, POLICIES
from turngraph.messages import Message
from turngraph.tokens import EstimateCounter

ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "turngraph/data/samples/home/agents/main/sessions").glob("*.jsonl*"))
RECORDED = sorted(
    Path(os.environ.get("TURNGRAPH_TRANSCRIPTS", ROOT.parent / "shared" / "data" / "transcripts")).glob("*.jsonl")
)
WINDOWS = (16_000, 32_000, 64_000, 200_000)


def messages_of(path: Path) -> tuple[Message, ...]:
    messages = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(json.JSONDecodeError):  # a sample ends in half a line, as after a crash
            entry = json.loads(line)
            if entry.get("type") == "message":
                messages.append(Message(entry["message"]))
    return tuple(messages)


def request_at(history: tuple[Message, ...], provider: Provider, window_tokens: int) -> tuple[Message, ...]:
    policy = POLICIES[provider]
    window = Window(window_tokens, reserve_tokens=window_tokens // 8)
    repaired = repair_history(history, policy, NOW_MS).messages
    limited = limit_and_settle(repaired, None, policy, NOW_MS).messages
    shown = cap_results(limited, window.limits.per_result).messages
    pruned = prune_results(shown, window_tokens, PruneRules()).messages
    governed = govern(pruned, window, EstimateCounter(), last_resort=True).messages
    return prepare_request(governed, policy, NOW_MS).messages


def check(path: Path, every: int) -> None:
    messages = messages_of(path)
    ends = [index for index, message in enumerate(messages) if index and message.role == "assistant"]
    for end in ends[::every]:
        for provider in POLICIES:
            for window_tokens in WINDOWS:
                request = request_at(messages[:end], provider, window_tokens)
                assert problems(request, provider, complete=True) == (), (path.name, end, provider, window_tokens)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name[:8])
def test_requests_of_the_sample_sessions_are_accepted(path: Path) -> None:
    check(path, every=20)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED, reason="no recorded transcripts beside this checkout; set TURNGRAPH_TRANSCRIPTS")
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_requests_of_recorded_sessions_are_accepted(path: Path) -> None:
    check(path, every=40)
