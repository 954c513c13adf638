from __future__ import annotations

from pathlib import Path

import pytest

from nodes.chat_commands import asked_of
from nodes.model_choice import choose_model
from turngraph.config import load_settings
from turngraph.inbound import Inbound

KNOWN = ("anthropic:claude-sonnet-4-5", "anthropic:claude-opus-4", "openai:gpt-5", "google_genai:gemini-2.5-pro")
ALIASES = {"fast": "openai:gpt-5"}


@pytest.mark.parametrize(
    ("text", "model", "rest"),
    [
        ("openai gpt-5 hello", "openai:gpt-5", "hello"),
        ("gemini gemini-2.5-pro", "google_genai:gemini-2.5-pro", ""),
        ("anthropic/claude-opus-4 写一首诗\n第二行", "anthropic:claude-opus-4", "写一首诗\n第二行"),
        ("FAST go", "openai:gpt-5", "go"),
        ("sonnet-4 go", "anthropic:claude-sonnet-4-5", "go"),
        ("openai go", "openai:gpt-5", "go"),
        ("opus go", None, "opus go"),  # too short for a guess
        ("claude go", None, "claude go"),  # two models begin so
        ("planning the week", None, "planning the week"),
        ("http://example.org/x is down", None, "http://example.org/x is down"),
        ("", None, ""),
    ],
)
def test_a_model_is_read_off_the_text_only_when_the_settings_name_it(text: str, model: str | None, rest: str) -> None:
    choice = choose_model(text, KNOWN, ALIASES)
    assert (choice.model, choice.text) == (model, rest)


def test_a_reset_takes_the_model_and_the_rest_is_the_message(tmp_path: Path) -> None:
    (tmp_path / "turngraph.json5").write_text('{agents: {defaults: {models: {"openai/gpt-5": {alias: "fast"}}}}}')
    settings = load_settings(tmp_path, env={}).agent("main")
    asked = asked_of(Inbound(text="/new fast tell me\nmore"), settings)
    assert (asked.model, asked.text) == ("openai:gpt-5", "tell me\nmore")
    assert asked_of(Inbound(text="/compact fast"), settings).model is None
