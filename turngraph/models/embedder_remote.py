"""Ask an embedder of langchain-core: batches, time limits, retries, Retry-After, one cool-down for each provider.

Source: spec/memory.md 3.8.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from turngraph.errors import ModelError
from turngraph.models.embedders import max_input_tokens
from turngraph.models.provider_errors import model_error

_T = TypeVar("_T")

BATCH_BYTES = 8_000  # spec/memory.md 3.8
TRANSIENT_TRIES, TRANSIENT_PAUSE_S = 3, 0.5
RATE_TRIES, RATE_PAUSE_S = 5, 5.0
MAX_PAUSE_S = 60.0
COOL_DOWN_S = 60.0
QUOTA_COOL_DOWN_S = 900.0
QUERY_LIMIT_S = 8.0
BATCH_LIMIT_S = 120.0


class LangChainEmbeddings(Protocol):
    """What is used of ``langchain_core.embeddings.Embeddings``."""

    def embed_documents(self, texts: list[str], **options: Any) -> list[list[float]]: ...

    def embed_query(self, text: str, **options: Any) -> list[float]: ...


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
    """Any langchain embedder, with batches, time limits, retries and the provider's cool-down.

    Args:
        inner, provider, model: what is asked.
        variant: names whatever else changes the vectors.
        document_options, query_options: given to ``inner`` with each call.
        batch_limit_s, query_limit_s: how long one call may take.
    """

    is_remote = True

    def __init__(
        self,
        inner: LangChainEmbeddings,
        provider: str,
        model: str,
        *,
        variant: str = "",
        document_options: Mapping[str, Any] = MappingProxyType({}),
        query_options: Mapping[str, Any] = MappingProxyType({}),
        batch_limit_s: float = BATCH_LIMIT_S,
        query_limit_s: float = QUERY_LIMIT_S,
        cool_downs: CoolDowns = COOL_DOWNS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = ":".join(part for part in (provider, model, variant) if part)
        self.max_input_tokens = max_input_tokens(provider, model)
        self._inner = inner
        self._provider = provider
        self._document_options = document_options
        self._query_options = query_options
        self._batch_limit_s = batch_limit_s
        self._query_limit_s = query_limit_s
        self._cool_downs = cool_downs
        self._sleep = sleep

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in batches(texts, BATCH_BYTES):
            vectors += self._embed_batch(batch)
        return vectors

    def embed_query(self, text: str) -> list[float]:
        # A question does not wait for a provider: one try, and keywords answer meanwhile.
        return self._call(
            lambda: within(self._query_limit_s, self.id, lambda: self._inner.embed_query(text, **self._query_options)),
            may_wait=False,
        )

    def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        try:
            return self._call(
                lambda: within(
                    self._batch_limit_s, self.id, lambda: self._inner.embed_documents(texts, **self._document_options)
                ),
                may_wait=True,
            )
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


def within(seconds: float, name: str, request: Callable[[], _T]) -> _T:
    """Return what ``request`` gives, or raise a timeout; the packages have no limit in common that could be set.

    A call that hangs is left behind in its thread.
    """
    answer: Future[_T] = Future()

    def ask() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, name="embedding-request", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        if answer.done():
            raise
        raise ModelError(f"{name}: no answer within {seconds:g} s", kind="timeout", retryable=True) from None


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
