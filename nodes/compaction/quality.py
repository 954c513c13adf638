"""quality: does a summary hold what must not get lost: its headings, exact identifiers and the last request?

Source: spec/compaction.md 4.7, known-faults 5.4 and 5.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from turngraph.identifiers import find_identifiers, is_hex_identifier
from turngraph.messages import Message
from turngraph.summary_sections import REQUIRED_HEADINGS, heading_lines

IdentifierPolicy = Literal["strict", "off", "custom"]

MAX_ASK_KEYWORDS = 12
IDENTIFIER_MESSAGES = 10  # identifiers are looked for in the last messages of the folded part
_REPORTED_IDENTIFIERS = 3
_WORD = re.compile(r"[^\W_]+")
_STOP_TEXT = """
a about again also an and any are as at be but by can could did do does done for from get go got had has have he her
here him his how i if in into is it its just let like make me more my need no not now of off ok okay on one or our out
please she should so some than that the their them then there these they this those to too up us use want was we were
what when where which who why will with would yes you your
的 了 是 在 我 你 他 她 它 们 和 与 请 吗 呢 吧 把 被 这 那 有 就 也 都 要 会 能 可以 什么 怎么
"""
_STOP_WORDS = frozenset(_STOP_TEXT.split())


@dataclass(frozen=True, slots=True)
class Audit:
    """What a summary lacks.

    Attributes:
        missing_sections: required headings that are absent or stand twice.
        missing_identifiers: identifiers that do not stand in it literally.
        ask_lost: whether nothing of the last request is in it.
    """

    missing_sections: tuple[str, ...] = ()
    missing_identifiers: tuple[str, ...] = ()
    ask_lost: bool = False

    @property
    def ok(self) -> bool:
        return not (self.missing_sections or self.missing_identifiers or self.ask_lost)

    @property
    def only_identifiers_missing(self) -> bool:
        return bool(self.missing_identifiers) and not (self.missing_sections or self.ask_lost)

    @property
    def reasons(self) -> list[str]:
        """The findings as short codes, for feedback to the summariser and for decisions."""
        reasons = [f"missing_section:{heading}" for heading in self.missing_sections]
        if self.missing_identifiers:
            reasons.append("missing_identifiers:" + ",".join(self.missing_identifiers[:_REPORTED_IDENTIFIERS]))
        if self.ask_lost:
            reasons.append("latest_user_ask_not_reflected")
        return reasons


def audit_summary(
    summary: str,
    *,
    identifiers: Sequence[str],
    latest_ask: str | None,
    policy: IdentifierPolicy = "strict",
) -> Audit:
    """Check ``summary`` as it would be stored."""
    headings = heading_lines(summary)
    return Audit(
        missing_sections=tuple(h for h in REQUIRED_HEADINGS if headings.count(h) != 1),
        missing_identifiers=tuple(i for i in identifiers if not _holds(summary, i)) if policy == "strict" else (),
        ask_lost=not reflects_ask(summary, latest_ask),
    )


def reflects_ask(summary: str, latest_ask: str | None) -> bool:
    """Whether the keywords of the last request come up in ``summary``: two of three or more, else one."""
    keywords = _keywords(latest_ask or "")
    if not keywords:
        return True
    words = set(_words(summary))
    folded = summary.casefold()
    hits = sum(1 for word in keywords if word in words or (not word.isascii() and word in folded))
    return hits >= (2 if len(keywords) >= 3 else 1)


def recent_identifiers(messages: Sequence[Message]) -> list[str]:
    """Return the identifiers of the last messages, without credentials."""
    return find_identifiers("\n".join(message.text for message in messages[-IDENTIFIER_MESSAGES:]))


def latest_ask(messages: Iterable[Message]) -> str | None:
    """Return the text of the last user message that has one."""
    asks = [message.text for message in messages if message.role == "user" and message.text.strip()]
    return asks[-1] if asks else None


def _holds(summary: str, identifier: str) -> bool:
    if is_hex_identifier(identifier):
        return identifier.casefold() in summary.casefold()
    return identifier in summary


def _words(text: str) -> list[str]:
    """Split into words; a run of Chinese or Japanese, which has no blanks, into overlapping pairs of characters."""
    words: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if word.isascii() or len(word) <= 2:
            words.append(word)
        else:
            words.extend(word[index : index + 2] for index in range(len(word) - 1))
    return words


def _keywords(text: str) -> list[str]:
    unique = list(dict.fromkeys(_words(text)))
    telling = [word for word in unique if len(word) > 1 and word not in _STOP_WORDS]
    return (telling or unique)[:MAX_ASK_KEYWORDS]
