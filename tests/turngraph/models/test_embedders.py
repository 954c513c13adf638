"""Embedders by name: the offline one, and how remote ones are asked."""

from __future__ import annotations

import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turngraph.config import AgentSettings, default_settings
from turngraph.errors import ModelError
from turngraph.models.embedder_providers import PROVIDERS
from turngraph.models.embedder_remote import CoolDowns, RemoteEmbedder, batches
from turngraph.models.embedder_use import UniversalSentenceEncoder
from turngraph.models.embedders import HashEmbedder, embedder_or_reason, make_embedder


class Refusal(Exception):
    """What a provider package raises."""

    def __init__(self, status_code: int, retry_after: str | None = None) -> None:
        self.status_code = status_code
        self.response = type("Response", (), {"headers": {"retry-after": retry_after} if retry_after else {}})()
        super().__init__(f"HTTP {status_code}")


class Scripted:
    """A langchain embedder that fails as scripted, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.calls: list[list[str]] = []

    def embed_documents(self, texts: list[str], **_: Any) -> list[list[float]]:
        self.calls.append(texts)
        if self.failures:
            raise self.failures.pop(0)
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str, **_: Any) -> list[float]:
        return self.embed_documents([text])[0]


def _remote(inner: Any, cool_downs: CoolDowns | None = None) -> tuple[RemoteEmbedder, list[float]]:
    waited: list[float] = []
    made = RemoteEmbedder(inner, "openai", "m", cool_downs=cool_downs or CoolDowns(lambda: 0.0), sleep=waited.append)
    return made, waited


def _settings(**search: Any) -> AgentSettings:
    base = default_settings()
    return base.model_copy(update={"memory_search": type(base.memory_search).model_validate(search)})


def test_retry_after_is_honoured_and_transient_failures_are_retried() -> None:
    embedder, waited = _remote(Scripted(Refusal(429, "7"), Refusal(503)))
    assert embedder.embed_documents(["ab"]) == [[2.0, 1.0]]
    assert waited == [7.0, 1.0]


def test_a_batch_that_is_too_large_is_halved() -> None:
    inner = Scripted(Refusal(413))
    embedder, _ = _remote(inner)
    assert embedder.embed_documents(["a", "bb", "ccc"]) == [[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]
    assert inner.calls == [["a", "bb", "ccc"], ["a"], ["bb", "ccc"]]


def test_one_cool_down_serves_everything_that_asks_the_provider() -> None:
    cool_downs = CoolDowns(lambda: 0.0)
    failing, _ = _remote(Scripted(*[Refusal(401)] * 9), cool_downs)
    inner = Scripted()
    other, _ = _remote(inner, cool_downs)
    with pytest.raises(ModelError):
        failing.embed_query("x")
    with pytest.raises(ModelError, match="left alone"):
        other.embed_query("x")
    assert inner.calls == []


def test_a_question_does_not_wait() -> None:
    embedder, waited = _remote(Scripted(Refusal(429, "30")))
    with pytest.raises(ModelError):
        embedder.embed_query("x")
    assert waited == []


def test_batches_keep_order_and_size() -> None:
    assert batches(["aa", "bb", "c" * 10, "d"], 4) == [["aa", "bb"], ["c" * 10], ["d"]]


def test_what_cannot_be_made_is_a_reason_and_not_a_failure(tmp_path: Path) -> None:
    made, reason = embedder_or_reason(_settings(provider="openai"), tmp_path, env={})
    assert made is None
    assert reason is not None
    assert "OPENAI_API_KEY" in reason
    fallback, reason = embedder_or_reason(_settings(provider="openai", fallback="hash"), tmp_path, env={})
    assert isinstance(fallback, HashEmbedder)
    assert reason is not None


def test_none_means_no_embedder_and_an_unknown_name_is_said(tmp_path: Path) -> None:
    assert make_embedder(_settings(provider="none"), tmp_path) is None
    with pytest.raises(ModelError, match="no embedding provider"):
        make_embedder(_settings(provider="acme"), tmp_path)


def test_the_built_in_embedder_gives_the_same_vectors_from_its_cache(tmp_path: Path) -> None:
    texts = ["the gateway listens on port 8443", "网关监听 8443 端口", "天气不错"]
    first = UniversalSentenceEncoder(tmp_path).embed_documents(texts)
    assert (tmp_path / "models").is_dir()
    again = UniversalSentenceEncoder(tmp_path).embed_documents(texts)
    np.testing.assert_allclose(first, again, atol=1e-6)
    assert first[0] @ first[1] > first[0] @ first[2]
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1.0, atol=1e-5)


class Recorder:
    """Stands for the class of a provider package and keeps what it is told."""

    made: dict[str, Any]
    called: list[tuple[str, dict[str, Any]]]

    def __init__(self, **arguments: Any) -> None:
        type(self).made = arguments
        type(self).called = []

    def embed_documents(self, texts: list[str], **options: Any) -> list[list[float]]:
        self.called.append(("documents", options))
        return [[1.0, 0.0] for _ in texts]

    def embed_query(self, text: str, **options: Any) -> list[float]:
        self.called.append(("query", options))
        return [1.0, 0.0]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    names = {how.class_name: Recorder for how in PROVIDERS.values()}
    for how in PROVIDERS.values():
        monkeypatch.setitem(sys.modules, how.module, types.SimpleNamespace(**names))
    return Recorder


@pytest.mark.parametrize(
    ("provider", "document", "query"),
    [
        ("openai", {"extra_body": {"input_type": "passage"}}, {"extra_body": {"input_type": "query"}}),
        ("google_genai", {"task_type": "passage"}, {"task_type": "query"}),
    ],
)
def test_questions_and_notes_are_told_apart_for_a_model_that_wants_it(
    packages: type[Recorder], tmp_path: Path, provider: str, document: Any, query: Any
) -> None:
    settings = _settings(provider=provider, documentInputType="passage", queryInputType="query", remote={"apiKey": "k"})
    made = make_embedder(settings, tmp_path, env={})
    assert made is not None
    made.embed_documents(["a"])
    made.embed_query("b")
    assert packages.called == [("documents", document), ("query", query)]


@pytest.mark.parametrize(
    "search",
    [
        {"provider": "ollama", "queryInputType": "query"},
        {"provider": "mistralai", "outputDimensionality": 256, "remote": {"apiKey": "k"}},
        {"provider": "voyageai", "remote": {"apiKey": "k", "headers": {"x-team": "a"}}},
    ],
)
def test_a_setting_that_a_package_does_not_take_is_said(
    packages: type[Recorder], tmp_path: Path, search: dict[str, Any]
) -> None:
    made, reason = embedder_or_reason(_settings(**search), tmp_path, env={})
    assert made is None
    assert reason is not None
    assert "remove memorySearch." in reason


def test_headers_reach_every_package_that_takes_them(packages: type[Recorder], tmp_path: Path) -> None:
    headers = {"x-team": "a"}
    make_embedder(_settings(provider="ollama", remote={"headers": headers}), tmp_path, env={})
    assert packages.made["client_kwargs"] == {"headers": headers}
    make_embedder(_settings(provider="google_genai", remote={"apiKey": "k", "headers": headers}), tmp_path, env={})
    assert packages.made["additional_headers"] == headers


def test_a_model_of_the_same_name_at_another_address_is_another_model(packages: type[Recorder], tmp_path: Path) -> None:
    def name(**remote: Any) -> str:
        made = make_embedder(_settings(provider="openai", remote={"apiKey": "k", **remote}), tmp_path, env={})
        assert made is not None
        return made.id

    plain, here = name(), name(baseUrl="http://127.0.0.1:1/v1")
    there, routed = name(baseUrl="http://127.0.0.1:2/v1"), name(headers={"x-deployment": "b"})
    assert plain == "openai:text-embedding-3-small"
    assert len({plain, here, there, routed}) == 4
    assert name(headers={"Authorization": "Bearer other"}) == plain
    assert "127.0.0.1" not in here


def test_a_call_that_hangs_is_given_up(tmp_path: Path) -> None:
    class Hanging(Scripted):
        def embed_query(self, text: str, **options: Any) -> list[float]:
            threading.Event().wait(20)
            return []

    cool_downs = CoolDowns()
    embedder = RemoteEmbedder(Hanging(), "openai", "m", cool_downs=cool_downs, query_limit_s=0.05)
    started = time.monotonic()
    with pytest.raises(ModelError, match="no answer within") as caught:
        embedder.embed_query("x")
    assert caught.value.kind == "timeout"
    with pytest.raises(ModelError, match="left alone"):
        embedder.embed_query("x")
    assert time.monotonic() - started < 5
