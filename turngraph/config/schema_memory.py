"""Settings of the memory index and its search: ``agents.defaults.memorySearch``.

Source: spec/settings.md section 11.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, ValidationInfo, field_validator

from turngraph.config.fields import (
    Allowed,
    FilePath,
    Int,
    Natural,
    Positive,
    Ratio,
    Secret,
    Section,
    canonical_provider,
    explained,
    read_as,
)


def _embedder(value: str) -> str:
    return "auto" if value == "local" else canonical_provider(value)


Embedder = Annotated[str, AfterValidator(_embedder)]


class RemoteEmbedder(Section):
    """Address and key of the embedding provider; what is absent comes from ``models.providers``."""

    base_url: str | None = None
    api_key: Secret | None = None
    headers: dict[str, Secret] = Field(default_factory=dict)


class Experimental(Section):
    """Switches of things that may still change."""

    session_memory: bool = False


class ExtraPath(Section):
    """One more folder or file to index; ``pattern`` is a glob below a folder."""

    path: FilePath
    pattern: str | None = None


def _extra_path(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


class VectorIndex(Section):
    """The vector leg of the index."""

    enabled: bool = True


class IndexStore(Section):
    """The index file; ``{agentId}`` in the path stands for the agent."""

    path: FilePath | None = None
    vector: VectorIndex = Field(default_factory=VectorIndex)


class Chunking(Section):
    """Chunk size and overlap, in tokens of four weighted characters."""

    tokens: Positive = 400
    overlap: Natural = Field(default_factory=lambda data: min(80, data.get("tokens", 400) - 1))

    @field_validator("overlap")
    @classmethod
    def _below_size(cls, overlap: int, info: ValidationInfo) -> int:
        tokens = info.data.get("tokens", overlap + 1)
        how = read_as(info)
        if overlap < tokens or how.partial:
            return overlap
        if how.lenient:
            return int(tokens) - 1
        raise explained(f"must be below chunking.tokens ({tokens})")


class SessionSync(Section):
    """Growth of a transcript that marks it for indexing, and which transcripts count."""

    delta_bytes: Natural = 100_000
    delta_messages: Natural = 50
    post_compaction_force: bool = True
    include_subagents: bool = False


class Sync(Section):
    """What starts an index sync."""

    on_session_start: bool = True
    on_search: bool = True
    watch: bool = True
    watch_debounce_ms: Natural = 1_500
    interval_minutes: Natural = 0
    sessions: SessionSync = Field(default_factory=SessionSync)


class Mmr(Section):
    """Diversity of the hits."""

    enabled: bool = False
    lambda_: Ratio = Field(default=0.7, alias="lambda")


class TemporalDecay(Section):
    """Lower scores for older notes, never below ``floor``."""

    enabled: bool = False
    half_life_days: Positive = 30
    floor: Ratio = 0.5


class Hybrid(Section):
    """Keyword and vector legs; the weights are divided by their sum, a sum of 0 means the defaults."""

    enabled: bool = True
    text_weight: Ratio = 0.7
    vector_weight: Ratio = 0.3
    candidate_multiplier: Int = Field(default=4, ge=1, le=20)
    mmr: Mmr = Field(default_factory=Mmr)
    temporal_decay: TemporalDecay = Field(default_factory=TemporalDecay)


class Query(Section):
    """How many hits a search gives, and from which score."""

    max_results: Positive = 6
    min_score: Ratio = 0.35
    hybrid: Hybrid = Field(default_factory=Hybrid)


class EmbeddingCache(Section):
    """The cache of embeddings; no limit unless ``max_entries`` is set."""

    enabled: bool = True
    max_entries: Positive | None = None


class Multimodal(Section):
    """Recognised, but not built yet: switching it on is an error."""

    enabled: bool = False
    modalities: Annotated[tuple[str, ...], Strict(False)] = ("all",)
    max_file_bytes: Positive = 10_485_760

    @field_validator("enabled")
    @classmethod
    def _not_yet(cls, enabled: bool) -> bool:
        if enabled:
            raise explained("indexing of images and sound is not available yet; leave it false")
        return enabled


class MemorySearch(Section):
    """The memory index of an agent."""

    enabled: bool = True
    provider: Embedder = "auto"
    model: str | None = None
    fallback: Embedder = "none"
    output_dimensionality: Positive | None = None
    input_type: str | None = None
    query_input_type: str | None = None
    document_input_type: str | None = None
    remote: RemoteEmbedder = Field(default_factory=RemoteEmbedder)
    reindex: Literal["flow", "auto"] = "flow"
    sources: Annotated[tuple[Literal["memory", "sessions"], ...], Strict(False)] = ("memory",)
    experimental: Experimental = Field(default_factory=Experimental)
    extra_paths: Annotated[
        tuple[
            Annotated[ExtraPath, BeforeValidator(_extra_path), Allowed("a path or {path, pattern}")],
            ...,
        ],
        Strict(False),
    ] = ()
    allowed_chat_types: Annotated[tuple[Literal["direct", "group", "channel"], ...], Strict(False)] = ("direct",)
    store: IndexStore = Field(default_factory=IndexStore)
    chunking: Chunking = Field(default_factory=Chunking)
    sync: Sync = Field(default_factory=Sync)
    query: Query = Field(default_factory=Query)
    cache: EmbeddingCache = Field(default_factory=EmbeddingCache)
    multimodal: Multimodal = Field(default_factory=Multimodal)
