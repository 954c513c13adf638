"""What the offline model does with a question: search, read the hits, quote their lines with the source.

Pure: what it knows of the turn is the question and the tool results behind it.
Source: spec/tools.md section 10, points 2 to 5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngraph.messages import Message
from turngraph.models.offline_language import FUNCTION_WORDS, SENTENCES, Sentences, language
from turngraph.text import head

SEARCH = "memory_search"
GET = "memory_get"
MAX_QUERY_CHARS = 400
MAX_LINES = 40  # of one hit
MAX_QUOTES = 3
MAX_QUOTE_CHARS = 300
SECOND_HIT_SHARE = 0.8  # of the best score, for the second hit to be read as well
_MORE_NOTICE = "[More content available"  # spec/memory.md section 5.2

Terms = Callable[[str], Collection[str]]
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+(?:[-_.][^\W_{_CJK}]+)*")


@dataclass(frozen=True, slots=True)
class Ask:
    """Calls to make next, in order: tool name and arguments."""

    calls: tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a note that may be quoted; ``heading`` is the one it stands under."""

    path: str
    number: int
    text: str
    heading: str = ""


def next_step(question: str, results: Sequence[Message], tools: Collection[str], terms: Terms) -> Ask | str:
    """Return the calls to make, or the answer.

    Args:
        question: what the user asked.
        results: results of the calls made for it so far, in order.
        tools: names of the offered tools.
        terms: the terms of a text, as keyword search has them.
    """
    words = SENTENCES[language(question)]
    if not question:
        return words.no_question
    if SEARCH not in tools:
        return words.no_memory
    searched = next((result for result in results if result.tool_name == SEARCH), None)
    if searched is None:
        return Ask(((SEARCH, {"query": head(question, MAX_QUERY_CHARS)}),))
    found = _object(searched)
    failure = _failure(searched, found, words)
    if failure:
        return failure
    hits = _chosen(found)
    fetched = [result for result in results if result.tool_name == GET]
    if hits and GET in tools and not fetched:
        calls = tuple((GET, _range(hit)) for hit in hits if hit.get("source") != "sessions")
        if calls:
            return Ask(calls)
    return _answer(question, found, hits, [_object(result) for result in fetched], words, terms)


