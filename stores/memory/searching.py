"""Answer a query from an open index: the keyword leg, the vector leg, and one ranking of both.

Two parts go beyond the spec. What they add to the share of evidence lines found on LoCoMo, 6 hits and 10, with the 95 %
interval of the paired difference (``benchmarks/locomo.py``): context lines around a chunk +.016 [.009, .023] and +.013
[.007, .020], for 57 lines read in place of 44; cubing what is missing to a cosine of 1, in place of squaring it, +.004
[.000, .007] and +.001 [-.001, .003].
Source: spec/memory.md 4; known-faults 7.6 and 7.15.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stores.memory import keyword, vector
from stores.memory.chunking import CURATED_FILES
from stores.memory.contenders import contenders
from stores.memory.dates import Fading, age_days, decay
from stores.memory.lookup import ChunkRow, chunk_rows, find_postings
from stores.memory.ranking import Candidate, Ranked, Rules, Weights, rank
from stores.memory.results import Hit
from stores.memory.snapshot import Snapshot
from stores.memory.snippets import snippet
from turngraph.clock import from_ms
from turngraph.memory_paths import normalise_memory_path

if TYPE_CHECKING:
    import duckdb

MAX_CANDIDATES = 200  # spec/memory.md 4.1
NEARNESS_POWER = 3  # measured with the built-in encoder, whose good answers have cosines of 0.3 to 0.5
# Of the least score. Of that encoder 9 of 10 right answers have a cosine above .21, 19 of 20 unrelated texts below .15.
COSINE_SHARE = 0.55
CONTEXT_LINES = 2  # before and after a chunk: what is said next to the words often is the answer


@dataclass(frozen=True, slots=True)
class SearchRules:
    """How to search: the settings under ``memorySearch.query`` as plain values.

    Attributes:
        max_results, min_score, candidate_multiplier: see the settings.
        weights: of the legs. mmr_lambda: ``None`` when diversity is off. fading: ``None`` when age does not count.
        zone: the user's zone.
    """

    max_results: int = 6
    min_score: float = 0.35
    candidate_multiplier: int = 4
    weights: Weights = field(default_factory=Weights)
    mmr_lambda: float | None = None
    fading: Fading | None = None
    zone: tzinfo = UTC

    @property
    def candidates(self) -> int:
        return min(MAX_CANDIDATES, max(1, self.max_results * self.candidate_multiplier))


@dataclass(frozen=True, slots=True)
class KeywordLeg:
    """The query's words with their postings, and the best chunks as chunk id -> rank."""

    words: keyword.WeighedQuery
    ranks: dict[int, int]


@dataclass(frozen=True, slots=True)
class VectorLeg:
    """The query's vector, all vectors, and the nearest chunks as chunk id -> (rank, cosine)."""

    query: vector.Floats
    vectors: vector.Vectors
    ranks: dict[int, tuple[int, float]]


def path_specificity(query: str, path: str) -> int:
    """Tell how exactly a query names a file: 3 its path, 2 its name, 1 its name without suffix, 0 not at all.

    Source: spec/memory.md 4.5.
    """
    wanted = normalise_memory_path(query).casefold()
    shown = path.casefold()
    if not wanted:
        return 0
    name = PurePosixPath(shown).name
    if wanted == shown:
        return 3
    if "/" in wanted:
        return 0
    return 2 if wanted == name else 1 if wanted == PurePosixPath(shown).stem else 0


def keyword_leg(
    connection: duckdb.DuckDBPyConnection,
    query: keyword.Query,
    snapshot: Snapshot,
    allowed: NDArray[np.bool_],
    limit: int,
) -> KeywordLeg:
    """Find chunks by words; sources and scopes are filtered before the best are taken."""
    found = find_postings(connection, query, snapshot.chunks, unfolded=snapshot.unfolded, kept=snapshot.lists)
    words = keyword.weigh(found, query, snapshot.corpus)
    scores = keyword.score(words, snapshot.corpus, contenders(words, snapshot.corpus, allowed, limit))
    best = scores.ids[keyword.best(scores, limit)]
    return KeywordLeg(words, {int(number): place for place, number in enumerate(best, 1)})


def nearness(cosine: float) -> float:
    """Return the vector score of a cosine, 0 to 1: small ones are spread, large ones never saturate.

    Sentence encoders give a good answer 0.3 to 0.5, words 0.6 to 0.9: as they are, cosines would hardly count.

    >>> round(nearness(0.4), 3), nearness(1.0), nearness(-0.1)
    (0.784, 1.0, 0.0)
    """
    return 1 - (1 - max(0.0, cosine)) ** NEARNESS_POWER


def vector_leg(
    query: vector.Floats, vectors: vector.Vectors, allowed: NDArray[np.bool_], limit: int, min_score: float
) -> VectorLeg:
    """Find chunks by meaning; what is far from the query is no find, however few chunks there are."""
    ids, cosines = vector.nearest(vectors, query, allowed, limit)
    found = [
        (int(number), float(cosine))
        for number, cosine in zip(ids, cosines, strict=True)
        if cosine >= COSINE_SHARE * min_score and cosine > 0
    ]
    return VectorLeg(query, vectors, {number: (place, cosine) for place, (number, cosine) in enumerate(found, 1)})


