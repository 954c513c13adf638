"""Give chunks their vectors, from the cache or from the embedder, outside of any lock.

What was embedded before a failure is kept, so that the next try asks only for the rest.
Source: spec/memory.md 3.7 and 3.8; known-faults 7.9, 7.10, 7.14.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stores.memory import vector
from stores.memory.chunking import split_to_bytes
from stores.memory.database import Database
from stores.memory.embedding_cache import EmbeddingCache
from turngraph.errors import ModelError
from turngraph.models.embedders import Embedder
from turngraph.models.provider_errors import model_error

ROWS_A_TRANSACTION = 256
MAX_ROWS_A_TRANSACTION = 4_096  # 8 MB of vectors
QUICK_S = 1.0  # readers see vectors no later than the next few seconds
TEXTS_A_CALL = 16
HARD_INPUT_BYTES = 8_000  # spec/memory.md 2.3
COOL_DOWN_S = 60.0
STOPPED = "stopped"
_COOLING_KINDS = frozenset({"rate", "quota", "auth", "network", "timeout", "server"})

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Embedded:
    """How far the vectors are: written now, still pending, and why it stopped early."""

    written: int
    pending: int
    failure: str | None = None


@dataclass(slots=True)
class GuardedEmbedder:
    """An embedder whose failures become one :class:`ModelError`, and which is left alone for a while after some.

    Attributes:
        inner: the embedder.
        now: monotonic seconds.
    """

    inner: Embedder
    now: Callable[[], float] = time.monotonic
    _until: float = 0.0
    _reason: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def id(self) -> str:
        return self.inner.id

    def query(self, text: str) -> vector.Floats | None:
        """Return the vector of a query, ``None`` when it holds no direction. Raises ``ModelError``."""
        raw = self._call(lambda: self.inner.embed_query(text))
        unit = vector.sanitized(raw).astype(np.float32)
        return unit if unit.any() else None

    def documents(self, texts: Sequence[str]) -> list[Any]:
        """Return one raw vector a text; longer ones than the model takes are split and averaged."""
        limit = min(HARD_INPUT_BYTES, self.inner.max_input_tokens)
        parts = [split_to_bytes(text, limit) for text in texts]
        flat = [part for split in parts for part in split]
        found = list(self._call(lambda: self.inner.embed_documents(flat)))
        if len(found) != len(flat):
            raise ModelError(f"{self.id} gave {len(found)} vectors for {len(flat)} texts")
        if len(flat) == len(parts):
            return found
        vectors = iter(found)
        return [_mean([next(vectors) for _ in split]) for split in parts]

    def _call(self, request: Callable[[], Any]) -> Any:
        with self._lock:
            left = self._until - self.now()
            if left > 0:
                raise ModelError(f"left alone for {left:.0f} s more: {self._reason}", kind="rate", retry_after_s=left)
        try:
            return request()
        # Embedders come from anywhere and raise anything; keyword search must go on with the reason.
        except Exception as raised:
            error = raised if isinstance(raised, ModelError) else model_error(raised, self.id)
            if error.kind in _COOLING_KINDS or "quota" in str(error).lower():
                with self._lock:
                    self._until = self.now() + (error.retry_after_s or COOL_DOWN_S)
                    self._reason = str(error)
            raise error from raised


def _mean(vectors: Sequence[Any]) -> Any:
    units = [vector.usable(raw, None) for raw in vectors]
    if any(unit is None for unit in units) or not units:
        return vectors[0] if vectors else []
    return np.mean(np.stack([unit for unit in units if unit is not None]), axis=0)


def embed_pending(
    database: Database,
    cache: EmbeddingCache | None,
    embedder: GuardedEmbedder,
    now_ms: Callable[[], int],
    *,
    dimensions: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Embedded:
    """Embed every chunk that has no vector of this model until ``stop`` says so, 256 rows a transaction at first.

    A transaction costs the more the larger the index is. So where embedding is quick, as from the cache, they grow.
    A failing call is tried again in halves, so that one bad text keeps no others back. Cached vectors count only when
    they have ``dimensions``, where these are known.
    """
    written = 0
    with database.read() as connection:
        total = vector.pending_count(connection, embedder.id)
    size = ROWS_A_TRANSACTION
    while not stop():
        started = time.monotonic()
        with database.read() as connection:
            rows = vector.pending(connection, embedder.id, size)
        if not rows:
            return Embedded(written, 0)
        known = cache.get(embedder.id, [row[1] for row in rows]) if cache else {}
        found: dict[str, Any] = {key: unit for key, unit in known.items() if dimensions in (None, len(unit))}
        missing = {key: text for _, key, text in rows if key not in found}
        failure = _embed_texts(missing, found, cache, embedder, now_ms, stop)
        ready = [(number, key) for number, key, _ in rows if key in found]
        if ready:
            problem = _write(database, embedder.id, ready, found)
            if problem is not None:
                return Embedded(written, total - written, f"{embedder.id} {problem}")
            written += len(ready)
            if progress:
                progress("vectors", written, total)
        if failure is not None:
            return Embedded(written, total - written, failure)
        if time.monotonic() - started < QUICK_S:
            size = min(2 * size, MAX_ROWS_A_TRANSACTION)
    return Embedded(written, total - written, STOPPED)


def _embed_texts(
    missing: dict[str, str],
    found: dict[str, Any],
    cache: EmbeddingCache | None,
    embedder: GuardedEmbedder,
    now_ms: Callable[[], int],
    stop: Callable[[], bool],
) -> str | None:
    keys = list(missing)
    for start in range(0, len(keys), TEXTS_A_CALL):
        if stop():
            return STOPPED
        failure = _embed_group(keys[start : start + TEXTS_A_CALL], missing, found, cache, embedder, now_ms)
        if failure is not None:
            return failure
    return None


def _embed_group(
    keys: list[str],
    texts: dict[str, str],
    found: dict[str, Any],
    cache: EmbeddingCache | None,
    embedder: GuardedEmbedder,
    now_ms: Callable[[], int],
) -> str | None:
    try:
        vectors = embedder.documents([texts[key] for key in keys])
    except ModelError as error:
        if len(keys) == 1 and error.kind == "bad_request":
            found[keys[0]] = None  # the model will never take this text; it stays without a vector
            return None
        if len(keys) == 1 or error.kind in _COOLING_KINDS:
            return str(error)
        middle = len(keys) // 2
        first = _embed_group(keys[:middle], texts, found, cache, embedder, now_ms)
        return first or _embed_group(keys[middle:], texts, found, cache, embedder, now_ms)
    new = {key: vector.usable(raw, None) for key, raw in zip(keys, vectors, strict=True)}
    found.update(new)
    if cache is not None:
        cache.put(embedder.id, [(key, unit) for key, unit in new.items() if unit is not None], now_ms())
    return None


def _write(database: Database, model: str, ready: list[tuple[int, str]], found: dict[str, Any]) -> str | None:
    """Store vectors; one that is not as long as all others counts as none. Return why nothing could be stored."""
    lengths = {len(found[key]) for _, key in ready if found[key] is not None}
    with database.write() as connection:
        dimensions = vector.stored_dimensions(connection, model) or next(iter(lengths), None)
        if dimensions is None:
            return "gave no usable vector"
        if lengths and dimensions not in lengths:
            new = ", ".join(map(str, sorted(lengths)))
            return f"gives {new} dimensions now, the index holds {dimensions}; run `turngraph memory index --force`"
        rows = [
            (number, found[key] if found[key] is not None and len(found[key]) == dimensions else None)
            for number, key in ready
        ]
        vector.write_vectors(connection, model, dimensions, rows)
    return None