def _object(message: Message) -> Mapping[str, Any]:
    try:
        value = json.loads(message.text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _failure(searched: Message, found: Mapping[str, Any], words: Sentences) -> str | None:
    reasons = (found.get(key) for key in ("reason", "error", "warning"))
    reason = next((text for text in reasons if isinstance(text, str) and text), "")
    if found.get("unavailable") or (searched.is_error and not found.get("disabled")):
        return words.unavailable.format(reason=reason or head(searched.text, MAX_QUOTE_CHARS))
    if found.get("disabled"):
        return words.disabled.format(reason=reason)
    if not isinstance(found.get("results"), list):
        # A result that was cut, or that another tool of this name gave.
        return words.unavailable.format(reason=head(searched.text, MAX_QUOTE_CHARS))
    return None


def _chosen(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the best hit, and the second when it is nearly as good."""
    hits: list[Mapping[str, Any]] = [
        hit for hit in found["results"] if isinstance(hit, dict) and isinstance(hit.get("path"), str)
    ]
    if len(hits) > 1 and _number(hits[1], "score") < SECOND_HIT_SHARE * _number(hits[0], "score"):
        return hits[:1]
    return hits[:2]


def _number(hit: Mapping[str, Any], key: str, default: float = 0) -> float:
    value = hit.get(key)
    return value if isinstance(value, (int, float)) else default


def _range(hit: Mapping[str, Any]) -> dict[str, Any]:
    first = max(1, int(_number(hit, "startLine", 1)))
    last = max(first, int(_number(hit, "endLine", first)))
    return {"path": hit["path"], "from": first, "lines": min(MAX_LINES, last - first + 1)}


def _answer(
    question: str,
    found: Mapping[str, Any],
    hits: Sequence[Mapping[str, Any]],
    fetched: Sequence[Mapping[str, Any]],
    words: Sentences,
    terms: Terms,
) -> str:
    partial = found.get("partial")
    pending = words.partial.format(pending=partial.get("pending", "?")) if isinstance(partial, dict) else ""
    quotes = choose_lines(question, _lines(hits, fetched), terms)
    if not quotes:
        searched = found.get("searched")
        files = int(_number(searched if isinstance(searched, dict) else {}, "files"))
        return pending or (words.nothing.format(files=files) if files else words.not_indexed)
    cited = found.get("citations") != "off"
    shown = [
        f"> {head(quote.text, MAX_QUOTE_CHARS)}" + f"\nSource: {quote.path}#L{quote.number}" * cited for quote in quotes
    ]
    return "\n\n".join([words.found, *shown, *([pending] if pending else [])])


def _lines(hits: Sequence[Mapping[str, Any]], fetched: Sequence[Mapping[str, Any]]) -> list[Line]:
    """Return the lines of all hits: as read where that worked, else of the snippet."""
    lines: list[Line] = []
    for hit in hits:
        read = next((item for item in fetched if item.get("path") == hit["path"] and item.get("text")), None)
        start = max(1, int(_number(hit, "startLine", 1)))
        text = str(hit.get("snippet", ""))
        if read is not None:
            start, text = max(1, int(_number(read, "from", start))), str(read["text"])
            # Two hits of one file have one result each.
            fetched = [item for item in fetched if item is not read]
        lines += _numbered(hit["path"], text, start)
    return lines


def _numbered(path: str, text: str, start: int) -> Iterable[Line]:
    heading = ""
    for number, line in enumerate(text.split("\n"), start):
        stripped = line.strip()
        if stripped.startswith(_MORE_NOTICE):
            return
        if stripped.startswith("#"):
            heading = stripped
        if stripped:
            yield Line(path, number, stripped, heading)


def choose_lines(question: str, lines: Sequence[Line], terms: Terms) -> list[Line]:
    """Return up to three lines that share most terms with the question, ties in their order, equal ones once.

    Words that every question has ("when is the ...") do not count. A heading says little by itself: what it shares
    counts for the lines under it, after what they share themselves. Where nothing is shared (a hit by meaning), the
    first line is quoted.
    """
    common = FUNCTION_WORDS.get(language(question), frozenset())
    wanted = set(terms(" ".join(word for word in re.findall(r"\S+", question) if _bare(word) not in common)))
    unique = list({line.text: line for line in reversed(lines)}.values())[::-1]
    bodies = [line for line in unique if line.text != line.heading]
    shared = {id(line): (_shared(line.text, wanted, terms), _shared(line.heading, wanted, terms)) for line in bodies}
    ranked = sorted((line for line in bodies if any(shared[id(line)])), key=lambda line: shared[id(line)], reverse=True)
    return ranked[:MAX_QUOTES] or bodies[:1] or unique[:1]


def _bare(word: str) -> str:
    return word.strip("¿¡?!.,:;\"'()").lower()


def _shared(text: str, wanted: set[str], terms: Terms) -> int:
    return len(wanted.intersection(terms(text)))


def plain_terms(text: str) -> set[str]:
    """Return the terms of a text: words in lower case, identifiers also in parts, pairs of characters of CJK scripts.

    >>> sorted(plain_terms("Deploy v2.14 成语接"))
    ['14', 'deploy', 'v2', 'v2.14', '成语', '语接']
    """
    terms: set[str] = set()
    for run in _WORD.findall(text.lower()):
        if re.match(rf"[{_CJK}]", run):
            terms.update({run} if len(run) == 1 else {run[i : i + 2] for i in range(len(run) - 1)})
        else:
            terms.update((run, *re.split(r"[-_.]", run)))
    return terms
