"""Posting lists are read once a generation, and never outlive it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stores.memory.kept_lists import KeptLists, Key, PostingList


def listed(*ids: int) -> PostingList:
    return np.array(ids, dtype=np.int32), np.ones(len(ids), dtype=np.int16)


class Index:
    """Lists by term, and what was read of them."""

    def __init__(self, **lists: PostingList) -> None:
        self.lists = {(term, False): found for term, found in lists.items()}
        self.read: list[list[Key]] = []

    def __call__(self, keys: Sequence[Key]) -> dict[Key, PostingList]:
        self.read.append(list(keys))
        return {key: self.lists[key] for key in keys if key in self.lists}


A, B, NONE = ("a", False), ("b", False), ("nothing", False)


def test_only_what_is_not_kept_is_read_and_a_word_without_a_list_is_remembered_too() -> None:
    index, kept = Index(a=listed(1, 2), b=listed(2)), KeptLists()
    assert list(kept.take([A, NONE], index)) == [A]
    again = kept.take([NONE, A, B, A], index)
    assert (list(again), index.read) == ([A, B], [[A, NONE], [B]])
    assert again[A] is index.lists[A]


def test_what_is_asked_for_only_when_it_is_short_is_another_list() -> None:
    index, kept = Index(a=listed(1, 2)), KeptLists()
    assert kept.take([("a", True)], index) == {}
    assert list(kept.take([A], index)) == [A]


def test_lists_beyond_the_bound_make_room_or_are_not_kept() -> None:
    index, kept = Index(a=listed(1, 2), b=listed(*range(3))), KeptLists(most_postings=4)
    kept.take([A], index)
    kept.take([B], index)  # five postings together: the first goes
    assert list(kept.take([B, A], index)) == [B, A]
    assert index.read == [[A], [B], [A]]
    tiny = KeptLists(most_postings=1)
    assert [list(tiny.take([A], index)) for _ in range(2)] == [[A], [A]]
    assert index.read[3:] == [[A], [A]]
