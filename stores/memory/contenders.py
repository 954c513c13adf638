"""Leave out the chunks that cannot be among the best, without scoring them.

A word that half of all chunks hold says little, but its postings are most of what a query reads. So words are taken
from the rarest on, and when those that are left cannot lift a chunk with none of the others into the best, the chunks
found so far are all that matter (MaxScore: Turtle and Flood, Query evaluation, 1995).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stores.memory.keyword import Corpus, Floats, Ints, WeighedQuery, WeighedTerm, bm25_of, text_score

_ROUNDING = np.float32(1e-4)  # sums in another order differ by less


def contenders(query: WeighedQuery, corpus: Corpus, allowed: NDArray[np.bool_], limit: int) -> Ints:
    """Return the ids, ascending, of all chunks that may be among the ``limit`` best, and of few others.

    Args:
        query: what occurs.
        corpus: the collection.
        allowed: ``bool[n]`` by chunk id; sources and scopes are filtered before anything is ranked.
        limit: how many are wanted.
    """
    bm25 = np.zeros(len(corpus.alive), dtype=np.float32)
    matched = np.zeros(len(corpus.alive), dtype=np.float32)
    terms = sorted(query.terms, key=lambda term: len(term.ids))
    read = 0
    for place, term in enumerate(terms):
        # A look at what there is costs less than a list that is longer than all before.
        if 0 < read < len(term.ids):
            found, new_may_enter = _contenders_so_far(query.full, matched, bm25, allowed, limit, terms[place:])
            if not new_may_enter:
                return found
        bm25[term.ids] += bm25_of(term, term.frequencies, corpus.norms[term.ids])
        matched[term.ids] += term.share
        read += len(term.ids)
    return _contenders_so_far(query.full, matched, bm25, allowed, limit, ())[0]


def _contenders_so_far(
    full: np.float32,
    matched: Floats,
    bm25: Floats,
    allowed: NDArray[np.bool_],
    limit: int,
    left: Sequence[WeighedTerm],
) -> tuple[Ints, bool]:
    """Return the chunks that may still be among the best, and whether one without any word yet may be."""
    ids = np.flatnonzero((matched > 0) & allowed).astype(np.int32)
    more_matched, more_bm25 = (np.array([sum(gains)], dtype=np.float32) for gains in _most_of(left))
    least = _nth_best(text_score(matched[ids], bm25[ids], full), limit) - _ROUNDING
    most = text_score(matched[ids] + more_matched, bm25[ids] + more_bm25, full)
    of_others = text_score(more_matched, more_bm25, full)
    return ids[most >= least], bool(more_matched > 0 and of_others >= least)


def _most_of(terms: Sequence[WeighedTerm]) -> tuple[list[float], list[float]]:
    """Return the most that each term adds to the weight held of the query, and to BM25."""
    return [float(term.share) for term in terms], [float(term.gain) for term in terms]


def _nth_best(scores: Floats, limit: int) -> np.float32:
    if len(scores) < limit:
        return np.float32(0)
    nth: np.float32 = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return nth
