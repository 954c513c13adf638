"""bootstrap_budget: fit the bootstrap files into their character limits, with a visible mark where text was cut.

A cut file is never longer than its limit: the mark is paid from it. AGENTS.md keeps, beside its beginning and end,
the lines that look like rules, since a rule that fell out of the middle is a rule broken.
Source: spec/context.md sections 2.4 and 2.6, design decision 9.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from turngraph.bootstrap_files import AGENTS, USER, BootstrapFile
from turngraph.decisions import Decision
from turngraph.text import JS_SPACE, head, tail

DEFAULT_MAX_CHARS = 20_000
DEFAULT_TOTAL_MAX_CHARS = 150_000
USER_MAX_CHARS = 4_000
MIN_FILE_CHARS = 64  # with less left in all, later files are not listed at all
MIN_TEXT_CHARS = 16  # with less left for text, the short mark is used
HEAD_SHARE, TAIL_SHARE = 0.75, 0.25
AGENTS_HEAD_SHARE, AGENTS_TAIL_SHARE, AGENTS_DIGEST_SHARE = 0.45, 0.15, 0.35
DIGEST_LINE_CHARS = 240
NEAR_LIMIT_RATIO = 0.85

Cause = Literal["per-file-limit", "total-limit"]


def _one_of(words: Sequence[str], signs: Sequence[str] = ()) -> re.Pattern[str]:
    """Match whole English words, also with an s, or Chinese ones anywhere."""
    english = rf"\b(?:{'|'.join(words)})s?\b"
    return re.compile("|".join((english, *signs)), re.IGNORECASE | re.ASCII)


# spec/context.md 2.4 names must, never, required, secret, test and commit; the rest is our choice.
_DEMAND = _one_of(
    ("must", "never", "always", "required", "forbidden", "do not", "don't", "secret", "password", "credential"),
    ("禁止", "不得", "切勿", "必須", "必须", "務必", "务必", "嚴禁", "严禁", "絕不", "绝不", "紅線", "红线"),
)
_ADVICE = _one_of(("test", "commit", "should", "prefer", "avoid", "ask", "review", "deploy", "delete"))
_HEADING_OR_ITEM = re.compile(r"(?:#{1,6}|[-*+]|\d+[.)]) \S")
_FENCES = ("```", "~~~")


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A file's text within its limit; ``raw_chars`` is its length without trailing white space."""

    text: str
    raw_chars: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Injected:
    """A file as the prompt gets it.

    Attributes:
        file: what was read.
        text: what the prompt holds; empty when nothing does.
        raw_chars: length of the file without trailing white space, 0 when it is missing.
        limit: characters one file of this name may have.
        causes: why it was cut; empty when it was not.
    """

    file: BootstrapFile
    text: str
    raw_chars: int
    limit: int
    causes: tuple[Cause, ...] = ()

    @property
    def near_limit(self) -> bool:
        """Whether the file will soon be cut, or is."""
        return self.raw_chars >= math.ceil(self.limit * NEAR_LIMIT_RATIO)


@dataclass(frozen=True, slots=True)
class Budgeted:
    """All files within the total.

    Attributes:
        files: what goes into the prompt, in order.
        left_out: files with nothing in the prompt: no path, empty, or no budget left.
        decisions: one for each cut and each file left out.
    """

    files: tuple[Injected, ...]
    left_out: tuple[Injected, ...]
    total_limit: int
    decisions: tuple[Decision, ...]

    @property
    def injected_chars(self) -> int:
        return sum(len(file.text) for file in self.files)

    @property
    def near_total(self) -> bool:
        """Whether the files together will soon exceed the total, or do."""
        return self.injected_chars >= math.ceil(self.total_limit * NEAR_LIMIT_RATIO)

    @property
    def truncated(self) -> bool:
        return any(file.causes for file in (*self.files, *self.left_out))


