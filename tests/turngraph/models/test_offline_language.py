"""The language of the offline model's own sentences follows the question."""

from __future__ import annotations

import string

import pytest

from turngraph.models.offline_language import SENTENCES, language


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When is the dentist appointment?", "en"),
        ("今天玩了什么游戏?", "zh-Hans"),
        ("請問會議記錄在哪裡?", "zh-Hant"),
        ("自行车", "zh-Hans"),
        ("今日は何をしましたか?", "ja"),
        ("東京の会議", "ja"),
        ("오늘 무슨 게임을 했어?", "ko"),
        ("Wann ist mein Zahnarzttermin?", "de"),
        ("Quand est mon rendez-vous chez le dentiste ?", "fr"),
        ("¿Cuándo es mi cita con el dentista?", "es"),
        ("Quando é a minha consulta no dentista?", "pt"),
        ("Quando è il mio appuntamento dal dentista?", "it"),
        ("Когда у меня приём у врача?", "ru"),
        ("متى موعدي عند الطبيب؟", "ar"),
        ("GitHub 备份脚本为什么上传失败了", "zh-Hans"),
        ("What did 王伟 say about the deployment last week?", "en"),
        ("12:30?", "en"),
        ("", "en"),
        ("👩‍👩‍👧", "en"),
    ],
)
def test_language(question: str, expected: str) -> None:
    assert language(question) == expected


def test_every_language_has_its_own_sentences_with_the_same_blanks() -> None:
    english = SENTENCES["en"]
    for name, sentences in SENTENCES.items():
        for field in english.__dataclass_fields__:
            text = getattr(sentences, field)
            assert _blanks(text) == _blanks(getattr(english, field))
            assert name == "en" or text != getattr(english, field)


def test_own_sentences_are_in_the_language_they_are_for() -> None:
    for name, sentences in SENTENCES.items():
        assert language(sentences.no_memory) == name


def _blanks(text: str) -> list[str | None]:
    return [field for _, field, _, _ in string.Formatter().parse(text) if field]
