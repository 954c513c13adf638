"""Tool results made to fit: one family of cuts for writing, for showing and for recovery (design decision 7).

Sizes are weighted characters (spec/context.md 5.4). What comes out is never above the limit, the notice included,
and no cut splits a character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngraph.messages import Message, block_text, compact_json, text_block
from turngraph.text import ceil_cut, floor_cut, weighted_chars, weighted_head, weighted_tail

STORED_CAP_CHARS = 64_000  # design decision 7
MIN_KEEP_CHARS = 2_000  # spec/context.md 5.2
DETAILS_CAP_BYTES = 8_192  # spec/tools.md 1.1
MIDDLE_MARKER = "\n\n⚠️ [... middle content omitted — showing head and tail ...]\n\n"

_TAIL_LOOKED_AT_CHARS = 2_000
_TAIL_SHARE, _TAIL_MAX_CHARS = 0.3, 4_000
_LINE_SHARE = 0.8  # a cut moves back to a line end only when that keeps this much
_IMPORTANT = re.compile(
    r"\b(?:error|exception|failed|fatal|traceback|panic|stack trace|errno|exit code"
    r"|total|summary|result|complete|finished|done)\b|错误|失败|异常|总计|完成|摘要",
    re.ASCII,
)
# (window from this many tokens on, largest shown result); spec/context.md 5.2
_LIVE_CAPS = ((200_000, 64_000), (100_000, 32_000), (0, 16_000))

Notice = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """How much tool output a request may show, in weighted characters: one result, and all of them together."""

    per_result: int
    aggregate: int


def live_limits(window_tokens: int, per_result: int | None = None) -> ResultLimits:
    """Return the limits for a window; ``per_result`` overrides its cap by window.

    >>> live_limits(8_000), live_limits(200_000)
    (ResultLimits(per_result=9600, aggregate=38400), ResultLimits(per_result=64000, aggregate=400000))
    """
    cap = per_result or next(cap for tokens, cap in _LIVE_CAPS if window_tokens >= tokens)
    single = min(int(window_tokens * 0.3) * 4, cap)
    return ResultLimits(single, max(max(1, single) * 4, window_tokens * 4 // 2))


def cut_notice(omitted: int) -> str:
    """Say how much was left out; the words are those of the original, which models have seen."""
    return f"[... {omitted} more characters truncated; rerun with narrower args if needed]"


def has_important_tail(text: str) -> bool:
    """Tell whether the end of ``text`` says how it went: an error, a total, the end of a JSON value."""
    end = text[-_TAIL_LOOKED_AT_CHARS:].lower()
    return _IMPORTANT.search(end) is not None or end.rstrip().endswith("}")


def head_at_line(text: str, limit: int, line_share: float = _LINE_SHARE, minimum: int = 1) -> str:
    """Return the beginning of ``text`` within ``limit``, ending at a line end when that keeps ``line_share`` of it."""
    head = weighted_head(text, limit, minimum)
    if len(head) == len(text):
        return text
    # A line end right behind the cut counts: the line before it is whole.
    line_end = text.rfind("\n", 0, len(head) + 1)
    return text[:line_end] if line_end > line_share * len(head) else head


def _tail_at_line(text: str, limit: int) -> str:
    tail = weighted_tail(text, limit)
    line_end = tail.find("\n")
    return tail[line_end + 1 :] if 0 <= line_end < (1 - _LINE_SHARE) * len(tail) else tail


def _cut(text: str, budget: int) -> str:
    """Cut to ``budget``: the beginning, and the end as well when it matters and both have room."""
    if budget > 2 * MIN_KEEP_CHARS and has_important_tail(text):
        tail_budget = min(int(budget * _TAIL_SHARE), _TAIL_MAX_CHARS)
        head_budget = budget - tail_budget - len(MIDDLE_MARKER)
        if head_budget > MIN_KEEP_CHARS:
            return head_at_line(text, head_budget) + MIDDLE_MARKER + _tail_at_line(text, tail_budget)
    return head_at_line(text, budget)


def truncate_text(text: str, limit: int, notice: Notice = cut_notice) -> str:
    """Cut ``text`` to ``limit`` weighted characters and say at its end how many are missing.

    The beginning is kept; an end that looks like an outcome is kept too. A limit that is smaller than the notice
    leaves the beginning of the notice. Cost: linear in ``limit`` once the size of the text is known.

    Source: spec/context.md 5.2 (newer release).
    """
    if weighted_chars(text) <= limit:
        return text
    room_for = notice(max(1, len(text) - limit))
    while True:
        body = _cut(text, max(0, limit - weighted_chars(room_for)))
        said = notice(len(text) - len(body))
        if weighted_chars(said) <= weighted_chars(room_for) or not body:
            return weighted_head(body + said, limit)
        room_for = said


def result_chars(message: Message) -> int:
    """Return the weight of a tool result's text; images are not text."""
    return message.fact("result chars", _result_chars)


