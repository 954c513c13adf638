"""Make the rows of a file outside any lock: chunks with their terms.

This is the costly part of indexing, so it runs in worker processes when there is much to do; it therefore imports
neither numpy nor DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from stores.memory.chunking import CURATED_FILES, Chunk, chunk_markdown, strip_annotations, text_hash
from stores.memory.tokenizer import count_terms

AGENT_SCOPE = ""  # what every chat of the agent may find (design decision 14)
_SILENT_PATH_TERMS = frozenset({"memory", "sessions", "md", "jsonl"})


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the index stores about a file besides its chunks.

    Attributes:
        source: ``memory`` or ``sessions``; ``path`` as results show it.
        scope: who may find it: empty for every chat of the agent, else the peer whose session it is.
        session_kind: interactive, cron, heartbeat, subagent or unknown.
        hash: of what was indexed; ``size`` in bytes, ``mtime_ns`` and ``read_ns`` (when it was read) in nanoseconds.
    """

    source: str
    path: str
    hash: str
    size: int
    mtime_ns: int
    read_ns: int
    scope: str = AGENT_SCOPE
    session_kind: str = "unknown"


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A chunk ready to be written; ``terms`` may be packed elsewhere and then is empty."""

    start_line: int
    end_line: int
    length: int
    hash: str
    text: str
    origin: str = "owner"
    observed_ms: int | None = None
    terms: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """A file ready to be written."""

    facts: FileFacts
    chunks: tuple[PreparedChunk, ...]


def prepare_note(facts: FileFacts, text: str, tokens: int, overlap: int) -> PreparedFile:
    """Chunk and tokenise a Markdown file; blank chunks are dropped.

    Source: spec/memory.md 2.2, 3.5 step 5.
    """
    shown = strip_annotations(text)
    chunks = chunk_markdown(shown, tokens, overlap, per_entry=facts.path in CURATED_FILES)
    return prepare_chunks(facts, chunks, origin=origin_of(facts.path))


def prepare_chunks(
    facts: FileFacts, chunks: Sequence[Chunk], *, origin: str, observed_ms: Sequence[int | None] = ()
) -> PreparedFile:
    """Tokenise chunks; the words of the file name belong to the first one, so that files are found by name."""
    prepared: list[PreparedChunk] = []
    for index, chunk in enumerate(chunks):
        if not chunk.text.strip():
            continue
        counted = count_terms(chunk.text)
        terms = counted.counts
        if not prepared:
            terms = path_terms(facts.path) | terms
        seen = observed_ms[index] if observed_ms else None
        prepared.append(
            PreparedChunk(
                chunk.start_line,
                chunk.end_line,
                max(1, counted.length),
                text_hash(chunk.text),
                chunk.text,
                origin,
                seen,
                terms,
            )
        )
    return PreparedFile(facts, tuple(prepared))


def path_terms(path: str) -> dict[str, int]:
    """Return the terms of a file name: the path, the name with and without suffix, and its words."""
    name = PurePosixPath(path)
    terms = {**count_terms(path).counts, **count_terms(name.name).counts, **count_terms(name.stem).counts}
    return {term: 1 for term in terms if term not in _SILENT_PATH_TERMS}


def origin_of(path: str) -> str:
    """Return who wrote a memory file: ``system`` for reports of consolidation, else ``owner``.

    Source: spec/memory.md 1.1.
    """
    system = path.lower() == "dreams.md" or path.startswith(("memory/dreaming/", "memory/.dreams/"))
    return "system" if system else "owner"
