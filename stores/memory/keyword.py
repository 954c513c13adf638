"""Score notes against a query by their words: BM25 over postings, normalised so that collections of any size compare.

The same functions serve the DuckDB index and the one in memory. Stop words are not dropped but weigh little: on LoCoMo
that finds +.006 [.002, .011] more of the evidence in 6 hits, +.002 [.000, .005] in 10 (``benchmarks/locomo.py``).
Source: spec/memory.md 4.3 and 9.2; spec/stack.md 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stores.memory.scripts import fold_han, fold_word, korean_stem, stem
from stores.memory.stop_words import FUNCTION_CHARACTERS, UNSPACED_WORDS, WORDS
from stores.memory.tokenizer import is_cjk, is_unspaced, normalize, runs, split_compound, triples

K1 = 1.2  # spec/memory.md 9.2
B = 0.75
CHARACTER_WEIGHT = 0.3  # single characters beside pairs of Chinese, Japanese, Korean
PART_WEIGHT = 0.5  # words of an identifier beside the identifier itself
FUNCTION_WORD_WEIGHT = 0.15  # "did" or "recently" tell two chunks apart that hold the same words otherwise
EXACT_BONUS = 0.2  # share of what is missing to 1 that a verbatim match of the whole query adds

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Query:
    """A query taken apart.

    Attributes:
        terms: term -> weight (1 for words, pairs and whole identifiers).
        phrase: the whole query, folded, for verbatim matches.
        surfaces: its words as typed, folded, without stems; long CJK runs as triples.
        function_words: stop words of spaced scripts beside other terms, with their weight; they order what was found,
            find nothing themselves and count neither for coverage nor for the best possible score.
    """

    terms: dict[str, float]
    phrase: str
    surfaces: tuple[str, ...]
    function_words: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Postings:
    """Where a query term occurs: chunk ids, ascending, with frequencies.

    ``weight`` is the term's, or less where only words that contain it occur.
    """

    term: str
    weight: float
    ids: Ints
    frequencies: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class WeighedTerm:
    """A term that occurs: where, and what it gives.

    Attributes:
        ids, frequencies: as in :class:`Postings`.
        gain: what it adds to BM25 at most.
        share: what it adds to the weight that a chunk holds of the query; 0 for function words.
    """

    ids: Ints
    frequencies: NDArray[np.int16]
    gain: np.float32
    share: np.float32


@dataclass(frozen=True, slots=True)
class WeighedQuery:
    """The terms of a query that occur, and its full weight: what a chunk with all of its terms would hold."""

    terms: tuple[WeighedTerm, ...]
    full: np.float32


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """Scores of chunks; 0 for those that hold no term but function words.

    Attributes:
        ids: ``int32[n]``, ascending.
        bm25: ``float32[n]``, unbounded.
        coverage: ``float32[n]``, share of the query's weight that the chunk holds, 0 to 1.
        text: ``float32[n]``, 0 to 1: at least 0.5 where every term is matched, whatever the size of the collection.
    """

    ids: Ints
    bm25: Floats
    coverage: Floats
    text: Floats


def fold_text(text: str) -> str:
    """Return text as verbatim matches compare it: normalised, case folded, Chinese simplified."""
    folded = normalize(text).casefold()
    return folded if folded.isascii() else fold_han(folded)


def analyze(text: str) -> Query:
    """Take a query apart; stop words find nothing unless nothing else is left.

    Source: spec/memory.md 9.2 step 3.
    """
    content: dict[str, float] = {}
    stopped: dict[str, float] = {}
    function_words: dict[str, float] = {}
    surfaces: list[str] = []
    for run in runs(text):
        if is_cjk(run):
            _add_cjk(fold_han(run), stopped if run in WORDS else content, stopped)
            surfaces.extend(triples(fold_han(run)))
            continue
        target = function_words if fold_word(run) in WORDS else content
        surfaces.extend([run.casefold()] if target is content else [])
        for term, weight in _spaced_terms(run).items():
            target[term] = max(weight, target.get(term, 0.0))
    phrase, words = fold_text(text).strip(), tuple(dict.fromkeys(surfaces))
    if not content:
        return Query(stopped | function_words, phrase, words)
    lesser = {t: FUNCTION_WORD_WEIGHT * weight for t, weight in function_words.items() if t not in content}
    return Query(content, phrase, words, lesser)


def _spaced_terms(run: str) -> dict[str, float]:
    if is_unspaced(run):
        return dict.fromkeys(triples(run), 1.0)
    compound = split_compound(run)
    if compound.words in ((compound.whole,), ()):
        return {stem(compound.whole): 1.0}
    terms = {stem(word): PART_WEIGHT for word in compound.words if word not in WORDS}
    return terms | dict.fromkeys((compound.whole, *compound.groups), 1.0)


def _add_cjk(run: str, content: dict[str, float], stopped: dict[str, float]) -> None:
    for pair in map("".join, pairwise(run)):
        empty = pair in UNSPACED_WORDS or FUNCTION_CHARACTERS.issuperset(pair)
        (stopped if empty else content)[pair] = 1.0
    for character in dict.fromkeys(run):
        target = stopped if character in FUNCTION_CHARACTERS else content
        target.setdefault(character, 1.0 if len(run) == 1 else CHARACTER_WEIGHT)
    root = korean_stem(run) if "\uac00" <= run[0] <= "\ud7af" else ""
    if len(root) > 2:
        content[root] = 1.0


@dataclass(frozen=True, slots=True)
class Corpus:
    """What BM25 must know of a collection, worked out once for many queries.

    Attributes:
        alive: ``bool[n]`` by chunk id, whether there still is such a chunk.
        total: how many there are.
        norms: ``float32[n]`` by chunk id, how much its length dampens a frequency.
    """

    alive: NDArray[np.bool_]
    total: int
    norms: Floats

    @classmethod
    def of(cls, lengths: Ints) -> Corpus:
        """Take in ``int32[n]``, the words of each chunk by id; 0 marks a chunk that is gone."""
        alive = lengths > 0
        total = int(alive.sum())
        mean = float(lengths.sum()) / total if total else 1.0
        return cls(alive, total, (K1 * (1 - B + B * lengths / mean)).astype(np.float32))


def weigh(found: Sequence[Postings], query: Query, corpus: Corpus) -> WeighedQuery:
    """Weigh the terms of a query by how rare they are.

    Args:
        found: postings of the terms that occur; ids may name dead chunks.
        query: the query they belong to.
        corpus: the collection.

    Source: spec/stack.md 2 (BM25), spec/memory.md 4.3 (positive idf, scores that do not depend on the collection).
    """
    terms, known = [], {}
    for postings in found:
        rarity = _idf(corpus.total, int(np.count_nonzero(corpus.alive[postings.ids])))
        weight = postings.weight * rarity
        share = 0.0
        if postings.term in query.terms:
            known[postings.term] = query.terms[postings.term] * rarity
            share = weight
        terms.append(WeighedTerm(postings.ids, postings.frequencies, np.float32(weight * (K1 + 1)), np.float32(share)))
    full = sum(known.get(term, weight * _idf(corpus.total, 0)) for term, weight in query.terms.items())
    return WeighedQuery(tuple(terms), np.float32(full or 1.0))


def score(weighed: WeighedQuery, corpus: Corpus, ids: Ints) -> KeywordScores:
    """Score chunks by id, ``int32[n]`` ascending; see :func:`contenders` for which."""
    bm25 = np.zeros(len(ids), dtype=np.float32)
    matched = np.zeros(len(ids), dtype=np.float32)
    for term in weighed.terms:
        at, frequencies = _occurrences(term, ids)
        bm25[at] += bm25_of(term, frequencies, corpus.norms[ids[at]])
        matched[at] += term.share
    bm25[matched == 0] = 0
    return KeywordScores(ids, bm25, coverage_of(matched, weighed.full), text_score(matched, bm25, weighed.full))


def bm25_of(term: WeighedTerm, frequencies: NDArray[np.int16], norms: Floats) -> Floats:
    """Return what a term adds to chunks that hold it so often."""
    times = frequencies.astype(np.float32)
    added: Floats = term.gain * times / (times + norms)
    return added


def coverage_of(matched: Floats, full: np.float32) -> Floats:
    """Return the share of a query, 0 to 1, in weights that chunks hold of it."""
    shares: Floats = np.minimum(matched / full, np.float32(1))
    return shares


def text_score(matched: Floats, bm25: Floats, full: np.float32) -> Floats:
    """Return scores, 0 to 1, that grow with both: half for how much of the query is there, half for BM25."""
    half = np.float32(0.5)
    scores: Floats = half * coverage_of(matched, full) + half * bm25 / (bm25 + full)
    return scores


def _occurrences(term: WeighedTerm, ids: Ints) -> tuple[NDArray[np.int64], NDArray[np.int16]]:
    """Return the positions in ``ids`` of chunks that hold a term, and how often they do."""
    if len(ids) < len(term.ids):
        place = np.minimum(np.searchsorted(term.ids, ids), len(term.ids) - 1)
        at = np.flatnonzero(term.ids[place] == ids)
        return at, term.frequencies[place[at]]
    place = np.minimum(np.searchsorted(ids, term.ids), len(ids) - 1)
    held = np.flatnonzero(ids[place] == term.ids)
    return place[held], term.frequencies[held]


def _idf(total: int, holding: int) -> float:
    return float(np.log1p((total - holding + 0.5) / (holding + 0.5)))


def with_exactness(text_score: float, query: Query, text: str) -> float:
    """Raise a text score by how much of the query stands in ``text`` as typed.

    Half of the bonus is for the whole query as one string, half for the share of its words.
    """
    # Compatibility forms are not folded here: normalising every candidate would cost more than scoring it.
    folded = text.casefold()
    if not folded.isascii():
        folded = fold_han(folded)
    words = sum(surface in folded for surface in query.surfaces) / len(query.surfaces) if query.surfaces else 0.0
    whole = 1.0 if query.phrase and query.phrase in folded else 0.0
    return text_score + (1 - text_score) * EXACT_BONUS * (words + whole) / 2


def best(scores: KeywordScores, limit: int) -> NDArray[np.int64]:
    """Return positions in ``scores`` of the best text scores, best first; ties by chunk id."""
    if len(scores.ids) > limit:
        kth = np.partition(scores.text, len(scores.ids) - limit)[len(scores.ids) - limit]
        candidates = np.flatnonzero(scores.text >= kth)
    else:
        candidates = np.arange(len(scores.ids))
    order = np.argsort(-scores.text[candidates], kind="stable")
    return candidates[order][:limit]
