"""The best chunks by words, found without scoring all of them, are those that scoring all of them finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.memory import keyword
from stores.memory.contenders import contenders

TERMS = ("rare", "frequent", "everywhere", "of")


@st.composite
def collections(draw: st.DrawFn) -> tuple[keyword.Corpus, list[keyword.Postings], keyword.Query]:
    """A collection with dead chunks, words from rare to everywhere, and one function word."""
    size = draw(st.integers(1, 400))
    source = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = source.integers(1, 300, size) * (source.random(size) > draw(st.sampled_from([0.0, 0.2])))
    shares = draw(st.tuples(*[st.sampled_from([0.005, 0.05, 0.3, 0.95])] * len(TERMS)))
    found = []
    for term, share in zip(TERMS, shares, strict=True):
        ids = np.flatnonzero(source.random(size) < share).astype(np.int32)
        times = source.geometric(0.5, len(ids)).astype(np.int16)
        if len(ids):
            found.append(keyword.Postings(term, 0.15 if term == "of" else 1.0, ids, times))
    query = keyword.Query(dict.fromkeys(TERMS[:3], 1.0), "", (), {"of": 0.15})
    return keyword.Corpus.of(lengths.astype(np.int32)), found, query


@settings(max_examples=300)
@given(collections(), st.integers(1, 30), st.sampled_from([1.0, 0.5]))
def test_the_best_of_the_contenders_are_the_best_of_all(
    collection: tuple[keyword.Corpus, list[keyword.Postings], keyword.Query], limit: int, share: float
) -> None:
    corpus, found, query = collection
    allowed = corpus.alive & (np.random.default_rng(limit).random(len(corpus.alive)) < share)
    words = keyword.weigh(found, query, corpus)

    def best(ids: keyword.Ints) -> list[tuple[int, float, float, float]]:
        scores = keyword.score(words, corpus, ids)
        rows = zip(scores.ids, scores.text, scores.bm25, scores.coverage, strict=True)
        chosen = [tuple(row) for row, place in zip(rows, scores.text > 0, strict=True) if place]
        return sorted(chosen, key=lambda row: (-row[1], row[0]))[:limit]

    everything = np.flatnonzero(allowed).astype(np.int32)
    assert best(contenders(words, corpus, allowed, limit)) == best(everything)


def test_a_word_that_is_everywhere_adds_no_contender() -> None:
    corpus = keyword.Corpus.of(np.full(10_000, 100, dtype=np.int32))
    rare, frequent = np.arange(0, 10_000, 100, dtype=np.int32), np.arange(10_000, dtype=np.int32)
    once = np.ones(10_000, dtype=np.int16)
    found = [keyword.Postings("rare", 1.0, rare, once[:100]), keyword.Postings("frequent", 1.0, frequent, once)]
    words = keyword.weigh(found, keyword.Query({"rare": 1.0, "frequent": 1.0}, "", ()), corpus)
    assert contenders(words, corpus, corpus.alive, 10).tolist() == rare.tolist()


def test_scores_are_those_of_bm25() -> None:
    corpus = keyword.Corpus.of(np.array([100, 300, 0, 200], dtype=np.int32))
    ids, times = np.array([0, 2, 3], dtype=np.int32), np.array([1, 5, 2], dtype=np.int16)
    words = keyword.weigh([keyword.Postings("a", 1.0, ids, times)], keyword.Query({"a": 1.0}, "", ()), corpus)
    rarity = np.log1p((3 - 2 + 0.5) / (2 + 0.5))
    wanted = [rarity * 2.2 * tf / (tf + 1.2 * (0.25 + 0.75 * length / 200)) for tf, length in ((1, 100), (2, 200))]
    found = keyword.score(words, corpus, np.array([0, 1, 3], dtype=np.int32))
    np.testing.assert_allclose(found.bm25, [wanted[0], 0.0, wanted[1]], rtol=1e-6)
    np.testing.assert_allclose(found.text, [0.5 + 0.5 * w / (w + rarity) if w else 0 for w in found.bm25], rtol=1e-6)
