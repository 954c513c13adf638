"""The snippet shows the hit in every script, also where text and query are written differently (known-faults 7.12)."""

from __future__ import annotations

import pytest

from stores.memory.keyword import analyze
from stores.memory.snippets import SNIPPET_CHARS, snippet
from turngraph.text import floor_cut

LATIN = "filler words here and there. " * 36
HAN = "天氣不錯哦朋友。" * 110


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        (HAN + "網絡設備很貴", "网络设备", "網絡設備"),
        (LATIN + "die Straße nach Köln", "strasse", "Straße"),
        (LATIN + "ＷＡＬＲＵＳ in wide letters", "walrus", "ＷＡＬＲＵＳ"),
        (LATIN + "ﾊﾝｶｸ in narrow letters", "ハンカク", "ﾊﾝｶｸ"),
        (LATIN + "the İstanbul trip", "istanbul", "İstanbul"),
        (LATIN + "cafe\u0301 society", "café", "cafe\u0301"),
        (LATIN + "مُحَمَّد was there", "محمد", "مُحَمَّد"),
        (LATIN + "게임을 했다", "게임", "게임을"),
        (LATIN + "👨‍👩‍👧‍👦 walruses", "walrus", "walruses"),
        (LATIN + "Donaudampfschifffahrt", "dampfschifffahrt", "Donaudampfschifffahrt"),
    ],
)
def test_the_hit_is_shown(text: str, query: str, shown: str) -> None:
    found = snippet(text, analyze(query).surfaces)
    assert shown in found
    assert found in text
    assert len(found) <= SNIPPET_CHARS
    assert floor_cut(found, len(found)) == len(found)


def test_a_snippet_of_a_long_line_begins_with_a_word() -> None:
    found = snippet(LATIN + "walrus", analyze("walrus").surfaces)
    assert found.split()[0] in LATIN.split()


def test_without_a_word_of_the_query_the_beginning_is_shown() -> None:
    assert snippet(LATIN, analyze("walrus").surfaces) == LATIN[: len(snippet(LATIN, ()))]
