"""Embedders by name: the built-in offline one, a hash for tests, and any langchain-core embedder.

A remote embedder is used only when the settings name it, never because a key is there.
Source: spec/memory.md 3.8 and 3.9, spec/stack.md 5, spec/settings.md section 11.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from turngraph.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turngraph.config import AgentSettings

    Vectors = NDArray[np.float32]

BUILT_IN = "use"
DEFAULT_MAX_INPUT_TOKENS = 8192

# Input limits in tokens, bytes of UTF-8 being a safe upper bound of them: spec/memory.md 2.3.
_MAX_INPUT_TOKENS: Mapping[tuple[str, str], int] = {
    ("openai", "text-embedding-3-small"): 8192,
    ("openai", "text-embedding-3-large"): 8192,
    ("openai", "text-embedding-ada-002"): 8191,
    ("google_genai", "text-embedding-004"): 2048,
    ("google_genai", "gemini-embedding-001"): 2048,
    ("google_genai", "gemini-embedding-2-preview"): 8192,
    ("voyageai", "voyage-3"): 32_000,
    ("voyageai", "voyage-3-lite"): 16_000,
    ("voyageai", "voyage-code-3"): 32_000,
}
_PROVIDER_MAX_INPUT_TOKENS: Mapping[str, int] = {"google_genai": 2048, "local": 2048}


class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes:
        id: names model and settings that change its vectors; vectors of two ids are never compared.
        is_remote: whether embedding costs money or leaves the machine.
        max_input_tokens: longest text, in tokens; longer ones are split and averaged.
    """

    @property
    def id(self) -> str: ...

    @property
    def is_remote(self) -> bool: ...

    @property
    def max_input_tokens(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> Any:
        """Return one vector a text: ``float32[n, dim]`` or lists of floats. Raises ``ModelError``."""
        ...

    def embed_query(self, text: str) -> Any:
        """Return the vector of a query: ``float32[dim]`` or a list of floats. Raises ``ModelError``."""
        ...


def max_input_tokens(provider: str, model: str) -> int:
    """Return the input limit of a model.

    >>> max_input_tokens("openai", "text-embedding-ada-002"), max_input_tokens("google_genai", "new")
    (8191, 2048)
    """
    default = _PROVIDER_MAX_INPUT_TOKENS.get(provider, DEFAULT_MAX_INPUT_TOKENS)
    return _MAX_INPUT_TOKENS.get((provider, model), default)


class HashEmbedder:
    """Signed hashes of words and character triples: deterministic and instant, for tests; it knows no meaning."""

    is_remote = False
    max_input_tokens = DEFAULT_MAX_INPUT_TOKENS

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions

    @property
    def id(self) -> str:
        return f"hash:{self.dimensions}"

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            folded = text.casefold()
            features = [*folded.split(), *(folded[i : i + 3] for i in range(len(folded) - 2))]
            for feature in features:
                number = int.from_bytes(blake2b(feature.encode(), digest_size=8).digest(), "big")
                row[(number >> 1) % self.dimensions] += 1 if number & 1 else -1
        return vectors

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_documents([text])[0]
        return vector


def make_embedder(
    settings: AgentSettings, cache_dir: Path, env: Mapping[str, str] | None = None, *, provider: str | None = None
) -> Embedder | None:
    """Make the embedder that the settings name; ``None`` for ``none``.

    Args:
        settings: settings of the agent.
        cache_dir: folder where the built-in embedder keeps its unpacked weights.
        env: environment, for keys.
        provider: in place of the configured one (``fallback``).

    Raises:
        ModelError: the provider is unknown, its package is not installed, or it has no key; kind "missing" or "auth".
    """
    name = provider or settings.memory_search.provider
    if name == "none":
        return None
    makers: dict[str, Callable[[], Embedder]] = {
        "auto": lambda: _built_in(cache_dir),
        BUILT_IN: lambda: _built_in(cache_dir),
        "hash": HashEmbedder,
    }
    if name in makers:
        return makers[name]()
    from turngraph.models.embedder_providers import make_remote

    return make_remote(name, settings, os.environ if env is None else env)


def _built_in(cache_dir: Path) -> Embedder:
    from turngraph.models.embedder_use import UniversalSentenceEncoder

    return UniversalSentenceEncoder(cache_dir)


def embedder_or_reason(
    settings: AgentSettings, cache_dir: Path, env: Mapping[str, str] | None = None
) -> tuple[Embedder | None, str | None]:
    """Make the embedder, or its fallback; what could not be made is the reason, and keywords go on.

    Source: spec/memory.md 3.9 [ours].
    """
    chosen = settings.memory_search
    try:
        return make_embedder(settings, cache_dir, env), None
    except ModelError as error:
        if chosen.fallback in ("none", chosen.provider):
            return None, str(error)
        reason = str(error)
    try:
        return make_embedder(settings, cache_dir, env, provider=chosen.fallback), reason
    except ModelError as error:
        return None, f"{reason}; fallback {chosen.fallback}: {error}"