def budget_files(files: Sequence[BootstrapFile], max_chars: int, total_max_chars: int) -> Budgeted:
    """Fit ``files``, in order, into ``max_chars`` each and ``total_max_chars`` in all.

    A missing file is named with its path; when less than :data:`MIN_FILE_CHARS` are left, later files are left out.
    """
    remaining, closed = max(1, total_max_chars), False
    kept: list[Injected] = []
    left_out: list[Injected] = []
    decisions: list[Decision] = []
    for file in files:
        if not file.path.strip(JS_SPACE):
            left_out.append(Injected(file, "", 0, max_chars))
            decisions.append(_left_out(file, "it has no path", "no_path"))
            continue
        closed = closed or (not file.missing and remaining < MIN_FILE_CHARS)
        fitted = _fit(file, max_chars, 0 if closed else remaining)
        if fitted.text:
            kept.append(fitted)
            remaining -= len(fitted.text)
        else:
            left_out.append(fitted)
        if fitted.causes:
            decisions.append(_cut(fitted, total_max_chars, remaining))
    return Budgeted(tuple(kept), tuple(left_out), total_max_chars, tuple(decisions))


def _fit(file: BootstrapFile, max_chars: int, remaining: int) -> Injected:
    limit = min(max_chars, USER_MAX_CHARS) if file.name.lower() == USER.lower() else max_chars
    if file.missing:
        return Injected(file, clamp(f"[MISSING] Expected at: {file.path}", remaining), 0, limit)
    content = file.content or ""
    raw_chars = len(content.rstrip(JS_SPACE))
    if remaining < MIN_FILE_CHARS:
        return Injected(file, "", raw_chars, limit, ("total-limit",) if raw_chars else ())
    trimmed = trim_file(content, file.name, max(1, min(limit, remaining)))
    causes: list[Cause] = ["per-file-limit"] if raw_chars > limit else []
    if remaining < min(limit, raw_chars):
        causes.append("total-limit")
    return Injected(file, trimmed.text, raw_chars, limit, tuple(causes))


def _left_out(file: BootstrapFile, why: str, kind: str) -> Decision:
    return Decision("load_bootstrap", "skipped", f"{file.name} left out: {why}", data={"kind": kind})


def _cut(fitted: Injected, total_max_chars: int, remaining: int) -> Decision:
    file = fitted.file
    if not fitted.text:
        why = f"{remaining} of {total_max_chars} characters are left in all, fewer than {MIN_FILE_CHARS}"
        return Decision(
            "load_bootstrap",
            "skipped",
            f"{file.name} left out: {why}",
            path=file.path,
            chars_before=fitted.raw_chars,
            chars_after=0,
            data={"kind": "budget_low"},
        )
    limits = {"per-file-limit": f"{fitted.limit} for one file", "total-limit": f"{total_max_chars} in all"}
    named = " and ".join(limits[cause] for cause in fitted.causes)
    return Decision(
        "load_bootstrap",
        "truncated",
        f"{file.name} has {fitted.raw_chars} characters, limit {named}",
        path=file.path,
        chars_before=fitted.raw_chars,
        chars_after=len(fitted.text),
        data={"kind": "truncated", "causes": list(fitted.causes)},
    )


