"""Turn text into terms that keyword search can match in every script.

Words are stemmed lightly, identifiers are kept whole and in parts, Chinese, Japanese and Korean become single
characters and pairs, Thai and its neighbours become triples. The same rules serve notes and queries.

    >>> sorted(count_terms("snake_case 部署").counts)
    ['cas', 'snak', 'snake_case', '署', '部', '部署']

Source: spec/memory.md 9.2.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import add

from stores.memory.scripts import CJK, PICTURES, UNSPACED, fold_han, fold_word, korean_stem, stem, word_class

_MAX_WHOLE_CHARS = 128  # a longer "identifier" is data (base64, a minified line) that nobody types
_MAX_MEMO = 200_000
_INVISIBLE = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), 0x2060, 0xFEFF, 0xAD], "")
_ODD = _INVISIBLE | {0x2010: "-", 0x2011: "-"}
_ODD_CHARACTERS = re.compile("[" + "".join(map(chr, _ODD)) + "]")
_GROUPS = re.compile(r"[/:@\\&]+")
_PIECES = re.compile(r"[-._+#/:@\\&]+")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+")
_LETTERS_DIGITS = re.compile(r"([A-Za-z]{2,})([0-9]{2,})")
_HANGUL = re.compile("[\uac00-\ud7af]+")


@dataclass(frozen=True, slots=True)
class TermCounts:
    """Terms of a text with their frequencies; ``length`` counts words and CJK characters."""

    counts: dict[str, int]
    length: int


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    word = word_class()
    compound = rf"[{word}]+(?:[-./:@\\&]{{1,3}}[{word}]+)*(?:\+\+|\#(?![{word}]))?"
    ascii_only = r"[0-9A-Za-z_]+(?:[-./:@\\&]{1,3}[0-9A-Za-z_]+)*(?:\+\+|\#(?![0-9A-Za-z_]))?"
    return re.compile(ascii_only), re.compile(rf"{compound}|[{CJK}]+|[{UNSPACED}]+|[{PICTURES}]")


_CJK_START = re.compile(f"[{CJK}]")
_UNSPACED_START = re.compile(f"[{UNSPACED}]")


def is_cjk(run: str) -> bool:
    """Whether a run is Chinese, Japanese or Korean."""
    return run[0] > "\u2fff" and _CJK_START.match(run) is not None


def is_unspaced(run: str) -> bool:
    """Whether a run is of an alphabet written without spaces."""
    return run[0] > "\u0dff" and _UNSPACED_START.match(run) is not None


def normalize(text: str) -> str:
    """Return ``text`` in the form that runs are cut from: NFKC, no invisible characters, one kind of hyphen."""
    if text.isascii():
        return text
    normal = unicodedata.normalize("NFKC", text)
    return normal.translate(_ODD) if _ODD_CHARACTERS.search(normal) else normal


def runs(text: str) -> list[str]:
    """Cut text into compounds of a spaced script and runs of an unspaced one, in order."""
    ascii_only, mixed = _patterns()
    return (ascii_only if text.isascii() else mixed).findall(normalize(text))


def count_terms(text: str) -> TermCounts:
    """Count the terms of a note."""
    counts: dict[str, int] = {}
    length = 0
    cjk: list[str] = []
    for run, times in Counter(runs(text)).items():
        if is_cjk(run):
            cjk.extend([run] * times)
            continue
        terms, words = _memo.get(run) or _remember(run)
        length += words * times
        for term in terms:
            counts[term] = counts.get(term, 0) + times
    if cjk:
        _count_cjk(cjk, counts)
    return TermCounts(counts, length + sum(map(len, cjk)))


def _count_cjk(found: list[str], counts: dict[str, int]) -> None:
    folded = fold_han("\n".join(found))
    characters = Counter(folded)
    del characters["\n"]
    counts.update(characters)
    counts.update(Counter(chain.from_iterable(map(add, run, run[1:]) for run in folded.split("\n"))))
    # A root of two syllables is a pair already.
    counts.update(Counter(root for word in _HANGUL.findall(folded) if len(root := korean_stem(word)) > 2))


@cache
def _surface_pattern() -> re.Pattern[str]:
    return re.compile(f"[{word_class()}]+|[{CJK}]+|[{UNSPACED}]+")


def surface_terms(text: str) -> frozenset[str]:
    """Return the words of a text as they stand, in lower case, and characters and pairs of CJK runs.

    For comparing two texts; unlike the terms of the index they are neither stemmed nor taken apart.
    """
    terms: set[str] = set()
    for run in _surface_pattern().findall(text.lower()):
        if is_cjk(run):
            terms.update(run)
            terms.update(map(add, run, run[1:]))
        else:
            terms.add(run)
    return frozenset(terms)


_memo: dict[str, tuple[tuple[str, ...], int]] = {}


def _remember(run: str) -> tuple[tuple[str, ...], int]:
    if len(_memo) >= _MAX_MEMO:
        _memo.clear()
    _memo[run] = _expand(run)
    return _memo[run]


def _expand(run: str) -> tuple[tuple[str, ...], int]:
    """Return the distinct terms of a compound and how many words it counts for."""
    if is_unspaced(run):
        return tuple(triples(run)), max(1, len(run) // 3)
    if run.isalpha() and (run.islower() or run.istitle() or run.isupper()):
        return (stem(fold_word(run)),), 1
    compound = split_compound(run)
    whole = (compound.whole, *compound.groups) if len(run) <= _MAX_WHOLE_CHARS else ()
    return tuple(dict.fromkeys((*whole, *map(stem, compound.words)))), max(1, len(compound.words))


@dataclass(frozen=True, slots=True)
class Compound:
    """An identifier, folded: itself, its groups (``limits.py`` of a path) and its words."""

    whole: str
    groups: tuple[str, ...]
    words: tuple[str, ...]


def split_compound(run: str) -> Compound:
    """Split an identifier at its connectors, at camel humps, and between letters and digits (``ADR0005``)."""
    groups = (group.strip("_.-") for group in _GROUPS.split(run))
    words: list[str] = []
    for piece in filter(None, _PIECES.split(run)):
        words.append(fold_word(piece))
        mixed_case = piece.isascii() and not (piece.islower() or piece.isupper())
        humps = _CAMEL.findall(piece) if mixed_case else []
        pair = _LETTERS_DIGITS.fullmatch(piece)
        if len(humps) > 1:
            words.extend(map(str.lower, humps))
        elif pair:
            words.extend(map(str.lower, pair.groups()))
    return Compound(fold_word(run.strip("_")), tuple(fold_word(group) for group in groups if group), tuple(words))


def triples(run: str) -> list[str]:
    """Return overlapping triples of a run of an unspaced alphabet, the run itself when it is short."""
    return [run[i : i + 3] for i in range(len(run) - 2)] or [run]
