"""RamIndex: keyword search over texts held in memory, with the tokens and scores of the index on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stores.memory import keyword
from stores.memory.contenders import contenders
from stores.memory.tokenizer import count_terms


@dataclass(frozen=True, slots=True)
class RamHit:
    """A text that matched: its key, its text score (0 to 1) and the share of the query it holds."""

    key: str
    score: float
    coverage: float


class RamIndex:
    """A small keyword index: add, remove and search cost what the texts concerned cost."""

    def __init__(self, documents: Iterable[tuple[str, str]] = ()) -> None:
        self._texts: dict[str, tuple[int, str]] = {}
        self._keys: list[str] = []
        self._lengths: list[int] = []
        self._postings: dict[str, tuple[list[int], list[int]]] = {}
        for key, text in documents:
            self.add(key, text)

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, key: str, text: str) -> None:
        """Index ``text`` under ``key``, in place of what stood there."""
        self.remove(key)
        position = len(self._keys)
        terms = count_terms(text)
        self._keys.append(key)
        self._lengths.append(max(1, terms.length))
        self._texts[key] = (position, text)
        for term, times in terms.counts.items():
            ids, frequencies = self._postings.setdefault(term, ([], []))
            ids.append(position)
            frequencies.append(min(times, 32_767))

    def remove(self, key: str) -> None:
        """Forget the text of ``key``; unknown keys are fine."""
        known = self._texts.pop(key, None)
        if known is not None:
            self._lengths[known[0]] = 0

    def search(self, text: str, max_results: int = 10) -> list[RamHit]:
        """Return the best matches, best first; ties keep the order in which texts were added."""
        query = keyword.analyze(text)
        found = [
            keyword.Postings(term, weight, np.array(ids, dtype=np.int32), np.array(frequencies, dtype=np.int16))
            for term, weight in (query.terms | query.function_words).items()
            for ids, frequencies in [self._postings.get(term, ((), ()))]
            if ids
        ]
        if not found:
            return []
        corpus = keyword.Corpus.of(np.array(self._lengths, dtype=np.int32))
        words = keyword.weigh(found, query, corpus)
        scores = keyword.score(words, corpus, contenders(words, corpus, corpus.alive, 4 * max_results))
        hits = []
        for index in keyword.best(scores, 4 * max_results):
            key = self._keys[scores.ids[index]]
            exact = keyword.with_exactness(float(scores.text[index]), query, self._texts[key][1])
            hits.append(RamHit(key, exact, float(scores.coverage[index])))
        return sorted(hits, key=lambda hit: -hit.score)[:max_results]
