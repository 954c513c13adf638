"""What a process keeps of the index between searches: lengths, files, and who may find what.

Loaded again when the generation stored in the index changes. Source: spec/stack.md 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stores.memory import writing
from stores.memory.kept_lists import KeptLists
from stores.memory.keyword import Corpus
from stores.memory.prepare import AGENT_SCOPE

if TYPE_CHECKING:
    import duckdb


class FileRow(NamedTuple):
    """An indexed file; a tuple, because thousands are made whenever a file has changed."""

    source: str
    path: str
    scope: str
    hash: str
    size: int
    mtime_ns: int
    read_ns: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index at one generation.

    Attributes:
        meta: the meta record.
        corpus: which chunks there are, and their lengths, for scoring.
        file_of: ``int32[n]`` by chunk id, file id; -1 where there is none.
        lines: ``int32[n, 2]`` by chunk id, first and last line.
        files: rows by file id.
        embedded: chunks that have been embedded with the model that ``meta`` names.
        unfolded: whether there are postings outside the segment.
        lists: posting lists that searches have read.
    """

    meta: Mapping[str, str]
    corpus: Corpus
    file_of: NDArray[np.int32]
    lines: NDArray[np.int32]
    files: Mapping[int, FileRow]
    embedded: int
    unfolded: bool
    lists: KeptLists = field(default_factory=KeptLists, repr=False)
    _allowed: dict[tuple[frozenset[str], str | None], NDArray[np.bool_]] = field(default_factory=dict, repr=False)

    @property
    def chunks(self) -> int:
        return self.corpus.total

    def pending(self, model: str) -> int:
        """Return how many chunks have no vector of a model yet."""
        return self.chunks - (self.embedded if self.meta.get("model") == model else 0)

    def facts(self) -> dict[tuple[str, str], tuple[str, int, int, int, int]]:
        """Return (hash, size, mtime_ns, read_ns, chunks) by (source, path), as a sync plan wants them."""
        return {(f.source, f.path): (f.hash, f.size, f.mtime_ns, f.read_ns, f.chunks) for f in self.files.values()}

    def allowed(
        self, sources: Collection[str], scope: str | None, visible: Callable[[str], bool] | None = None
    ) -> NDArray[np.bool_]:
        """Return ``bool[n]`` by chunk id: alive, of one of the sources, and of the agent or of ``scope``.

        ``visible`` tells which transcripts may be found, by path.
        """
        key = (frozenset(sources), scope)
        if key not in self._allowed:
            self._allowed[key] = self._mask(self._files(sources, scope))
        if visible is None:
            return self._allowed[key]
        found = self._files(sources, scope)
        return self._mask(n for n in found if self.files[n].source != "sessions" or visible(self.files[n].path))

    def _files(self, sources: Collection[str], scope: str | None) -> list[int]:
        scopes = (AGENT_SCOPE, scope or AGENT_SCOPE)
        return [number for number, file in self.files.items() if file.source in sources and file.scope in scopes]

    def _mask(self, files: Iterable[int]) -> NDArray[np.bool_]:
        by_file = np.zeros(max(self.files, default=0) + 2, dtype=bool)
        by_file[list(files)] = True
        by_file[-1] = False
        mask: NDArray[np.bool_] = self.corpus.alive & by_file[self.file_of]
        return mask


def load_snapshot(connection: duckdb.DuckDBPyConnection, known: Snapshot | None) -> Snapshot:
    """Read the snapshot, or return ``known`` when nothing was written since."""
    meta = writing.meta(connection)
    identity = (meta.get("epoch"), meta.get("generation"))
    if known is not None and identity == (known.meta.get("epoch"), known.meta.get("generation")):
        return known
    size = int(meta.get("next_chunk", "0"))
    lengths, file_of = np.zeros(size, dtype=np.int32), np.full(size, -1, dtype=np.int32)
    lines = np.zeros((size, 2), dtype=np.int32)
    rows = connection.execute("SELECT chunk_id, length, file_id, start_line, end_line FROM chunks").fetchnumpy()
    lengths[rows["chunk_id"]] = rows["length"]
    file_of[rows["chunk_id"]] = rows["file_id"]
    lines[rows["chunk_id"], 0], lines[rows["chunk_id"], 1] = rows["start_line"], rows["end_line"]
    files = connection.execute(
        "SELECT file_id, source, path, scope, hash, size, mtime_ns, read_ns, chunks FROM files"
    ).fetchall()
    by_id = {row[0]: FileRow._make(row[1:]) for row in files}
    unfolded = connection.execute("SELECT 1 FROM delta LIMIT 1").fetchone() is not None
    return Snapshot(meta, Corpus.of(lengths), file_of, lines, by_id, _embedded(connection), unfolded)


def _embedded(connection: duckdb.DuckDBPyConnection) -> int:
    if not writing.has_vectors(connection):
        return 0
    row = connection.execute("SELECT count(*) FROM vectors").fetchone()
    return int(row[0]) if row else 0
