"""Embedders of providers through langchain-core: batches, retries, Retry-After, one cool-down for each provider.

Source: spec/memory.md 3.8; spec/settings.md sections 3 and 11.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turngraph.errors import ModelError
from turngraph.models.embedders import max_input_tokens
from turngraph.models.provider_errors import model_error

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

_T = TypeVar("_T")

BATCH_BYTES = 8_000  # spec/memory.md 3.8
TRANSIENT_TRIES, TRANSIENT_PAUSE_S = 3, 0.5
RATE_TRIES, RATE_PAUSE_S = 5, 5.0
MAX_PAUSE_S = 60.0
COOL_DOWN_S = 60.0
QUOTA_COOL_DOWN_S = 900.0


class LangChainEmbeddings(Protocol):
    """What is used of ``langchain_core.embeddings.Embeddings``."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...

    def embed_query(self, text: str) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class EmbeddingProvider:
    """How to make the embedder of a provider: its langchain class, our extra, key, default model, argument names."""

    module: str
    class_name: str
    extra: str
    key: str | None
    default_model: str
    key_argument: str = "api_key"
    address_argument: str = "base_url"
    dimensions_argument: str | None = None


PROVIDERS: Mapping[str, EmbeddingProvider] = {
    "openai": EmbeddingProvider(
        "langchain_openai",
        "OpenAIEmbeddings",
        "openai",
        "OPENAI_API_KEY",
        "text-embedding-3-small",
        dimensions_argument="dimensions",
    ),
    "google_genai": EmbeddingProvider(
        "langchain_google_genai",
        "GoogleGenerativeAIEmbeddings",
        "google",
        "GOOGLE_API_KEY",
        "gemini-embedding-001",
        key_argument="google_api_key",
        dimensions_argument="output_dimensionality",
    ),
    "voyageai": EmbeddingProvider(
        "langchain_voyageai", "VoyageAIEmbeddings", "voyage", "VOYAGE_API_KEY", "voyage-4-large"
    ),
    "mistralai": EmbeddingProvider(
        "langchain_mistralai",
        "MistralAIEmbeddings",
        "mistral",
        "MISTRAL_API_KEY",
        "mistral-embed",
        address_argument="endpoint",
    ),
    "ollama": EmbeddingProvider("langchain_ollama", "OllamaEmbeddings", "ollama", None, "nomic-embed-text"),
    "openai-compatible": EmbeddingProvider(
        "langchain_openai",
        "OpenAIEmbeddings",
        "openai",
        None,
        "text-embedding-3-small",
        dimensions_argument="dimensions",
    ),
}


