"""Parts of the ranking that LoCoMo showed to be worth having, each on a small case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stores.memory import keyword
from stores.memory.ram_index import RamIndex
from stores.memory.ranking import Candidate, Rules, Weights, rank
from stores.memory.searching import nearness
from tests.stores.memory.conftest import Notes
from turngraph.models.embedders import HashEmbedder

Paths = Callable[..., list[str]]
SMALL = {"chunking": {"tokens": 40, "overlap": 0}}


def _numbered(count: int, marked: int) -> str:
    return "\n".join(
        f"line {n:02d} {'wolverine' if n == marked else 'of nothing special'}" for n in range(1, count + 1)
    )


def test_a_hit_shows_two_lines_around_its_chunk_and_no_more(notes: Notes) -> None:
    notes.write("memory/a.md", _numbered(60, marked=30))
    index = notes.index(**SMALL)
    [hit] = index.search("wolverine").hits
    with index.database.read() as connection:
        row = connection.execute("SELECT start_line, end_line FROM chunks WHERE text LIKE '%wolverine%'").fetchone()
    assert row is not None
    assert (hit.start_line, hit.end_line) == (row[0] - 2, row[1] + 2)


def test_context_stays_inside_the_file(notes: Notes) -> None:
    notes.write("memory/a.md", _numbered(12, marked=1))
    notes.write("memory/b.md", _numbered(12, marked=12))
    lines = {hit.path: (hit.start_line, hit.end_line) for hit in notes.index(**SMALL).search("wolverine").hits}
    assert lines["memory/a.md"][0] == 1
    assert lines["memory/b.md"][1] == 12


def test_an_entry_of_a_curated_file_stands_for_itself(notes: Notes) -> None:
    notes.write("MEMORY.md", "- Ann likes tea\n- the gateway listens on 8443\n- Bo likes rain\n")
    [hit] = notes.index().search("gateway").hits
    assert (hit.start_line, hit.end_line) == (2, 2)


def test_function_words_order_what_was_found_and_find_nothing_themselves() -> None:
    index = RamIndex(
        [("later", "the deployment after lunch"), ("now", "the deployment before lunch"), ("no", "before")]
    )
    assert [hit.key for hit in index.search("deployment before")] == ["now", "later"]


def test_a_query_of_function_words_alone_still_finds() -> None:
    assert [hit.key for hit in RamIndex([("a", "to be or not to be")]).search("to be or not")] == ["a"]


def test_function_words_do_not_count_as_covered_or_missing() -> None:
    [with_them] = RamIndex([("a", "deployment at noon")]).search("when was the deployment")
    assert with_them.coverage == 1.0
    assert keyword.analyze("when was the deployment").function_words.keys() >= {"when", "was", "the"}


@pytest.mark.parametrize("cosine", [0.05, 0.2, 0.4, 0.7, 0.95])
def test_small_cosines_are_spread_and_their_order_stays(cosine: float) -> None:
    assert cosine < nearness(cosine) < nearness(cosine + 0.05) <= 1


def test_opposite_texts_are_no_nearer_than_unrelated_ones() -> None:
    assert nearness(-0.4) == nearness(0.0) == 0.0


def test_a_hit_by_meaning_alone_must_be_near_enough_itself() -> None:
    rules = Rules(Weights(text=0.7, vector=0.3), min_score=0.35)
    near = Candidate("near", vector_score=0.5, vector_rank=1)
    far = Candidate("far", vector_score=0.2, vector_rank=2)
    [hit] = rank([near, far], rules)
    assert (hit.key, hit.explanation.admitted) == ("near", "spare place: meaning")


def test_vectors_alone_answer_at_the_default_least_score(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/a.md", "the gateway listens on port 8443 of the old server in the cellar")
    notes.write("memory/b.md", "Bo's birthday cake had strawberries")
    index = notes.index(HashEmbedder(512))
    index.sync(embed=True)
    assert paths_of(index, "gateway port of the server", mode="vector") == ["memory/a.md"]
