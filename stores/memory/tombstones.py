"""What must not come back into an index: kept in a file of its own, because nothing else could tell it again.

The index can be deleted, damaged or of another version and is rebuilt; what was forgotten stays forgotten.
Source: design decision 14.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import orjson

from stores.archives import sync_folder

EVERYTHING = "*"

Forgotten = Mapping[tuple[str, str], frozenset[str]]


class Tombstones:
    """The tombstones of one agent: lines of ``{source, path, hash}``, appended and never rewritten.

    ``hash`` is that of a chunk or of a whole file, or :data:`EVERYTHING`; no text is kept.
    """

    def __init__(self, index: Path) -> None:
        self.path = index.with_suffix(".forgotten.jsonl")
        self._known: Forgotten = {}
        self._known_size = 0

    def read(self) -> Forgotten:
        """Return the hashes that must not come back, by (source, path)."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            return {}
        if size != self._known_size:
            self._known, self._known_size = _read(self.path), size
        return self._known

    def add(self, rows: Iterable[tuple[str, str, str]]) -> None:
        """Add (source, path, hash) rows; they are on disk when this returns."""
        lines = [json.dumps({"source": s, "path": p, "hash": h}, ensure_ascii=False) for s, p, h in rows]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            # A line before the first one ends what a killed writer may have left half written.
            file.write("\n".join(["", *lines, ""]).encode())
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self.path.parent)


def _read(path: Path) -> Forgotten:
    found: dict[tuple[str, str], set[str]] = {}
    for line in path.read_bytes().split(b"\n"):
        try:
            row = orjson.loads(line)
            found.setdefault((row["source"], row["path"]), set()).add(row["hash"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # blank, or cut by a kill before the forgetting was confirmed
    return {key: frozenset(hashes) for key, hashes in found.items()}
