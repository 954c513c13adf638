"""Models by name: what is known of them, how they are reached, what is said when they cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngraph.config import AgentSettings, load_settings
from turngraph.config.notices import notices
from turngraph.errors import ConfigError, ModelError
from turngraph.models.registry import make_model, model_facts, split_name
from turngraph.models.table import packaged_facts, packaged_table


def settings(root: Path, *sets: str) -> AgentSettings:
    (root / "turngraph.json5").write_text("{}")
    return load_settings(root, sets=sets, env={}).agent("main")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("anthropic:claude-opus-5", ("anthropic", "claude-opus-5")),
        ("google/gemini-3-pro", ("google_genai", "gemini-3-pro")),
        ("ollama:llama3.2:70b", ("ollama", "llama3.2:70b")),
        ("openrouter/meta/llama-4", ("openrouter", "meta/llama-4")),
        ("offline", ("offline", "offline")),
    ],
)
def test_names_are_split_at_the_first_sign(name: str, split: tuple[str, str]) -> None:
    assert split_name(name) == split


@pytest.mark.parametrize("alias", ["Fast", "fast", " FAST "])
def test_an_alias_stands_for_its_model_in_any_case(tmp_path: Path, alias: str) -> None:
    choices = settings(tmp_path, 'agents.defaults.models={"openai/gpt-4o": {alias: "Fast"}, offline: {alias: "here"}}')
    facts = model_facts(alias, choices)
    assert (facts.provider, facts.model_id) == ("openai", "gpt-4o")
    assert make_model("Here", choices).facts.provider == "offline"


def test_a_server_may_be_named_with_capitals(tmp_path: Path) -> None:
    pytest.importorskip("langchain_openai")
    own = settings(tmp_path, 'models.providers.MyServer={baseUrl: "http://localhost:1/v1", apiKey: "k"}')
    assert make_model("MyServer:Qwen3", own).facts.model_id == "Qwen3"
    assert make_model("myserver/Qwen3", own).facts.provider == "myserver"


def test_the_packaged_table_is_dated_and_the_longest_prefix_wins() -> None:
    assert packaged_table()["date"] == "2025-11-30"
    assert packaged_table()["windowsDate"] >= packaged_table()["date"]
    small, large = packaged_facts("openai", "gpt-5-mini-2025-08-07"), packaged_facts("openai", "gpt-5-2025-08-07")
    assert small is not None and large is not None and small.cost["input"] < large.cost["input"]
    assert packaged_facts("openai", "nothing-like-it") is None
    for row in packaged_table()["models"]:
        assert row["window"] >= 32_000 and row.get("cost", {"input": 1}).get("input") is not None


def test_settings_lie_over_the_table_model_by_model(tmp_path: Path) -> None:
    entry = '{id: "gpt-4o", contextWindow: 16000, maxTokens: 1000, input: ["text"], reasoning: true}'
    facts = model_facts("openai:gpt-4o", settings(tmp_path, f"models.providers.openai.models=[{entry}]"))
    assert (facts.context_window, facts.max_output_tokens, facts.images, facts.reasoning) == (
        16_000,
        1_000,
        False,
        True,
    )
    other = model_facts("openai:gpt-4o-mini", settings(tmp_path, f"models.providers.openai.models=[{entry}]"))
    assert other.context_window == 128_000


def test_a_window_below_8k_is_an_error_and_below_16k_a_notice(tmp_path: Path) -> None:
    (tmp_path / "turngraph.json5").write_text("{}")
    entry = 'models.providers.openai.models=[{{id: "gpt-4o", contextWindow: {0}}}]'
    with pytest.raises(ConfigError, match=r"contextWindow"):
        load_settings(tmp_path, sets=(entry.format(7_999),), env={})
    small, roomy = (settings(tmp_path, entry.format(window)) for window in (8_000, 16_000))
    (told,) = notices([small], "turngraph.json5")
    assert "openai:gpt-4o is small (8000 tokens)" in told
    assert notices([roomy], "turngraph.json5") == ()


def test_a_missing_key_names_the_setting_and_the_variable(tmp_path: Path) -> None:
    pytest.importorskip("langchain_openai")
    with pytest.raises(ModelError, match=r"models\.providers\.openai\.apiKey or OPENAI_API_KEY") as raised:
        make_model("openai:gpt-4o", settings(tmp_path), env={})
    assert raised.value.kind == "auth"


def test_an_unknown_provider_is_told_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"models\.providers\.acme\.baseUrl") as raised:
        make_model("acme:one", settings(tmp_path), env={})
    assert raised.value.kind == "missing"


@pytest.mark.parametrize("name", ["acme", "openai-compatible"])
def test_a_server_of_ones_own_needs_an_address_and_no_key(name: str, tmp_path: Path) -> None:
    pytest.importorskip("langchain_openai")
    chosen = settings(tmp_path, f"models.providers.{name}.baseUrl=http://127.0.0.1:9/v1")
    model = make_model(f"{name}:one", chosen, env={})
    assert (model.facts.provider, model.facts.model_id, model.facts.context_window) == (name, "one", 200_000)


def test_the_offline_model_needs_nothing(tmp_path: Path) -> None:
    assert make_model("offline", settings(tmp_path), env={}).facts.provider == "offline"