def clamp(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` characters with an ellipsis in it, where there is room for one."""
    if len(text) <= limit:
        return text
    return head(text, limit) if limit <= 3 else f"{head(text, limit - 1)}…"


def trim_file(content: str, name: str, limit: int) -> Trimmed:
    """Shorten a file to ``limit`` characters, mark included; what fits is returned without trailing white space.

    >>> trim_file("0123456789" * 30, "SOUL.md", 80).text
    '0123456789012345678901234567890123456789012[…truncated 43+14/300]67890123456789'
    """
    text = content.rstrip(JS_SPACE)
    if len(text) <= limit:
        return Trimmed(text, len(text), truncated=False)
    trim = _trim_rules if name.lower() == AGENTS.lower() else _trim_plain
    return Trimmed(head(trim(text, name, limit), limit), len(text), truncated=True)


def _trim_plain(text: str, name: str, limit: int) -> str:
    def long_mark(first: int, last: int) -> str:
        lines = (
            *([""] if first else []),
            "",
            f"[...truncated, read {name} for full content...]",
            f"…(truncated {name}: kept {first}+{last} chars of {len(text)})…",
            "",
            *([""] if last else []),
        )
        return "\n".join(lines)

    def short_mark(first: int, last: int) -> str:
        return f"[…truncated {first}+{last}/{len(text)}]"

    mark = long_mark if limit - len(long_mark(0, 0)) - 2 >= MIN_TEXT_CHARS else short_mark
    first, last = _shares(limit, mark)
    begin, end = head(text, first), tail(text, last)
    return begin + mark(len(begin), len(end)) + end


def _shares(limit: int, mark: Callable[[int, int], str]) -> tuple[int, int]:
    """Divide what ``mark`` leaves of ``limit`` between beginning and end; the mark grows with the numbers in it."""
    first = last = 0
    for _ in range(3):
        room = max(0, limit - len(mark(first, last)))
        first, last = int(room * HEAD_SHARE), int(room * TAIL_SHARE)
    while (over := first + last + len(mark(first, last)) - limit) > 0 and first + last > 0:
        if last:
            last = max(0, last - over)
        else:
            first = max(0, first - over)
    if first + last == 0 and 1 + len(mark(1, 0)) <= limit:
        first = 1
    return first, last


def _trim_rules(text: str, name: str, limit: int) -> str:
    """Keep beginning, end and a digest of the rules; what does not fit is taken from the end, then the beginning."""
    first, last = int(limit * AGENTS_HEAD_SHARE), int(limit * AGENTS_TAIL_SHARE)
    room = int(limit * AGENTS_DIGEST_SHARE)
    while True:
        begin, end = head(text, first), tail(text, last)
        rules, omitted = rule_digest(text, room)
        parts = (
            begin,
            f"[...truncated, read {name} for full content...]",
            f"[Policy digest from {name}]" if rules else "",
            rules,
            f"[...{omitted} more policy lines omitted...]" if omitted else "",
            f"…(truncated {name}: kept {len(begin)}+policy {len(rules)}+{len(end)} chars of {len(text)})…",
            end,
        )
        rendered = "\n".join(part for part in parts if part)
        over = len(rendered) - limit
        if over <= 0 or (last == 0 and first <= 1 and room == 0):
            return rendered
        if last:
            last = max(0, last - over)
        elif first > 1:
            first = max(1, first - over)
        else:
            room = max(0, room - over)


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A line that looks like a rule, below the line it stands under, which may say that it is an example only.

    ``demands`` tells a prohibition or a duty from advice and from headings.
    """

    text: str
    demands: bool


def rule_lines(text: str) -> tuple[RuleLine, ...]:
    """Return the headings, list items and other lines of ``text`` that say what to do, in their order."""
    found: list[RuleLine] = []
    above = ""
    for line in map(_squeezed, text.splitlines()):
        is_fence = line.startswith(_FENCES)
        demands = bool(_DEMAND.search(line))
        is_rule = not is_fence and bool(demands or _HEADING_OR_ITEM.match(line) or _ADVICE.search(line))
        if is_rule:
            found.append(RuleLine(f"{above}\n{line}" if above else line, demands))
        above = "" if is_rule or is_fence else line
    return tuple(found)


def _squeezed(line: str) -> str:
    return clamp(" ".join(line.split()), DIGEST_LINE_CHARS)


def rule_digest(text: str, limit: int) -> tuple[str, int]:
    """Return the rules of ``text`` that fit into ``limit`` characters, in order, and how many did not.

    Demands are taken first, then everything else, each as long as it still fits.
    """
    rules = rule_lines(text)
    room = limit + 1  # each rule is counted with a line end, which the last one does not have
    taken: set[int] = set()
    for index in sorted(range(len(rules)), key=lambda index: not rules[index].demands):
        size = len(rules[index].text) + 1
        if size <= room:
            room -= size
            taken.add(index)
    return "\n".join(rules[index].text for index in sorted(taken)), len(rules) - len(taken)
