"""Keyword search in many languages: small sets of our own, and the shared Chinese set where it is at hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stores.memory.ram_index import RamIndex
from tests.stores.memory.conftest import Notes

SHARED = Path(__file__).parents[4] / "shared/vectors/cjk_retrieval.json"

JAPANESE = {
    "trip": "来月の京都旅行のホテルは駅前に予約した。",
    "food": "妹はピーナッツアレルギーなので、お菓子を買うときは成分表を確認する。",
    "work": "デプロイの手順書を更新して、ロールバックの方法も書いた。",
    "game": "今日は弟としりとりをした。",
    "bike": "自転車の鍵は玄関の引き出しに入っている。",
}
KOREAN = {
    "game": "오늘 끝말잇기 게임을 했다.",
    "trip": "다음 주에 부산으로 출장을 간다. 호텔은 해운대에 예약했다.",
    "food": "동생은 새우를 먹지 못한다.",
    "work": "배포 스크립트를 고쳐서 롤백이 자동으로 된다.",
}
RUSSIAN = {
    "contract": "Договор аренды подписали в марте, копия лежит в сейфе.",
    "car": "Машину отвезли в сервис, заменили тормозные колодки.",
    "doctor": "Приём у врача перенесли на четверг.",
    "food": "Сестра не ест орехи, у неё аллергия.",
}
ARABIC = {
    "library": "زرنا المكتبة الكبيرة يوم الخميس واستعرنا ثلاثة كتب.",
    "travel": "السفر إلى الدوحة في شهر مارس والحجز مؤكد.",
    "food": "أختي لا تأكل المكسرات بسبب الحساسية.",
    "work": "اجتماع الفريق صباح كل أحد.",
}
GERMAN = {
    "insurance": "Die Krankenversicherungsbeiträge steigen ab Januar.",
    "database": "Die Datenbankverbindung brach nachts ab.",
    "rent": "Der Mietvertrag liegt im Ordner neben der Haustür.",
    "garden": "Im Schrebergarten blühen die Sonnenblumen.",
}


def _index(documents: dict[str, str]) -> RamIndex:
    return RamIndex(documents.items())


@pytest.mark.parametrize(
    ("documents", "query", "expected"),
    [
        (JAPANESE, "京都のホテル", "trip"),
        (JAPANESE, "アレルギー", "food"),
        (JAPANESE, "ﾃﾞﾌﾟﾛｲ 手順", "work"),
        (JAPANESE, "しりとり", "game"),
        (JAPANESE, "鍵はどこ", "bike"),
        (KOREAN, "게임", "game"),
        (KOREAN, "끝말잇기는", "game"),
        (KOREAN, "부산 호텔", "trip"),
        (KOREAN, "새우", "food"),
        (KOREAN, "배포 스크립트", "work"),
        (RUSSIAN, "договора аренды", "contract"),
        (RUSSIAN, "машина", "car"),
        (RUSSIAN, "врач", "doctor"),
        (RUSSIAN, "аллергии", "food"),
        (ARABIC, "مكتبة", "library"),
        (ARABIC, "سفر", "travel"),
        (ARABIC, "حساسية المكسرات", "food"),
        (ARABIC, "اجتماع", "work"),
        (GERMAN, "Krankenversicherungsbeitrage", "insurance"),
        (GERMAN, "Mietvertrag", "rent"),
    ],
)
def test_a_question_finds_its_note_first(documents: dict[str, str], query: str, expected: str) -> None:
    assert _index(documents).search(query)[0].key == expected


@pytest.mark.skipif(not SHARED.exists(), reason="the shared retrieval set is not here")
def test_the_shared_chinese_set_is_answered_by_words_alone() -> None:
    data = json.loads(SHARED.read_text(encoding="utf-8"))
    index = RamIndex((document["id"], document["text"]) for document in data["corpus"])
    first = 0
    for query in data["queries"]:
        found = [hit.key for hit in index.search(query["query"], 3)]
        assert found, query["id"]
        first += found[0] in query["relevant"]
        if query["needs"] != "semantic":
            assert set(found) & set(query["relevant"]), query["id"]
    assert first >= 25


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the shared retrieval set is not here")
def test_the_built_in_embedder_makes_the_shared_set_no_worse(notes: Notes) -> None:
    data = json.loads(SHARED.read_text(encoding="utf-8"))
    for document in data["corpus"]:
        notes.write(f"memory/{document['id']}.md", document["text"])
    index = notes.index(provider="auto")
    index.sync(embed=True)
    firsts = {}
    for mode in ("keyword", "hybrid"):
        found = {
            q["id"]: [Path(hit.path).stem for hit in index.search(q["query"], mode=mode).hits] for q in data["queries"]
        }
        assert all(set(found[q["id"]][:3]) & set(q["relevant"]) for q in data["queries"] if q["needs"] != "semantic")
        firsts[mode] = sum(found[q["id"]][0] in q["relevant"] for q in data["queries"])
    assert firsts["hybrid"] >= firsts["keyword"] >= 25


def test_traditional_characters_find_simplified_ones() -> None:
    assert _index({"a": "飞书插件已经更新", "b": "天气不错"}).search("飛書外掛插件")[0].key == "a"


def test_an_exact_form_ranks_above_a_stem() -> None:
    index = _index({"a": "the cache was warmed", "b": "caching everywhere", "c": "other words"})
    assert [hit.key for hit in index.search("caching")] == ["b", "a"]


def test_removed_texts_are_not_found() -> None:
    index = _index({"a": "apples", "b": "apples and pears"})
    index.remove("a")
    assert [hit.key for hit in index.search("apples")] == ["b"]
    index.add("b", "plums")
    assert index.search("apples") == []
    assert len(index) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [("Versicherung", "insurance"), ("Datenbank", "database"), ("Gartenzaun Sonnenblume", "garden")],
)
def test_parts_of_german_compounds_are_found(notes: Notes, query: str, expected: str) -> None:
    for name, text in GERMAN.items():
        notes.write(f"memory/{name}.md", text)
    assert notes.index().search(query).hits[0].path == f"memory/{expected}.md"
