"""Read postings and chunk rows of a query from the index.

A search reads what its words name, never the corpus. Source: spec/stack.md 2, spec/memory.md 9.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stores.memory.kept_lists import KeptLists, PostingList
from stores.memory.keyword import Postings, Query
from stores.memory.schema import quoted

if TYPE_CHECKING:
    import duckdb

EXPANDED_FROM_CHARS = 5  # shorter words are part of too many others
EXPANDED_WEIGHT = 0.5
MAX_EXPANSIONS = 40
MAX_FUNCTION_WORD_SHARE = 0.5  # of all chunks; what nearly every chunk holds tells none apart and is long to read

Lists = dict[str, PostingList]


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk as stored."""

    chunk_id: int
    start_line: int
    end_line: int
    hash: str
    origin: str
    observed_ms: int | None
    text: str


def find_postings(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    chunks: int,
    *,
    unfolded: bool = True,
    kept: KeptLists | None = None,
) -> list[Postings]:
    """Return postings of the terms that occur; an unknown word is looked for inside other words, and they in it.

    That is how parts of German compounds, inflected forms and file names in one piece are found. Function words that
    most of the ``chunks`` hold are left out. ``unfolded`` says whether there are postings outside the segment.
    ``kept`` are lists of earlier searches of the same generation.
    """
    weights = query.terms | query.function_words
    longest = int(MAX_FUNCTION_WORD_SHARE * chunks)

    def read(asked: Sequence[tuple[str, bool]]) -> dict[tuple[str, bool], PostingList]:
        terms, lesser = ([term for term, less in asked if less is wanted] for wanted in (False, True))
        lists = _lists(connection, terms, lesser, longest, unfolded=unfolded)
        return {(term, less): lists[term] for term, less in asked if term in lists}

    asked = ((term, term in query.function_words) for term in weights)
    lists = {term: found for (term, _), found in (kept or KeptLists()).take(asked, read).items()}
    found = [Postings(term, weight, *lists[term]) for term, weight in weights.items() if term in lists]
    unknown = [term for term in query.terms if term not in lists and _may_expand(term)]
    if unknown:
        found += _expanded(connection, query, unknown)
    return found


def _may_expand(term: str) -> bool:
    return len(term) >= EXPANDED_FROM_CHARS and term.isalpha() and term < "\u0e00"


def _lists(
    connection: duckdb.DuckDBPyConnection,
    terms: Sequence[str],
    lesser: Sequence[str] = (),
    longest: int = 0,
    *,
    unfolded: bool = True,
) -> Lists:
    """Return posting lists of ``terms``, and of ``lesser`` ones up to a length."""
    wanted = f"term IN ({_literals([*terms, *lesser])})"
    short = f" AND (len(ids) <= {longest:d} OR term NOT IN ({_literals(lesser)}))" if lesser else ""
    segment = connection.execute(f"SELECT term, ids, frequencies FROM segment WHERE {wanted}{short}").fetchnumpy()
    lists: Lists = {}
    for term, ids, times in zip(segment["term"], segment["ids"], segment["frequencies"], strict=True):
        lists[term] = (ids, times)
    if not unfolded:
        return lists
    delta = connection.execute(f"SELECT term, chunk_id, frequency FROM delta WHERE {wanted}").fetchnumpy()
    for term in dict.fromkeys(delta["term"]):
        rows = np.flatnonzero(delta["term"] == term)
        rows = rows[np.argsort(delta["chunk_id"][rows], kind="stable")]
        ids, times = delta["chunk_id"][rows], delta["frequency"][rows]
        known = lists.get(term)
        lists[term] = (
            (ids, times) if known is None else (np.concatenate([known[0], ids]), np.concatenate([known[1], times]))
        )
    return lists


def _literals(terms: Sequence[str]) -> str:
    return ", ".join(map(quoted, terms))


def _expanded(connection: duckdb.DuckDBPyConnection, query: Query, unknown: list[str]) -> list[Postings]:
    rows = connection.execute(
        "WITH wanted AS (SELECT unnest(string_split(?, chr(0))) AS word),"
        " vocabulary AS (SELECT term FROM segment UNION SELECT DISTINCT term FROM delta)"
        " SELECT word, term FROM wanted JOIN vocabulary ON contains(term, word)"
        " OR (length(term) >= ? AND 2 * length(term) >= length(word) AND contains(word, term))"
        " ORDER BY word, length(term), term",
        ["\0".join(unknown), EXPANDED_FROM_CHARS],
    ).fetchall()
    relatives: dict[str, list[str]] = {}
    for word, term in rows:
        known = relatives.setdefault(word, [])
        if len(known) < MAX_EXPANSIONS:
            known.append(term)
    lists = _lists(connection, sorted({term for terms in relatives.values() for term in terms})) if relatives else {}
    found = []
    for word, terms in relatives.items():
        ids = np.concatenate([lists[term][0] for term in terms if term in lists])
        unique, first = np.unique(ids, return_index=True)
        times = np.concatenate([lists[term][1] for term in terms if term in lists])[first]
        found.append(Postings(word, EXPANDED_WEIGHT * query.terms[word], unique, times))
    return found


def chunk_rows(connection: duckdb.DuckDBPyConnection, ids: Sequence[int]) -> dict[int, ChunkRow]:
    """Return chunks by id."""
    if not ids:
        return {}
    marks = ",".join(f"{int(number)}" for number in ids)
    rows = connection.execute(
        "SELECT chunk_id, start_line, end_line, hash, origin, observed_ms, text"
        f" FROM chunks WHERE chunk_id IN ({marks})"
    ).fetchall()
    return {row[0]: ChunkRow(*row) for row in rows}
