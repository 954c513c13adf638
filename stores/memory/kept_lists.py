"""Posting lists that a process keeps between searches of one generation of the index.

People ask with the same words again and again, and the words that most chunks hold have the longest lists: reading
them anew takes longer than all the rest of a search by words. A kept list costs six bytes a posting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

MOST_POSTINGS = 8_000_000  # 48 MB

PostingList = tuple[NDArray[np.int32], NDArray[np.int16]]
Key = tuple[str, bool]  # a term, and whether it is only asked for when its list is short


class KeptLists:
    """Lists by what they were asked for as; dropped with the snapshot they belong to, since a write may change them."""

    def __init__(self, most_postings: int = MOST_POSTINGS) -> None:
        self._most = most_postings
        self._lists: dict[Key, PostingList | None] = {}
        self._postings = 0

    def take(
        self, keys: Iterable[Key], read: Callable[[list[Key]], Mapping[Key, PostingList]]
    ) -> dict[Key, PostingList]:
        """Return the lists of ``keys`` that have one.

        Args:
            keys: what is asked for.
            read: reads the lists of those that are not kept, in one go.
        """
        wanted = list(dict.fromkeys(keys))
        lists = {key: self._lists[key] for key in wanted if key in self._lists}
        missing = [key for key in wanted if key not in lists]
        if missing:
            found = read(missing)
            lists |= {key: found.get(key) for key in missing}
            self._keep({key: found.get(key) for key in missing})
        return {key: kept for key in wanted if (kept := lists[key]) is not None}

    def _keep(self, lists: Mapping[Key, PostingList | None]) -> None:
        size = sum(len(kept[0]) for kept in lists.values() if kept is not None)
        if self._postings + size > self._most:
            self._lists, self._postings = {}, 0
        if size <= self._most:
            self._lists.update(lists)
            self._postings += size
