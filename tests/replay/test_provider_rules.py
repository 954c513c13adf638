"""Every request of a replay is one that its provider would take, whatever the provider and the window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.governance_replay import MODELS, WINDOWS, refused, replayed
from nodes.history.validators import PROVIDERS, Provider
from turngraph.config import load_settings
from turngraph.replay.samples import sample_sessions, write_sample_home

ROOT = Path(__file__).parents[2]
RECORDED = sorted(
    Path(os.environ.get("TURNGRAPH_TRANSCRIPTS", ROOT.parent / "shared" / "data" / "transcripts")).glob("*.jsonl")
)


def check(path: Path, home: Path, provider: Provider, window_tokens: int, session_key: str) -> None:
    settings = load_settings(home, env={}).agent("main")
    turns = replayed(path, settings, window_tokens, session_key=session_key, as_model=MODELS[provider])
    made, bad = refused(turns, provider)
    assert made and bad == 0, (path.name, provider, window_tokens)
    assert {turn.trace.facts["model"] for turn in turns} == {MODELS[provider].name}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_sample_session_is_taken_by_every_provider(tmp_path: Path, provider: Provider) -> None:
    write_sample_home(tmp_path)
    sample = min(sample_sessions(tmp_path), key=lambda s: (tmp_path / "agents/main/sessions" / s.file).stat().st_size)
    check(tmp_path / "agents/main/sessions" / sample.file, tmp_path, provider, 16_000, sample.session_key)


@pytest.mark.slow
@pytest.mark.parametrize("window_tokens", WINDOWS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_all_sample_sessions_are_taken_by_every_provider(
    tmp_path: Path, provider: Provider, window_tokens: int
) -> None:
    write_sample_home(tmp_path)
    for sample in sample_sessions(tmp_path):
        path = tmp_path / "agents/main/sessions" / sample.file
        check(path, tmp_path, provider, window_tokens, sample.session_key)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDED, reason="no recorded transcripts beside this checkout; set TURNGRAPH_TRANSCRIPTS")
@pytest.mark.parametrize("window_tokens", WINDOWS)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_sessions_are_taken_by_every_provider(
    tmp_path: Path, path: Path, provider: Provider, window_tokens: int
) -> None:
    check(path, tmp_path, provider, window_tokens, "agent:main:main")
