"""Text as users see it: cuts that never split a character, weights by script, and trimming as JavaScript does."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

import regex

_CLUSTER = regex.compile(r"\X")
# No grapheme cluster that people write is longer; a pathological one (combining marks without end) is cut inside.
_CLUSTER_WINDOW_CHARS = 64

# The white space of ECMAScript's trim() and \s: unlike str.strip() it has U+FEFF and lacks U+0085 and U+001C-1F.
JS_SPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

# Weight -> code point ranges, in weighted characters; spec/context.md section 5.4.
_RANGES: dict[int, tuple[tuple[int, int], ...]] = {
    4: ((0xB7, 0xB7), (0x3000, 0x319F), (0x4E00, 0x9FA5), (0xAC00, 0xD7AF), (0xFF01, 0xFF60)),
    8: (
        *((0x2C7, 0x2C7), (0x2C9, 0x2CB), (0x2D9, 0x2D9), (0x2EA, 0x2EB), (0x305, 0x305), (0x323, 0x323)),
        *((0xFE10, 0xFE4F), (0xFF61, 0xFFDC), (0xFFE0, 0xFFE6)),
    ),
    12: (
        *((0x1100, 0x11FF), (0x2E80, 0x2FFF), (0x31A0, 0x4DFF), (0x9FA6, 0x9FFF), (0xA000, 0xA4FF)),
        *((0xA700, 0xA707), (0xA960, 0xA97F), (0xD7B0, 0xD7FF), (0xF900, 0xFAFF), (0x1D360, 0x1D371)),
    ),
    16: (
        *((0x16FE0, 0x16FFF), (0x1AFF0, 0x1AFFF), (0x1B000, 0x1B16F), (0x1F200, 0x1F2FF)),
        *((0x20000, 0x2FA1F), (0x30000, 0x3347F)),
    ),
}
_WEIGHTS = sorted((first, last, weight) for weight, ranges in _RANGES.items() for first, last in ranges)
_WEIGHT_STARTS = [first for first, _, _ in _WEIGHTS]
_HEAVY = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b, _ in _WEIGHTS) + "]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def well_formed(text: str) -> str:
    """Replace halves of surrogate pairs, which UTF-8 cannot hold, by U+FFFD; bytes of a terminal may bring them."""
    return _SURROGATE.sub("\ufffd", text)


def js_trim(text: str) -> str:
    """Trim both ends of ``text`` as JavaScript's ``trim()`` does."""
    return text.strip(JS_SPACE)


@lru_cache(maxsize=8192)
def _heavy_weight(char: str) -> int:
    code = ord(char)
    index = bisect_right(_WEIGHT_STARTS, code) - 1
    return _WEIGHTS[index][2]


def weighted_chars(text: str, minimum: int = 1) -> int:
    """Count ``text`` in weighted characters: about four for each token of its script.

    Args:
        text: any text.
        minimum: weight of an ordinary character per UTF-16 unit; 2 for tool output.

    Source: spec/context.md section 5.4.
    """
    if text.isascii():
        return len(text) * minimum
    heavy = _HEAVY.findall(text)
    astral = len(_ASTRAL.findall(text))
    total = (len(text) + astral) * minimum
    for char in heavy:
        total += _heavy_weight(char) - (minimum if char <= "\uffff" else 2 * minimum)
    return total


def _is_boundary(text: str, index: int) -> bool:
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return not (before == "\r" and after == "\n")
    return floor_cut(text, index) == index


def floor_cut(text: str, index: int) -> int:
    """Return the last position not after ``index`` that splits no grapheme cluster."""
    if index <= 0:
        return 0
    if index >= len(text):
        return len(text)
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii() and not (before == "\r" and after == "\n"):
        return index
    # An ASCII printable character always starts a cluster (unless CR LF), so it is a safe place to start looking.
    start = index - 1
    lowest = max(0, index - _CLUSTER_WINDOW_CHARS)
    while start > lowest and not (text[start].isascii() and text[start].isprintable()):
        start -= 1
    last = start
    for match in _CLUSTER.finditer(text, start, min(len(text), index + _CLUSTER_WINDOW_CHARS)):
        if match.end() == index:
            return index
        if match.end() > index:
            return match.start() if match.start() > 0 or index < _CLUSTER_WINDOW_CHARS else index
        last = match.end()
    return last


def ceil_cut(text: str, index: int) -> int:
    """Return the first position not before ``index`` that splits no grapheme cluster."""
    if index <= 0:
        return 0
    if index >= len(text):
        return len(text)
    low = floor_cut(text, index)
    if low == index:
        return index
    match = _CLUSTER.match(text, low)
    return match.end() if match else index


def head(text: str, limit: int) -> str:
    """Return at most the first ``limit`` characters, never half a grapheme cluster."""
    return text if len(text) <= limit else text[: floor_cut(text, max(0, limit))]


def tail(text: str, limit: int) -> str:
    """Return at most the last ``limit`` characters, never half a grapheme cluster."""
    if limit <= 0:
        return ""
    return text if len(text) <= limit else text[ceil_cut(text, len(text) - limit) :]


def weighted_head(text: str, limit: int, minimum: int = 1) -> str:
    """Return the longest beginning of ``text`` that weighs at most ``limit`` weighted characters."""
    if weighted_chars(text, minimum) <= limit:
        return text
    return text[: floor_cut(text, _weighted_prefix(text, limit, minimum))]


def weighted_tail(text: str, limit: int, minimum: int = 1) -> str:
    """Return the longest end of ``text`` that weighs at most ``limit`` weighted characters."""
    total = weighted_chars(text, minimum)
    if total <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if weighted_chars(text[middle:], minimum) <= limit:
            high = middle
        else:
            low = middle + 1
    return text[ceil_cut(text, low) :]


def _weighted_prefix(text: str, limit: int, minimum: int) -> int:
    low, high = 0, min(len(text), max(0, limit))
    while low < high:
        middle = (low + high + 1) // 2
        if weighted_chars(text[:middle], minimum) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
