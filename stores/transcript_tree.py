"""The tree of a transcript: paths from a leaf to the root, and how far back the visible part of one reaches.

Source: spec/sessions.md section 4.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stores.transcript_entries import SUMMARY_BOUNDARIES, Entry


@dataclass(frozen=True, slots=True)
class VisiblePath:
    """The part of the active path that a context needs.

    Attributes:
        entries: oldest first.
        settled: whether nothing before ``entries`` can be visible: a boundary and the first entry it keeps are
            among them.
        missing: id of the entry that the walk looked for in vain; ``None`` at a root or a cycle.
    """

    entries: tuple[Entry, ...]
    settled: bool
    missing: str | None


def index_by_id(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Index entries in file order; a later duplicate replaces an earlier one."""
    return {entry.id: entry for entry in entries}


def path_to(by_id: Mapping[str, Entry], leaf_id: str | None) -> tuple[Entry, ...]:
    """Follow parents from a leaf: oldest first, stopping at a root, an unknown parent or a repeated id."""
    return visible_path(by_id, leaf_id, whole=True).entries


def visible_path(by_id: Mapping[str, Entry], leaf_id: str | None, *, whole: bool = False) -> VisiblePath:
    """Follow parents from a leaf until everything visible is there, or to the root when ``whole`` is set."""
    path: list[Entry] = []
    walk = PathWalk(leaf_id)
    while walk.wanted is not None and (whole or not walk.settled):
        entry = by_id.get(walk.wanted)
        if entry is None:
            break
        path.append(entry)
        walk.take(entry)
    return VisiblePath(tuple(reversed(path)), walk.settled, walk.wanted)


class PathWalk:
    """A walk from the leaf towards the root that knows when all visible entries have been met.

    ``wanted`` is the id to take next, ``None`` at the end of the path.
    """

    __slots__ = ("_boundary", "_kept", "_seen", "settled", "wanted")

    def __init__(self, leaf_id: str | None) -> None:
        self.wanted = leaf_id
        self.settled = False
        self._boundary: Entry | None = None
        self._kept: str | None = None
        self._seen: set[str] = set()

    def take(self, entry: Entry) -> None:
        """Step onto the wanted entry."""
        self._seen.add(entry.id)
        if self._boundary is None:
            if entry.type in SUMMARY_BOUNDARIES:
                self._boundary = entry
                self._kept = entry.text_field("firstKeptEntryId")
                self.settled = self._kept is None
        elif entry.id == self._kept:
            self.settled = True
        parent = entry.parent_id
        self.wanted = None if parent in self._seen else parent


def last_boundary(path: Sequence[Entry]) -> int | None:
    """Return the index of the last compaction or reset of a path."""
    for index in range(len(path) - 1, -1, -1):
        if path[index].type in SUMMARY_BOUNDARIES:
            return index
    return None


def tips(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the last entry of every branch, in file order: the entries that nothing follows."""
    followed = {entry.parent_id for entry in entries if entry.parent_id != entry.id}
    return tuple(entry for entry in entries if entry.id not in followed)