def answer(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    snapshot: Snapshot,
    rules: SearchRules,
    *,
    sources: Collection[str],
    scope: str | None,
    visible: Callable[[str], bool] | None = None,
    now: datetime,
    by_words: bool = True,
    meaning: tuple[vector.Floats, vector.Vectors] | None = None,
) -> list[Hit]:
    """Search an open index.

    Args:
        connection: an open index.
        text: the query, any text.
        snapshot: of the same index and generation.
        rules: how to rank.
        sources, scope, visible: what may be found; see :meth:`Snapshot.allowed`.
        now: aware time, for age.
        by_words: whether the keyword leg takes part.
        meaning: vector of the query and vectors of the index, when the vector leg takes part.
    """
    query = keyword.analyze(text)
    allowed = snapshot.allowed(sources, scope, visible)
    words = keyword_leg(connection, query, snapshot, allowed, rules.candidates) if by_words and query.terms else None
    near = vector_leg(*meaning, allowed, rules.candidates, rules.min_score) if meaning else None
    ids = list(dict.fromkeys([*(near.ranks if near else ()), *(words.ranks if words else ())]))
    rows = chunk_rows(connection, ids)
    candidates = _candidates(text, query, rows, ids, words, near, snapshot, rules, now)
    weights = rules.weights if words and near else Weights(1.0, 0.0) if words else Weights(0.0, 1.0)
    ranked = rank(candidates, Rules(weights, rules.mmr_lambda, rules.min_score, rules.max_results))
    return [_hit(hit, rows[int(hit.key)], query, snapshot) for hit in ranked]


def _candidates(
    text: str,
    query: keyword.Query,
    rows: dict[int, ChunkRow],
    ids: Sequence[int],
    words: KeywordLeg | None,
    near: VectorLeg | None,
    snapshot: Snapshot,
    rules: SearchRules,
    now: datetime,
) -> list[Candidate]:
    cosines = vector.cosines_of(near.vectors, near.query, ids) if near else {}
    by_words = _keyword_scores(words.words, snapshot.corpus, ids) if words is not None else {}
    made = []
    for number in ids:
        row = rows[number]
        file = snapshot.files[int(snapshot.file_of[number])]
        bm25, coverage, text_score = by_words.get(number, (0.0, 0.0, 0.0))
        if text_score > 0:
            text_score = keyword.with_exactness(text_score, query, row.text)
            if _is_first(number, snapshot) and path_specificity(text, file.path):
                text_score = 1.0
        age = _age(row, file.path, file.mtime_ns, rules, now) if rules.fading else None
        place = near.ranks.get(number) if near else None
        made.append(
            Candidate(
                number,
                text_score,
                nearness(cosines.get(number, 0.0)),
                words.ranks.get(number) if words else None,
                place[0] if place else None,
                bm25,
                coverage,
                row.text,
                decay(age, rules.fading) if rules.fading else 1.0,
                age,
            )
        )
    return made


def _keyword_scores(
    words: keyword.WeighedQuery, corpus: keyword.Corpus, ids: Sequence[int]
) -> dict[int, tuple[float, float, float]]:
    """Return (BM25, coverage, text score) of chunks by id."""
    # Of the same type as the postings, or numpy would convert all of those.
    scores = keyword.score(words, corpus, np.array(sorted(ids), dtype=np.int32))
    rows = zip(scores.bm25.tolist(), scores.coverage.tolist(), scores.text.tolist(), strict=True)
    return dict(zip(scores.ids.tolist(), rows, strict=True))


def _is_first(number: int, snapshot: Snapshot) -> bool:
    return number == 0 or snapshot.file_of[number - 1] != snapshot.file_of[number]


def _age(row: ChunkRow, path: str, mtime_ns: int, rules: SearchRules, now: datetime) -> float | None:
    seen = from_ms(row.observed_ms) if row.observed_ms else from_ms(mtime_ns / 1e6)
    return age_days(path, seen, now, rules.zone)


def _with_context(row: ChunkRow, snapshot: Snapshot) -> tuple[int, int]:
    """Return the lines to read: the chunk's and a few around them, no farther than its neighbours reach.

    An entry of a curated file stands for itself.
    """
    first, last = row.start_line, row.end_line
    number = row.chunk_id
    if snapshot.files[int(snapshot.file_of[number])].path in CURATED_FILES:
        return first, last
    if not _is_first(number, snapshot):
        first = max(first - CONTEXT_LINES, min(first, int(snapshot.lines[number - 1, 0])))
    if number + 1 < len(snapshot.file_of) and snapshot.file_of[number + 1] == snapshot.file_of[number]:
        last = min(last + CONTEXT_LINES, max(last, int(snapshot.lines[number + 1, 1])))
    return first, last


def _hit(ranked: Ranked, row: ChunkRow, query: keyword.Query, snapshot: Snapshot) -> Hit:
    file = snapshot.files[int(snapshot.file_of[row.chunk_id])]
    shown = snippet(row.text, query.surfaces)
    lines = _with_context(row, snapshot)
    return Hit(file.path, *lines, ranked.score, shown, file.source, row.origin, row.hash, ranked.explanation)
