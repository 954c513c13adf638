"""Scripts of the world as the tokenizer sees them: character classes, folding, and light stems.

Everything here works on one word or one run and knows nothing of documents.
Source: spec/memory.md 9.2; spec/stack.md 5 for what the English stems add.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from importlib.resources import files

# Scripts written without spaces whose characters carry meaning: Han with its extensions, kana, Hangul syllables.
CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003347f"
)
# Scripts written without spaces by letters: Thai, Lao, Myanmar, Khmer. Digits and punctuation are left out.
UNSPACED = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dc-\u17dd"
PICTURES = "\u2600-\u27bf\U0001f300-\U0001faff"

_FIRST_WORD_BLOCKS = ((0x80, 0x3000), (0xA4D0, 0xABFF), (0xFB00, 0xFDFF), (0xFE70, 0xFEFF))
_CASED_MARKS = frozenset(map(chr, (*range(0x300, 0x370), *range(0x483, 0x488))))
_POINTING_MARKS = frozenset(map(chr, (*range(0x591, 0x5C8), *range(0x610, 0x61B), *range(0x64B, 0x656), 0x670, 0x640)))
_DROPPED_MARKS = _CASED_MARKS | _POINTING_MARKS


@cache
def word_class() -> str:
    """Return the characters of words in spaced scripts, combining marks included, for a regular expression.

    Built from the Unicode database at first use (about 5 ms): ``re`` has no class for marks, and one without the
    scripts above can be matched without look-aheads.
    """
    unspaced = {code for first, last in _pairs(UNSPACED) for code in range(first, last + 1)}
    spans: list[list[int]] = []
    for start, end in _FIRST_WORD_BLOCKS:
        for code in range(start, end):
            if unicodedata.category(chr(code))[0] in "LMN" and code not in unspaced:
                if spans and spans[-1][1] == code - 1:
                    spans[-1][1] = code
                else:
                    spans.append([code, code])
    return "0-9A-Za-z_" + "".join(f"{chr(a)}-{chr(b)}" for a, b in spans)


def _pairs(ranges: str) -> list[tuple[int, int]]:
    return [(ord(ranges[i]), ord(ranges[i + 2])) for i in range(0, len(ranges), 3)]


@cache
def _han_table() -> dict[int, str]:
    traditional, simplified = (files("stores.memory") / "data" / "han_fold.txt").read_text("utf-8").split("\n")[:2]
    return dict(zip(map(ord, traditional), simplified, strict=True))


@cache
def _traditional() -> frozenset[str]:
    return frozenset(map(chr, _han_table()))


def fold_han(run: str) -> str:
    """Write traditional Chinese characters as simplified ones, for matching only."""
    # Translating costs ten times as much as finding out that there is nothing to translate.
    return run if _traditional().isdisjoint(set(run)) else run.translate(_han_table())


def fold_word(word: str) -> str:
    """Fold case and drop accents, vowel points and tatweel: ``Café`` and ``cafe`` are one word."""
    folded = word.casefold()
    if folded.isascii():
        return folded
    decomposed = unicodedata.normalize("NFD", folded)
    return unicodedata.normalize("NFC", "".join(char for char in decomposed if char not in _DROPPED_MARKS))


def stem(word: str) -> str:
    """Return a light stem of a folded word; words of scripts without rules stay as they are."""
    if word.isascii():
        return _stem_english(word) if word.isalpha() else word
    first = word[0]
    if "а" <= first <= "я":
        return _strip_ending(word, _RUSSIAN_ENDINGS)
    if "\u0620" <= first <= "\u06ff":
        return _stem_arabic(word)
    return word


_VOWELS = frozenset("aeiouy")
_UNDOUBLED = frozenset("bdgkmnprt")


def _stem_english(word: str) -> str:
    """Strip plural, ``-ed``, ``-ing`` and ``-ly``; what is left has at least three letters and a vowel."""
    if len(word) < 4:
        return word
    if word.endswith(("ies", "ied")):
        return f"{word[:-3]}y" if len(word) > 4 else word[:-1]
    if word.endswith("s") and word[-2] not in "sui":
        word = word[:-2] if word.endswith(("sses", "shes", "ches", "xes", "zes")) else word[:-1]
    for ending in ("ing", "ed", "ly"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and not _VOWELS.isdisjoint(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] in _UNDOUBLED else rest
            break
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


# Longest first; й is written и here, as folding leaves it.
_RUSSIAN_TEXT = """
    иями ями ами ией иям ием иях ого его ому ему ыми ими ешь ете ишь ите ила или ало али ать ять еть ить
    ах ях ов ев еи ои ии ыи ая яя ое ее ую юю ам ям ом ем ою ею ие ые ия ью ет ит ут ют ят ат ла ло ли их ых им ым
    а я о е ы и у ю ь л
"""
_RUSSIAN_ENDINGS = tuple(_RUSSIAN_TEXT.split())
_ARABIC_PREFIXES = ("وال", "بال", "كال", "فال", "لل", "ال")
_ARABIC_ENDINGS = ("ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي")


def _strip_ending(word: str, endings: tuple[str, ...]) -> str:
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _stem_arabic(word: str) -> str:
    word = word.replace("ى", "ي").replace("ة", "ه")
    for prefix in _ARABIC_PREFIXES:
        if word.startswith(prefix) and len(word) - len(prefix) >= 3:
            word = word[len(prefix) :]
            break
    return _strip_ending(word, _ARABIC_ENDINGS)


# Longest first; equal length in the order of spec/memory.md, appendix.
_PARTICLE_TEXT = """
    에서 으로 에게 한테 처럼 같이 보다 까지 부터 마다 밖에 대로
    은 는 이 가 을 를 의 에 로 와 과 도 만
"""
_PARTICLES = tuple(_PARTICLE_TEXT.split())


def korean_stem(word: str) -> str:
    """Strip one trailing particle of a Hangul word when at least two syllables are left."""
    for particle in _PARTICLES:
        if word.endswith(particle) and len(word) - len(particle) >= 2:
            return word[: -len(particle)]
    return word
