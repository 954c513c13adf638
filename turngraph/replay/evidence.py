"""Evidence: tokens of a text that are opaque enough to be recognised when they are used again.

Pure. Source: spec/seeing.md 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from turngraph.messages import Message, block_text

ItemKind = Literal["url", "path", "quoted", "id", "identifier", "number"]

MIN_ID_CHARS = 6
MIN_QUOTED_CHARS = 8
MAX_ITEM_CHARS = 200  # a longer quotation is prose
# Every repetition is bounded: a transcript may hold one line of a megabyte.
# Characters of a word that may be evidence; everything else, and every script but Latin, ends it.
_WORD = r"[A-Za-z0-9_]"
_PATTERNS: tuple[tuple[ItemKind, re.Pattern[str]], ...] = (
    ("url", re.compile(r"\bhttps?://[^\s\"'<>()\[\]{}|\\^`\u3000-\u303f\uff00-\uffef]{1,300}")),
    (
        "quoted",
        re.compile(
            r"(?<![\w\"\\])\"(?=[\w/~.])([^\"\n\\]{8,200})(?<=\S)\"(?!\w)"
            r"|`(?=\S)([^`\n\\]{8,200})(?<=\S)`|“([^”\n]{8,200})”|「([^」\n]{8,200})」"
        ),
    ),
    (
        "path",
        re.compile(
            rf"(?<![\w.@+/~-])(?:~|\.{{1,2}})?(?:/?{_WORD}[\w.@+-]{{0,80}}/){{1,20}}{_WORD}[\w.@+-]{{0,80}}"
            rf"|(?<![\w./])/{_WORD}[\w.@+-]{{1,80}}"
        ),
    ),
    (
        "path",
        re.compile(
            rf"(?<![\w-]){_WORD}[\w-]{{0,80}}"
            r"\.(?:py|ts|tsx|js|json|md|toml|yaml|yml|txt|rs|go|c|h|cpp|sh|html|css|sql)\b"
        ),
    ),
    (
        "id",
        re.compile(
            rf"(?<![A-Za-z0-9_-])(?=[A-Za-z_-]{{0,63}}\d)(?=[\d_-]{{0,63}}[A-Za-z]){_WORD}[A-Za-z0-9_-]{{5,127}}\b",
            re.ASCII,
        ),
    ),
    ("identifier", re.compile(r"(?<![\w.])[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{1,80}){1,20}\b", re.ASCII)),
    ("identifier", re.compile(r"\b[A-Za-z][a-z0-9]{0,80}(?:_[A-Za-z0-9]{1,80}){1,20}\b", re.ASCII)),
    ("identifier", re.compile(r"\b[A-Za-z]?[a-z0-9]{1,80}(?:[A-Z][a-z0-9]{1,80}){1,20}\b", re.ASCII)),
    ("number", re.compile(r"(?<![\w.])\d{4,}(?![\w])", re.ASCII)),
)
_TRAILING = ".,;:!?)]}'\""


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of evidence."""

    kind: ItemKind
    text: str


def items_in(text: str) -> frozenset[Item]:
    """Return the evidence in a text.

    >>> sorted(item.text for item in items_in("see /srv/app/main.py in 2026, ticket 48213, `retry budget`"))
    ['/srv/app/main.py', '48213', 'retry budget']
    """
    return frozenset(_items(text))


def evidence_text(message: Message) -> str:
    """Return the texts of a message as they were meant: arguments of calls by their values, not as JSON."""
    texts = []
    for block in message.blocks:
        texts.append(block_text(block))
        thinking = block.get("thinking")
        texts.append(thinking if isinstance(thinking, str) else "")
    for call in message.tool_calls:
        texts.extend(_strings(call.arguments))
    summary = message.raw.get("summary")
    texts.append(summary if isinstance(summary, str) else "")
    return "\n".join(text for text in texts if text)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


def _items(text: str) -> Iterator[Item]:
    taken = bytearray(len(text))  # what is part of a found item is not another one
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if any(taken[start:end]):
                continue
            found = next((group for group in match.groups() if group), match[0]).rstrip(_TRAILING)
            if not _is_opaque(kind, found):
                continue
            if kind != "quoted":  # inside a quotation there may be more
                taken[start:end] = b"\x01" * (end - start)
            yield Item(kind, found)


def _is_opaque(kind: ItemKind, text: str) -> bool:
    if len(text) > MAX_ITEM_CHARS:
        return False
    if kind == "number":
        return not (len(text) == 4 and text[:2] in ("19", "20"))  # a year
    if kind == "quoted":
        return len(text) >= MIN_QUOTED_CHARS
    return len(text) >= 4
