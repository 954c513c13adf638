"""Read a file from disk and make its rows: what one worker does for one file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from stores.memory.chunking import Chunk, chunk_markdown, remap_lines
from stores.memory.files import MemoryFile, read_text
from stores.memory.postings import PackedTerms, TermPacker
from stores.memory.prepare import AGENT_SCOPE, FileFacts, PreparedFile, prepare_chunks, prepare_note
from stores.memory.session_text import SessionText, session_text


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to index and what is known of it before it is read.

    Attributes:
        source: ``memory`` or ``sessions``.
        file: where it is.
        scope, session_kind, origin: stored with its rows.
        known_hash: hash of what is indexed now; the same text is not chunked again.
        forgotten: hashes of file or chunks that must not come back; ``*`` is everything.
        waits: a transcript that has not grown enough: what is indexed of it stands.
    """

    source: str
    file: MemoryFile
    scope: str = AGENT_SCOPE
    session_kind: str = "unknown"
    origin: str = "owner"
    known_hash: str | None = None
    forgotten: frozenset[str] = frozenset()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunk size and overlap, in tokens of four weighted characters."""

    tokens: int
    overlap: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file whose text is what is indexed already; only its size and times are new."""

    facts: FileFacts


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Rows of several files with their terms packed apart, as a worker sends them back."""

    files: list[PreparedFile]
    terms: PackedTerms


def read_wanted(wanted: Wanted, sizes: Sizes) -> PreparedFile | Unchanged | None:
    """Read, chunk and tokenise a file; ``None`` when it is gone.

    Raises:
        OSError: it cannot be read.
    """
    read_ns = time.time_ns()
    read = read_text(wanted.file)
    if read is None:
        return None
    text, data = read
    text = text.replace("\0", "\ufffd")
    session = session_text(data) if wanted.source == "sessions" else None
    found = session.hash if session is not None else sha256(data).hexdigest()
    facts = FileFacts(
        wanted.source,
        wanted.file.path,
        found,
        wanted.file.size,
        wanted.file.mtime_ns,
        read_ns,
        wanted.scope,
        wanted.session_kind,
    )
    if found == wanted.known_hash:
        return Unchanged(facts)
    if not wanted.forgotten.isdisjoint(("*", found)):
        return PreparedFile(facts, ())
    if session is None:
        prepared = prepare_note(facts, text, sizes.tokens, sizes.overlap)
    else:
        prepared = _prepare_session(facts, session, sizes, wanted.origin)
    kept = tuple(chunk for chunk in prepared.chunks if chunk.hash not in wanted.forgotten)
    return PreparedFile(facts, kept)


def has_changed(wanted: Wanted) -> bool:
    """Read a file and tell whether its text is still the one that is indexed."""
    read = read_text(wanted.file)
    if read is None:
        return True
    found = session_text(read[1]).hash if wanted.source == "sessions" else sha256(read[1]).hexdigest()
    return found != wanted.known_hash


def _prepare_session(facts: FileFacts, session: SessionText, sizes: Sizes, origin: str) -> PreparedFile:
    chunks = chunk_markdown(session.content, sizes.tokens, sizes.overlap) if session.content else []
    times = [_time_of(chunk, session) for chunk in chunks]
    return prepare_chunks(facts, remap_lines(chunks, list(session.line_map)), origin=origin, observed_ms=times)


def _time_of(chunk: Chunk, session: SessionText) -> int | None:
    return max(session.times_ms[chunk.start_line - 1 : chunk.end_line], default=0) or None


def read_batch(batch: Sequence[Wanted], sizes: Sizes) -> PackedBatch:
    """Read several files that are not indexed yet; those that are gone or unreadable are left out."""
    packer = TermPacker()
    files = []
    for wanted in batch:
        try:
            prepared = read_wanted(wanted, sizes)
        except OSError:
            continue
        if not isinstance(prepared, PreparedFile):
            continue
        for chunk in prepared.chunks:
            packer.add(chunk.terms)
        bare = tuple(replace(chunk, terms={}) for chunk in prepared.chunks)
        files.append(PreparedFile(prepared.facts, bare))
    return PackedBatch(files, packer.packed())
