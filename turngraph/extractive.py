"""extractive: a summary and lasting facts made of the conversation's own sentences, without a model.

Deterministic: the same messages give the same text. It selects, it never rephrases, and whoever stores the result says
that no model made it. The few words of its own are in the language of the conversation.
Source: the issue Compaction, spec/compaction.md 4.3 and 4.6, design decision 12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from turngraph.credentials import mask_credentials
from turngraph.identifiers import find_identifiers
from turngraph.messages import Message
from turngraph.summary_sections import (
    CONSTRAINTS,
    DECISIONS,
    IDENTIFIERS,
    OPEN_TODOS,
    PENDING_ASKS,
    REQUIRED_HEADINGS,
    build_sections,
    has_required_sections,
)
from turngraph.text import head, weighted_chars

Language = Literal["en", "zh", "ja", "ko"]

MAX_LINE_CHARS = 280
MAX_LINES = 10  # of each section
MAX_IDENTIFIERS = 24
MAX_REQUEST_CHARS = 600
MAX_FACTS = 60
MIN_FACT_CHARS = 24  # weighted; shorter statements are phrases

_LABELS: dict[Language, dict[str, str]] = {
    "en": {"request": "Last request", "answer": "Last answer", "open": "Open question", "progress": "Progress"},
    "zh": {"request": "最后的请求", "answer": "最后的回答", "open": "未答的问题", "progress": "进度"},
    "ja": {"request": "最後の依頼", "answer": "最後の回答", "open": "未解決の質問", "progress": "進捗"},
    "ko": {"request": "마지막 요청", "answer": "마지막 답변", "open": "남은 질문", "progress": "진행 상황"},
}


def _cues(words: str, *other_scripts: str) -> re.Pattern[str]:
    return re.compile("|".join((rf"\b(?:{words})\b", *other_scripts)), re.IGNORECASE | re.ASCII)


_DECISION = _cues(
    r"decid(?:e|ed|ing)|decision|agreed (?:to|on|that)|we will|chos(?:e|en)|settled on|instead of|switch to|go with",
    "决定|确定|选择|选用|采用|改用|就用|同意|决议|決め|決定|採用|にする|결정|선택|하기로",
)
_PROPOSAL = _cues(r"let's|we'll")  # said by a user it decides, said by an assistant it narrates
_TODO = _cues(
    r"todo|to do|next steps?|remaining|(?:still )?(?:need|have) to|unfinished|not yet|follow[- ]up",
    r"- \[ \]|待办|接下来|下一步|还需要|还要|剩下|未完成|稍后|まだ|残り|次に|今後|남은|다음|아직",
)
_CONSTRAINT = _cues(
    r"must(?: not)?(?! have)|required|forbidden|no more than|at (?:most|least)|prefer(?:s|red)?",
    r"(?:^|[,;:] |\bplease |\band |\bbut )(?:always|never|do not|don't)(?! (?:know|think|understand|see|mind|care))\b",
    "必须|不要|不得|不能|禁止|只能|务必|一律|偏好|必ず|禁止|しないで|だけ|반드시|금지|하지 마",
)
_LASTING = _cues(
    r"remember|note that|my (?:name|birthday|email|address|team|job)|deadline",
    "记住|记得|我叫|生日|截止|喜欢|覚えて|기억|제 이름",
)
_SELF = _cues(r"i|i'm|i've|my|we|we've|our", "我|私|僕|俺|저|제|우리")
_WHEN = _cues(
    r"\d+(?::\d\d|st|nd|rd|th|%)?|today|yesterday|tomorrow|last|next|since|ago|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|january|february|march|april|june|july|august|september|october|november|december",
    "今天|昨天|明天|上周|下周|去年|今年|明年|月|号|昨日|明日|先週|来週|어제|내일|지난|다음",
)
_NAME = re.compile(r"(?<=\s)[A-Z][A-Za-z-]{2,}|[\w./-]*[a-z\d][A-Z_./]\w+", re.ASCII)
_PROGRESS = re.compile(
    r"\d+\s*/\s*\d+|\d+ (?:of|out of) \d+|\d+\s*[个件條条].{0,6}(?:完成|做完|剩)|已完成\s*\d+", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^\n。！？!?.]+(?:[.](?=\S)[^\n。！？!?.]*)*[。！？!?.]*")
_QUOTED = re.compile(r"^[ \t]*>.*$", re.MULTILINE)
_QUESTION_ENDS = ("?", "？")
_NOISE = frozenset({"NO_REPLY", "HEARTBEAT_OK"})


@dataclass(slots=True)
class _Lines:
    """An ordered set of list items; the oldest go when there are too many."""

    limit: int
    items: dict[str, None] = field(default_factory=dict)

    def add(self, text: str) -> None:
        line = _one_line(text, MAX_LINE_CHARS)
        if line:
            self.items.pop(line, None)
            self.items[line] = None

    def add_progress(self, text: str) -> None:
        """Add how far something has come, in the place of what was said about the same before."""
        about = _PROGRESS.sub("", _one_line(text, MAX_LINE_CHARS))
        for line in [line for line in self.items if _PROGRESS.sub("", line) == about]:
            del self.items[line]
        self.add(text)

    def text(self) -> str:
        return "\n".join(f"- {line}" for line in list(self.items)[-self.limit :])


def conversation_language(messages: Iterable[Message]) -> Language:
    """Return the language that most of what the user wrote seems to be in, judged by its script."""
    text = "".join(message.text for message in messages if message.role == "user")
    kana = sum("\u3040" <= char <= "\u30ff" for char in text)
    hangul = sum("\uac00" <= char <= "\ud7af" for char in text)
    han = sum("\u4e00" <= char <= "\u9fff" for char in text)
    latin = sum(char.isascii() and char.isalpha() for char in text)
    if kana + hangul + han <= latin / 6:  # one such character says about as much as six letters
        return "en"
    if kana > hangul and kana * 4 > han:
        return "ja"
    return "ko" if hangul > han else "zh"


def extractive_summary(messages: Sequence[Message], previous_summary: str | None = None) -> str:
    """Summarise ``messages`` under the required headings with their own sentences.

    Args:
        messages: what is to be folded, oldest first.
        previous_summary: what an earlier compaction made; its items are carried on, oldest dropped first.
    """
    earlier = _previous_items(previous_summary)
    decisions, todos, constraints = (_Lines(MAX_LINES, dict(earlier[h])) for h in (DECISIONS, OPEN_TODOS, CONSTRAINTS))
    labels = _LABELS[conversation_language(messages)]
    for message in messages:
        for sentence in _sentences(message):
            if _PROGRESS.search(sentence):
                todos.add_progress(f"{labels['progress']}: {sentence}")
            elif sentence.endswith(_QUESTION_ENDS):
                continue  # open questions stand among the asks
            elif _TODO.search(sentence):
                todos.add(sentence)
            elif message.role == "user" and _CONSTRAINT.search(sentence):
                constraints.add(sentence)
            elif _decides(message, sentence):
                decisions.add(sentence)
    return build_sections(
        decisions=decisions.text(),
        todos=todos.text(),
        constraints=constraints.text(),
        asks=_asks(messages, labels, earlier[PENDING_ASKS]),
        identifiers=_identifiers(messages, earlier[IDENTIFIERS]),
    )


def extractive_facts(messages: Sequence[Message]) -> str:
    """Return the lasting facts of ``messages`` as Markdown list items; empty when there are none.

    A statement is taken when it decides, rules or asks to be remembered, or when somebody says something about
    themselves with a time, a number or a name in it. Questions and short phrases are no facts.
    """
    facts = _Lines(MAX_FACTS)
    for message in messages:
        for sentence in _sentences(message):
            if not sentence.endswith(_QUESTION_ENDS) and _is_fact(message, sentence):
                facts.add(sentence)
    return facts.text()


def _is_fact(message: Message, sentence: str) -> bool:
    if _decides(message, sentence):
        return True
    if message.role == "user" and (_LASTING.search(sentence) or _CONSTRAINT.search(sentence)):
        return True
    told = _SELF.search(sentence) is not None and weighted_chars(sentence) >= MIN_FACT_CHARS
    return told and (_WHEN.search(sentence) is not None or len(_NAME.findall(sentence)) > 0)


def _asks(messages: Sequence[Message], labels: dict[str, str], earlier: dict[str, None]) -> str:
    stale = tuple(words[key] for words in _LABELS.values() for key in ("request", "answer"))
    asks = _Lines(MAX_LINES, {line: None for line in earlier if not line.startswith(stale)})
    spoken = [message for message in messages if message.role in ("user", "assistant") and _spoken(message)]
    for message in spoken[-8:]:
        for sentence in _sentences(message):
            if sentence.endswith(_QUESTION_ENDS):
                asks.add(f"{labels['open']}: {sentence}")
    lines = [asks.text()] if asks.items else []
    for role, label in (("user", labels["request"]), ("assistant", labels["answer"])):
        last = next((message for message in reversed(spoken) if message.role == role), None)
        if last is not None:
            lines.append(f"- {label}: {_one_line(_spoken(last), MAX_REQUEST_CHARS)}")
    return "\n".join(lines)


def _identifiers(messages: Sequence[Message], earlier: dict[str, None]) -> str:
    found = dict(earlier)
    for message in messages:
        for identifier in find_identifiers(message.text, MAX_IDENTIFIERS):
            found.pop(identifier, None)
            found[identifier] = None
    return "\n".join(f"- {identifier}" for identifier in list(found)[-MAX_IDENTIFIERS:])


def _previous_items(summary: str | None) -> dict[str, dict[str, None]]:
    """Return the list items of an earlier summary by heading; free text becomes one decision."""
    items: dict[str, dict[str, None]] = {heading: {} for heading in REQUIRED_HEADINGS}
    if not summary or not summary.strip():
        return items
    if not has_required_sections(summary):
        items[DECISIONS][_one_line(summary, MAX_REQUEST_CHARS)] = None
        return items
    heading = DECISIONS
    for line in summary.split("\n"):
        text = line.strip()
        if text in items:
            heading = text
        elif text.startswith(("## ", "**", "<")):  # attachments of the earlier summary are made anew
            break
        elif text and not text.startswith("None"):
            items[heading][text.removeprefix("- ")] = None
    return items


def _decides(message: Message, sentence: str) -> bool:
    proposed = message.role == "user" and _PROPOSAL.search(sentence)
    return bool(proposed or _DECISION.search(sentence)) and not sentence.endswith(_QUESTION_ENDS)


def _spoken(message: Message) -> str:
    text = message.text.strip()
    return "" if text in _NOISE else text


def _sentences(message: Message) -> list[str]:
    if message.role not in ("user", "assistant"):
        return []
    own = _QUOTED.sub("", _spoken(message))  # a quoted note would be noted again, and its quote after that
    found = (match.group().strip() for match in _SENTENCE.finditer(own))
    return [text for text in found if text and not text.endswith((":", "："))]  # those announce, they do not say


def _one_line(text: str, limit: int) -> str:
    line = " ".join(mask_credentials(text).split()).removeprefix("- ")
    return line if len(line) <= limit else head(line, limit - 1) + "…"
