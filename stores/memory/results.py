"""What a search, a read, a status and a forget give back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stores.memory.ranking import Explanation

Mode = Literal["keyword", "vector", "hybrid"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A part of a file that was found.

    Attributes:
        path, start_line, end_line: what to read: where it stands with a few lines of context; for sessions lines of
            the transcript.
        score: 0 to 1. snippet: at most 700 characters around the hit.
        source: ``memory`` or ``sessions``. origin: owner, agent, untrusted or system.
        hash: SHA-256 of the chunk. explanation: how the score came about.
    """

    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str
    source: str
    origin: str
    hash: str
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Hits, best first, and everything a reader must know to trust them.

    Attributes:
        mode: the legs that answered. model: embedder whose vectors took part.
        files, chunks: what was searched.
        pending: chunks without a vector yet, when vectors take part.
        fallback: why the vector leg did not answer though it was wanted.
        stale: why the index may lag behind the disk.
        rebuild: why vectors must be made again, and how.
        problems: what could not be read.
        took_ms: time.
    """

    hits: tuple[Hit, ...]
    mode: Mode
    model: str | None
    files: int
    chunks: int
    pending: int = 0
    fallback: str | None = None
    stale: str | None = None
    rebuild: str | None = None
    problems: tuple[str, ...] = ()
    took_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """Files and chunks of one source."""

    source: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The truth about an index.

    Attributes:
        path: index file. exists: whether there is one yet. bytes: its size.
        files, chunks, sources: what is indexed. on_disk: memory files and transcripts on disk.
        added, changed, removed: how the disk differs; ``is_clean`` when it does not.
        provider, model: embedder asked for, and the one whose vectors are stored.
        vectors, pending: stored vectors, and chunks without one.
        cached: embeddings in the cache. forgotten: paths that may not come back.
        fallback, rebuild, problems: as in a search result.
    """

    path: str
    exists: bool
    bytes: int
    files: int
    chunks: int
    sources: tuple[SourceCounts, ...]
    on_disk: int
    added: int
    changed: int
    removed: int
    provider: str
    model: str | None
    vectors: int
    pending: int
    cached: int
    forgotten: int
    fallback: str | None = None
    rebuild: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        return not (self.added or self.changed or self.removed)


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What a forget took out, or would take out.

    Attributes:
        done: whether it happened; ``False`` for a dry run.
        paths: files concerned, with their chunk counts.
        hashes: SHA-256 of the texts of the chunks.
        texts: those texts, and all that was said in a forgotten session, for other stores that hold copies.
        embeddings: cached embeddings that went.
        deleted: Markdown that goes, or would: a path for a whole file, else ``path#L3-L9``.
    """

    done: bool
    paths: tuple[tuple[str, int], ...]
    hashes: tuple[str, ...] = field(default_factory=tuple)
    embeddings: int = 0
    deleted: tuple[str, ...] = ()
    texts: tuple[str, ...] = field(default=(), repr=False)
