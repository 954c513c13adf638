"""Faults that users of such systems have met, each with its input (spec/known-faults.md 7, 8, 13.2)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stores.memory import writing
from stores.memory.database import Database, IndexBusy
from stores.memory.dates import Fading, age_days, decay
from stores.memory.note_reading import NotAllowed
from stores.memory.ranking import Candidate, Rules, Weights, rank
from tests.stores.memory.conftest import Notes
from turngraph.errors import StoreError
from turngraph.models.embedders import HashEmbedder
from turngraph.text import weighted_chars

Paths = Callable[..., list[str]]


class Stub:
    """An embedder that gives what it is told to: a vector for each text, or an error."""

    is_remote = False
    max_input_tokens = 8_000

    def __init__(self, vector_of: Callable[[str], Any], name: str = "stub") -> None:
        self.id = name
        self.vector_of = vector_of
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[Any]:
        vectors = [self.vector_of(text) for text in texts]
        self.asked += texts
        return vectors

    def embed_query(self, text: str) -> Any:
        return self.vector_of(text)


# 7.1 to 7.5: words of every script, and any text as a query


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("成语接龙", "memory/zh.md"),
        ("しりとり", "memory/ja.md"),
        ("끝말잇기", "memory/ko.md"),
        ("成语", "memory/zh.md"),
    ],
)
def test_cjk_words_are_found_without_an_embedder(notes: Notes, paths_of: Paths, query: str, path: str) -> None:
    notes.write("memory/zh.md", "今天玩成语接龙游戏")
    notes.write("memory/ja.md", "今日は成語しりとりをした")
    notes.write("memory/ko.md", "오늘 끝말잇기 게임을 했다")
    assert paths_of(notes.index(), query)[0] == path


def test_long_and_mixed_queries_are_taken_apart(notes: Notes) -> None:
    notes.write("memory/n1.md", "飞书的插件已更新，配置见下")
    notes.write("memory/n2.md", "天气不错")
    notes.write("memory/n3.md", "把脚本备份到 GitHub，上传完成")
    index = notes.index()
    for query, path in (("飞书插件配置", "memory/n1.md"), ("GitHub备份脚本上传失败", "memory/n3.md")):
        best = index.search(query).hits[0]
        assert best.path == path
        assert best.explanation.text_score > 0


def test_a_date_finds_the_note_that_holds_it_and_the_file_of_that_name(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/plan.md", "deadline 2026-03-31 for the report")
    notes.write("memory/2026-03-31.md", "quiet day")
    notes.write("memory/other.md", "nothing of note")
    assert set(paths_of(notes.index(), "2026-03-31")) == {"memory/plan.md", "memory/2026-03-31.md"}


@pytest.mark.parametrize("identifier", ["uteke-cloud-dev", "uteke-cloud", "snake_case_name", "v2.14.0", "ADR-0005"])
def test_an_identifier_ranks_its_exact_note_first(notes: Notes, paths_of: Paths, identifier: str) -> None:
    names = ["uteke-cloud-dev", "uteke-cloud", "snake_case_name", "v2.14.0", "ADR-0005", "snake name case", "v2.14.1"]
    for number, name in enumerate(names):
        notes.write(f"memory/{number}.md", f"we used {name} for the service")
    assert paths_of(notes.index(), identifier)[0] == f"memory/{names.index(identifier)}.md"


def test_any_text_is_a_safe_query_and_more_words_rank_higher(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/both.md", "The database was slow. A migration fixed it.")
    notes.write("memory/one.md", "The database is fine.")
    notes.write("memory/c.md", "written in C++ with foo/bar and half a test")
    index = notes.index()
    assert paths_of(index, "database migration") == ["memory/both.md", "memory/one.md"]
    assert paths_of(index, "C++") == ["memory/c.md"]
    assert paths_of(index, "foo/bar") == ["memory/c.md"]
    assert paths_of(index, '"half') == ["memory/c.md"]
    for query in ("what did we discuss?", "AND OR NOT", "'; DROP TABLE chunks; --", "\0\n%_", "(((", "🎉", " "):
        index.search(query)


def test_an_exact_word_is_not_lost_to_the_threshold() -> None:
    rules = Rules(Weights(text=0.3, vector=0.7), min_score=0.35)
    [hit] = rank([Candidate("a", text_score=1.0, keyword_rank=1)], rules)
    assert hit.score == pytest.approx(0.3)


# 7.7 to 7.10: change, other models, failures


def test_change_is_seen_without_a_watcher(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/sub/b.md", "old words")
    notes.write("memory/c.md", "crocodile")
    index = notes.index()
    index.sync()
    notes.write("memory/a.md", "antelope")
    notes.write("memory/sub/b.md", "badger instead")
    (notes.workspace / "memory/c.md").unlink()
    status = index.status()
    assert (status.added, status.changed, status.removed, status.is_clean) == (1, 1, 1, False)
    assert paths_of(index, "antelope") == ["memory/a.md"]
    assert paths_of(index, "badger") == ["memory/sub/b.md"]
    assert paths_of(index, "crocodile") == []
    assert index.status().is_clean


def test_vectors_of_two_models_never_meet(notes: Notes) -> None:
    notes.write("memory/a.md", "alpha beta")
    notes.index(HashEmbedder(4)).sync(embed=True)
    other = notes.index(HashEmbedder(8))
    result = other.search("alpha")
    assert [hit.path for hit in result.hits] == ["memory/a.md"]
    assert result.mode == "keyword"
    assert result.rebuild is not None
    assert other.status().rebuild is not None
    other.sync(force=True)
    with other.database.read() as connection:
        sizes = connection.execute("SELECT DISTINCT len(vector) FROM vectors").fetchall()
    assert sizes == [(8,)]
    assert other.search("alpha").mode == "hybrid"


def test_a_failed_rebuild_leaves_the_old_index_and_keeps_what_was_embedded(notes: Notes) -> None:
    for number in range(40):
        notes.write(f"memory/{number:02d}.md", f"note number{number} about things")
    notes.index().sync()

    def fails_at_thirty(text: str) -> list[float]:
        if "number29 " in text:
            raise RuntimeError("the server fell over")
        return [1.0, len(text)]

    broken = Stub(fails_at_thirty)
    index = notes.index(broken)
    with pytest.raises(StoreError, match="old index still answers"):
        index.sync(force=True)
    assert index.status().files == 40
    assert index.search("number7", mode="keyword").hits
    cache = index.meaning.cache()
    assert cache is not None
    assert cache.count() == 29
    mended = Stub(lambda text: [1.0, len(text)])
    assert notes.index(mended).sync(force=True).chunks == 40
    assert len(mended.asked) == 11


def test_a_used_up_quota_stops_vectors_and_not_words(notes: Notes) -> None:
    for number in range(30):
        notes.write(f"memory/{number}.md", f"note {number} about apples")
    calls = []

    def refuses(text: str) -> list[float]:
        calls.append(text)
        raise RuntimeError("429 insufficient_quota")

    index = notes.index(Stub(refuses))
    report = index.sync(embed=True)
    assert report.added == 30
    assert report.fallback is not None
    assert "insufficient_quota" in report.fallback
    assert len(calls) == 1
    assert index.search("apples").hits
    assert len(calls) == 1


# 7.11 to 7.16: chunks, snippets, age, vectors, filters, removal


def test_chunks_keep_the_limit_overlap_included(notes: Notes) -> None:
    notes.write("memory/a.md", "x" * 3000 + "\n" + "记" * 3000)
    index = notes.index()
    index.sync()
    with index.database.read() as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM chunks").fetchall()]
    assert max(map(weighted_chars, texts)) <= 1600
    assert "x" * 1100 in max(texts, key=len)


def test_the_snippet_shows_the_hit(notes: Notes) -> None:
    lines = [f"line {number} of nothing special" for number in range(1, 61)]
    lines[49] = "line 50 has the word wolverine"
    notes.write("memory/a.md", "\n".join(lines))
    [hit] = notes.index(chunking={"tokens": 2000, "overlap": 0}).search("wolverine").hits
    assert "wolverine" in hit.snippet
    assert len(hit.snippet) <= 700
    assert (hit.path, hit.start_line, hit.end_line) == ("memory/a.md", 1, 60)


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("memory/2026-05-14.md", 0.125),
        ("memory/2026-05-14-1430.md", 0.125),
        ("memory/2026-05-14-vendor-pitch.md", 0.125),
        ("memory/dreaming/light/2026-05-14.md", 0.125),
        ("MEMORY.md", 1.0),
        ("memory/projects.md", 1.0),
        ("memory/2026-13-45.md", 1.0),
    ],
)
def test_dated_notes_age_and_others_do_not(path: str, factor: float) -> None:
    now = datetime(2026, 8, 12, tzinfo=UTC)
    assert decay(age_days(path, now, now, UTC), Fading(30, 0.0)) == pytest.approx(factor)


def test_unusable_vectors_never_rank_and_stored_ones_have_length_one(notes: Notes) -> None:
    vectors = {"zero": [0.0, 0.0, 0.0], "nan": [math.nan, 1.0, 0.0], "long": [12.0, 0.0, 0.0], "real": [0.9, 0.1, 0.0]}
    for name in vectors:
        notes.write(f"memory/{name}.md", name)
    index = notes.index(Stub(lambda text: vectors.get(text.strip(), [1.0, 0.0, 0.0])))
    index.sync(embed=True)
    hits = index.search("asking", mode="vector").hits
    assert [hit.path for hit in hits] == ["memory/long.md", "memory/real.md"]
    with index.database.read() as connection:
        stored = connection.execute("SELECT vector FROM vectors WHERE vector IS NOT NULL").fetchall()
    assert [pytest.approx(1.0)] * len(stored) == [np.linalg.norm(row[0]) for row in stored]
    assert index.status().pending == 0


@pytest.mark.parametrize("mode", ["keyword", "vector", "hybrid"])
def test_sources_are_filtered_before_the_limit(notes: Notes, paths_of: Paths, mode: str) -> None:
    sessions = notes.root / "agents/main/sessions"
    sessions.mkdir(parents=True)
    for number in range(500):
        line = '{"type":"message","id":"m","parentId":null,"message":{"role":"user","content":"walrus walrus walrus"}}'
        (sessions / f"s{number}.jsonl").write_text(line + "\n")
    for number in range(5):
        notes.write(f"memory/{number}.md", f"a long note {'about other things ' * 20} and one walrus")
    near, far = [1.0, 0.0], [0.6, 0.8]
    embedder = Stub(lambda text: far if "long note" in text else near)
    index = notes.index(embedder, sources=["memory", "sessions"], experimental={"sessionMemory": True})
    index.sync(embed=True)
    assert index.status().chunks == 505
    only = paths_of(index, "walrus", corpus="memory", max_results=5, mode=mode)
    assert sorted(only) == [f"memory/{number}.md" for number in range(5)]
    unfiltered = paths_of(index, "walrus", max_results=5, mode=mode)
    assert {path.split("/")[0] for path in unfiltered} == {"sessions"}


def test_without_a_filter_both_sources_appear(notes: Notes, paths_of: Paths) -> None:
    sessions = notes.root / "agents/main/sessions"
    sessions.mkdir(parents=True)
    line = '{"type":"message","id":"m","parentId":null,"message":{"role":"user","content":"walrus walrus walrus"}}'
    (sessions / "s.jsonl").write_text(line + "\n")
    notes.write("memory/a.md", "one walrus")
    index = notes.index(sources=["memory", "sessions"], experimental={"sessionMemory": True})
    assert {path.split("/")[0] for path in paths_of(index, "walrus")} == {"memory", "sessions"}


def test_removed_files_leave_nothing_behind(notes: Notes) -> None:
    for number in range(5):
        notes.write(f"memory/{number}.md", f"unique{number} words")
    index = notes.index(HashEmbedder(16))
    index.sync(embed=True)
    for number in (1, 3):
        (notes.workspace / f"memory/{number}.md").unlink()
    index.sync(embed=True)
    status = index.status()
    assert (status.files, status.chunks, status.on_disk, status.vectors) == (3, 3, 3, 3)
    with index.database.write() as connection:
        writing.fold(connection)
        terms = {term for (term,) in connection.execute("SELECT term FROM segment").fetchall()}
    assert "unique1" not in terms
    assert "unique2" in terms


# 7.17: locks


def test_a_held_index_is_busy_and_not_a_traceback(notes: Notes) -> None:
    notes.write("memory/a.md", "apples")
    index = notes.index()
    index.sync()
    index.close()
    impatient = Database(index.places.index, wait_s=0.1)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with index.database.write():
            entered.set()
            leave.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert entered.wait(10)
        with pytest.raises(IndexBusy, match="try again"), impatient.write():
            pass
        with pytest.raises(IndexBusy, match="try again"), impatient.read():
            pass
    finally:
        leave.set()
        holder.join()
    with impatient.read() as connection:
        assert connection.execute("SELECT count(*) FROM chunks").fetchone() == (1,)


# 8: memory_get


@pytest.mark.parametrize(
    "path",
    [
        "memory/link/secret.md",
        "memory/linked.md",
        "../outside/secret.md",
        "memory/../../outside/secret.md",
        "memory/a.txt",
        "memory/a\0.md",
        "notes/a.md",
        "ABSOLUTE",
    ],
)
def test_memory_get_refuses_what_is_no_plain_memory_file(notes: Notes, path: str) -> None:
    outside = notes.root / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (notes.workspace / "memory/link").symlink_to(outside)
    (notes.workspace / "memory/linked.md").symlink_to(outside / "secret.md")
    notes.write("memory/a.txt", "text")
    notes.write("notes/a.md", "text")
    wanted = str(outside / "secret.md") if path == "ABSOLUTE" else path
    with pytest.raises(NotAllowed):
        notes.index().get(wanted)


def test_a_sibling_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "w")
    beside = tmp_path / "w" / "workspace-more"
    beside.mkdir()
    (beside / "a.md").write_text("secret")
    with pytest.raises(NotAllowed):
        notes.index().get("../workspace-more/a.md")


def test_a_note_that_does_not_exist_yet_is_no_error(notes: Notes) -> None:
    part = notes.index().get("memory/2026-05-15.md")
    assert (part.status, part.text) == ("not_found", "")


# 13.2 and 14.3


def test_one_persons_session_is_never_a_candidate_for_another(notes: Notes, paths_of: Paths) -> None:
    sessions = notes.root / "agents/main/sessions"
    sessions.mkdir(parents=True)
    entries = {}
    for name in ("ann", "bob"):
        entries[f"agent:main:telegram:direct:{name}"] = {"sessionId": f"s-{name}"}
        text = f"walrus plans of {name}"
        line = '{"type":"message","id":"m","parentId":null,"message":{"role":"user","content":"' + text + '"}}'
        (sessions / f"s-{name}.jsonl").write_text(line + "\n")
    import json

    (sessions / "sessions.json").write_text(json.dumps(entries))
    settings = notes.settings(sources=["memory", "sessions"], experimental={"sessionMemory": True})
    session = settings.root.session.model_copy(update={"dm_scope": "per-channel-peer"})
    settings = settings.model_copy(update={"root": settings.root.model_copy(update={"session": session})})
    from stores.home import Home
    from stores.memory.index import MemoryIndex

    index = MemoryIndex.open(Home(notes.root), "main", settings, cache_dir=notes.root / "cache")
    assert paths_of(index, "walrus plans of bob", scope="telegram:direct:ann") == ["sessions/s-ann.jsonl"]
    assert paths_of(index, "walrus") == []
    index.close()


def test_rows_are_searchable_at_once(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/a.md", "first")
    index = notes.index()
    index.sync()
    notes.write("memory/b.md", "second")
    index.file_changed("memory/b.md")
    assert paths_of(index, "second") == ["memory/b.md"]


# 14.1


def test_no_extension_is_ever_fetched(notes: Notes) -> None:
    notes.write("memory/a.md", "apples")
    index = notes.index()
    index.sync()
    with index.database.read() as connection:
        settings = dict(
            connection.execute("SELECT name, value FROM duckdb_settings() WHERE name LIKE 'auto%extensions'").fetchall()
        )
        loaded = connection.execute(
            "SELECT extension_name FROM duckdb_extensions() WHERE loaded AND extension_name IN ('fts', 'vss')"
        ).fetchall()
    assert settings == {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    assert loaded == []