@dataclass(slots=True)
class CoolDowns:
    """Until when a provider is left alone, shared by everything in the process that calls it."""

    now: Callable[[], float] = time.monotonic
    _until: dict[str, tuple[float, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, provider: str, seconds: float, reason: str) -> None:
        """Leave ``provider`` alone for a while."""
        with self._lock:
            self._until[provider] = (self.now() + seconds, reason)

    def check(self, provider: str) -> None:
        """Raise a rate error while the provider cools down."""
        with self._lock:
            until, reason = self._until.get(provider, (0.0, ""))
        left = until - self.now()
        if left > 0:
            text = f"{provider} is left alone for {left:.0f} s more: {reason}"
            raise ModelError(text, kind="rate", retryable=True, retry_after_s=left)


COOL_DOWNS = CoolDowns()


class RemoteEmbedder:
    """Any langchain embedder, with batches, retries and the provider's cool-down."""

    is_remote = True

    def __init__(
        self,
        inner: LangChainEmbeddings,
        provider: str,
        model: str,
        *,
        variant: str = "",
        cool_downs: CoolDowns = COOL_DOWNS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = ":".join(part for part in (provider, model, variant) if part)
        self.max_input_tokens = max_input_tokens(provider, model)
        self._inner = inner
        self._provider = provider
        self._cool_downs = cool_downs
        self._sleep = sleep

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in batches(texts, BATCH_BYTES):
            vectors += self._embed_batch(batch)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        # A question does not wait for a provider: one try, and keywords answer meanwhile.
        return self._call(lambda: self._inner.embed_query(text), may_wait=False)

    def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        try:
            return self._call(lambda: self._inner.embed_documents(texts), may_wait=True)
        except ModelError as error:
            if error.kind not in ("bad_request", "overflow") or len(texts) == 1:
                raise
        middle = len(texts) // 2
        return self._embed_batch(texts[:middle]) + self._embed_batch(texts[middle:])

    def _call(self, request: Callable[[], _T], *, may_wait: bool) -> _T:
        tries = 0
        while True:
            self._cool_downs.check(self._provider)
            try:
                return request()
            except Exception as raised:
                error = raised if isinstance(raised, ModelError) else model_error(raised, self.id)
                tries += 1
                pause = _pause_s(error, tries) if may_wait else None
                if pause is None:
                    self._cool(error)
                    raise error from raised
            self._sleep(pause)

    def _cool(self, error: ModelError) -> None:
        if error.kind == "quota":
            self._cool_downs.start(self._provider, QUOTA_COOL_DOWN_S, "its quota is used up")
        elif error.kind in ("rate", "server", "network", "timeout", "auth"):
            self._cool_downs.start(
                self._provider, error.retry_after_s or COOL_DOWN_S, f"last call failed ({error.kind})"
            )


def _pause_s(error: ModelError, tries: int) -> float | None:
    """Return how long to wait before the next try, ``None`` to give up."""
    if not error.retryable or error.kind == "quota":
        return None
    limit, first = (RATE_TRIES, RATE_PAUSE_S) if error.kind == "rate" else (TRANSIENT_TRIES, TRANSIENT_PAUSE_S)
    if tries >= limit:
        return None
    wanted = error.retry_after_s if error.retry_after_s is not None else first * 2 ** (tries - 1)
    return wanted if wanted <= MAX_PAUSE_S else None


def batches(texts: Sequence[str], max_bytes: int) -> list[list[str]]:
    """Pack texts into batches of at most ``max_bytes`` of UTF-8; a larger text goes alone."""
    packed: list[list[str]] = []
    room = 0
    for text in texts:
        size = len(text.encode("utf-8", "replace"))
        if not packed or size > room:
            packed.append([])
            room = max_bytes
        packed[-1].append(text)
        room -= size
    return packed


def make_remote(name: str, settings: AgentSettings, env: Mapping[str, str]) -> RemoteEmbedder:
    """Make the embedder of a provider as the settings describe it.

    Raises:
        ModelError: unknown provider or missing package (kind "missing"), missing key (kind "auth").
    """
    how = PROVIDERS.get(name)
    if how is None:
        raise ModelError(
            f"no embedding provider {name!r}; known: auto, none, hash, {', '.join(PROVIDERS)}", kind="missing"
        )
    try:
        made: Callable[..., LangChainEmbeddings] = getattr(import_module(how.module), how.class_name)
    except ImportError as error:
        advice = f"pip install 'turngraph[{how.extra}]'"
        raise ModelError(f"embedding provider {name!r} needs a package: {advice}", kind="missing") from error
    search = settings.memory_search
    model = search.model or how.default_model
    arguments = _arguments(name, how, model, settings, env)
    variant = ",".join(
        filter(
            None,
            (str(search.output_dimensionality or ""), search.document_input_type or search.input_type or ""),
        )
    )
    return RemoteEmbedder(made(**arguments), name, model, variant=variant)


def _arguments(
    name: str, how: EmbeddingProvider, model: str, settings: AgentSettings, env: Mapping[str, str]
) -> dict[str, Any]:
    search = settings.memory_search
    configured = settings.models.providers.get(name)
    arguments: dict[str, Any] = {"model": model}
    key = search.remote.api_key or (configured and configured.api_key) or (env.get(how.key) if how.key else None)
    if how.key and not key:
        where = f"memorySearch.remote.apiKey, models.providers.{name}.apiKey or {how.key}"
        raise ModelError(f"no key for embeddings of {name}; set {where}", kind="auth")
    if how.module != "langchain_ollama":
        arguments[how.key_argument] = key or "none"
    address = search.remote.base_url or (configured and configured.base_url)
    if name == "openai-compatible" and not address:
        raise ModelError("openai-compatible needs an address; set memorySearch.remote.baseUrl", kind="missing")
    if address:
        arguments[how.address_argument] = address
    secret = search.remote.headers or (configured.headers if configured else {})
    headers = {name: value.get_secret_value() for name, value in secret.items()}
    if how.module == "langchain_openai":
        arguments["max_retries"] = 0
        arguments["check_embedding_ctx_length"] = name == "openai"
        if headers:
            arguments["default_headers"] = headers
    if search.output_dimensionality and how.dimensions_argument:
        arguments[how.dimensions_argument] = search.output_dimensionality
    return arguments