def _result_chars(message: Message) -> int:
    content = message.raw.get("content")
    if isinstance(content, str):
        return weighted_chars(content)
    return sum(weighted_chars(block_text(block)) for block in message.blocks if block.get("type") == "text")


def fair_shares(sizes: Sequence[int], total: int) -> list[int]:
    """Share ``total`` out: what is small stays whole, the large ones are cut to one level.

    >>> fair_shares([10, 500, 900], 610)
    [10, 300, 300]
    """
    shares = list(sizes)
    left = max(0, total)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for rank, index in enumerate(by_size):
        shares[index] = min(sizes[index], left // (len(by_size) - rank))
        left -= shares[index]
    return shares


def truncate_result(message: Message, limit: int, notice: Notice = cut_notice) -> Message:
    """Return ``message`` with its text blocks within ``limit`` weighted characters together.

    Images and other blocks stay. The same object comes back when it fits.
    """
    if result_chars(message) <= limit:
        return message
    if isinstance(message.raw.get("content"), str):
        return message.evolve(content=truncate_text(message.raw["content"], limit, notice))
    blocks = message.blocks
    texts = [index for index, block in enumerate(blocks) if block.get("type") == "text"]
    shares = fair_shares([weighted_chars(block_text(blocks[index])) for index in texts], limit)
    cut: dict[int, str] = {
        index: truncate_text(block_text(blocks[index]), share, notice)
        for index, share in zip(texts, shares, strict=True)
    }
    # A block of which nothing is left would be blank text, which some providers refuse.
    kept = [
        block if cut.get(index) in (None, block_text(block)) else {**block, "text": cut[index]}
        for index, block in enumerate(blocks)
        if cut.get(index) != ""
    ]
    return message.evolve(content=kept or [text_block(truncate_text(message.text, limit, notice))])


def cap_details(message: Message) -> Message:
    """Drop the largest fields of a tool result's details until they are at most 8,192 bytes of JSON."""
    details = message.raw.get("details")
    if details is None or _json_bytes(details) <= DETAILS_CAP_BYTES:
        return message
    kept: dict[str, Any] = dict(details) if isinstance(details, Mapping) else {}
    for key in sorted(kept, key=lambda key: -_json_bytes(kept[key])):
        if _json_bytes({**kept, "truncated": True}) <= DETAILS_CAP_BYTES:
            break
        del kept[key]
    return message.evolve(details={**kept, "truncated": True})


def _json_bytes(value: Any) -> int:
    return len(compact_json(value).encode("utf-8", "surrogatepass"))


def head_and_tail(text: str, head_chars: int, tail_chars: int) -> tuple[str, str]:
    """Return the first and the last characters (code points) of ``text``, whole grapheme clusters only."""
    start = text[: floor_cut(text, head_chars)] if head_chars > 0 else ""
    end = text[ceil_cut(text, len(text) - tail_chars) :] if tail_chars > 0 else ""
    return start, end
