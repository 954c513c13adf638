"""Group the terms of many chunks into posting lists, one a term."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_FREQUENCY = 32_767


@dataclass(frozen=True, slots=True)
class PackedTerms:
    """Terms of some chunks, packed for another process.

    Attributes:
        vocabulary: the distinct terms.
        terms, frequencies: ``int32`` indexes into the vocabulary and ``int16`` frequencies, chunk after chunk.
        sizes: ``int32``, how many terms each chunk has.
    """

    vocabulary: list[str]
    terms: array[int]
    frequencies: array[int]
    sizes: array[int]


@dataclass(frozen=True, slots=True)
class PostingLists:
    """Posting lists of a vocabulary.

    Attributes:
        vocabulary: terms.
        offsets: ``int32[len(vocabulary) + 1]`` into the next two.
        ids: ``int32``, chunk ids, ascending within a term. frequencies: ``int16``.
    """

    vocabulary: list[str]
    offsets: NDArray[np.int32]
    ids: NDArray[np.int32]
    frequencies: NDArray[np.int16]


def numbering() -> defaultdict[str, int]:
    """Return a mapping that gives every new term the next number when it is asked for it."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


class TermPacker:
    """Collects the terms of chunks in the order in which they are added."""

    def __init__(self) -> None:
        self._numbers = numbering()
        self._terms = array("i")
        self._frequencies = array("h")
        self._sizes = array("i")

    def add(self, counts: Mapping[str, int]) -> None:
        """Add the terms of one chunk."""
        self._terms.extend(map(self._numbers.__getitem__, counts))
        times: Iterable[int] = counts.values()
        if max(times, default=0) > MAX_FREQUENCY:
            times = [min(found, MAX_FREQUENCY) for found in times]
        self._frequencies.extend(times)
        self._sizes.append(len(counts))

    def packed(self) -> PackedTerms:
        """Return what was collected."""
        return PackedTerms(list(self._numbers), self._terms, self._frequencies, self._sizes)


@dataclass(frozen=True, slots=True)
class _Run:
    """Postings of some chunks, term after term.

    Attributes:
        terms: ``int32[n]``, the distinct terms. lengths: ``int64[n]``, how many postings each has.
        ids, frequencies: of the postings; ids ascend within a term.
    """

    terms: NDArray[np.int32]
    lengths: NDArray[np.int64]
    ids: NDArray[np.int32]
    frequencies: NDArray[np.int16]


class PostingsBuilder:
    """Merges packed terms into posting lists; chunk ids must come in ascending order.

    What comes is sorted at once and put into its place at the end: sorting everything then would need three times the
    memory.
    """

    def __init__(self) -> None:
        self._numbers = numbering()
        self._runs: list[_Run] = []

    def add(self, packed: PackedTerms, first_id: int) -> None:
        """Add chunks whose ids start at ``first_id``."""
        known = np.fromiter(map(self._numbers.__getitem__, packed.vocabulary), np.int32, len(packed.vocabulary))
        sizes = np.frombuffer(packed.sizes, dtype=np.int32)
        if len(known):
            ids = np.repeat(np.arange(first_id, first_id + len(sizes), dtype=np.int32), sizes)
            terms = known[np.frombuffer(packed.terms, dtype=np.int32)]
            order = np.argsort(terms, kind="stable")
            distinct, lengths = np.unique(terms, return_counts=True)
            frequencies = np.frombuffer(packed.frequencies, dtype=np.int16)
            self._runs.append(_Run(distinct, lengths, ids[order], frequencies[order]))

    def lists(self) -> PostingLists:
        """Group everything by term."""
        lengths = np.zeros(len(self._numbers), dtype=np.int64)
        for run in self._runs:
            lengths[run.terms] += run.lengths
        offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
        np.cumsum(lengths, out=offsets[1:])
        ids, frequencies = np.empty(offsets[-1], dtype=np.int32), np.empty(offsets[-1], dtype=np.int16)
        free = offsets[:-1].copy()
        for run in self._runs:
            starts = np.cumsum(run.lengths) - run.lengths
            at = np.arange(len(run.ids)) + np.repeat(free[run.terms] - starts, run.lengths)
            ids[at], frequencies[at] = run.ids, run.frequencies
            free[run.terms] += run.lengths
        return PostingLists(list(self._numbers), offsets, ids, frequencies)


def group(
    vocabulary: list[str], terms: NDArray[np.int32], ids: NDArray[np.int32], frequencies: NDArray[np.int16]
) -> PostingLists:
    """Group postings (``terms`` index the vocabulary) by term; the order within a term stays."""
    order = np.argsort(terms, kind="stable")
    offsets = np.zeros(len(vocabulary) + 1, dtype=np.int32)
    np.cumsum(np.bincount(terms, minlength=len(vocabulary)), out=offsets[1:])
    return PostingLists(vocabulary, offsets, ids[order], frequencies[order])
