"""The text behind a decision: what an entry held, and what of it the model was sent.

Pure but for the texts it is given. Source: spec/seeing.md 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from turngraph.decisions import QUIET, Decision
from turngraph.text import head
from turngraph.viewer.prompt_parts import PromptPart
from turngraph.viewer.texts import Texts

SHOWN_ENTRIES = 3  # of a decision
SHOWN_LINES = 16  # of an entry
LINE_CHARS = 160
COMPARED_LINES = 3_000
SIGNS = {"-": "−", "+": "+", " ": "", "@": "…"}


@dataclass(frozen=True, slots=True)
class TextChange:
    """How the text of one entry changed.

    Attributes:
        entry_id: transcript entry.
        lines: (sign, text): ``−`` taken away, ``+`` put there, ``…`` left out here, nothing for what stayed.
        more_lines: further ones that are not shown.
        gone: whether nothing of the entry was sent.
    """

    entry_id: str
    lines: tuple[tuple[str, str], ...]
    more_lines: int
    gone: bool


def text_changes(
    decisions: Iterable[tuple[int, Decision]], parts: Sequence[PromptPart], texts: Texts | None
) -> Mapping[int, Mapping[str, TextChange]]:
    """Return the changes of each node run by entry id, the first few entries of every decision.

    Args:
        decisions: of the turn, with the ordinal of their run.
        parts: of the prompt as sent.
        texts: where texts are found; ``None`` for a redacted report, which shows none.
    """
    if texts is None:
        return {}
    sent: dict[str, list[PromptPart]] = {}
    for part in parts:
        if part.segment.origin.entry_id:
            sent.setdefault(part.segment.origin.entry_id, []).append(part)
    found: dict[int, dict[str, TextChange]] = {}
    for ordinal, decision in decisions:
        if decision.what not in QUIET:
            found.setdefault(ordinal, {}).update(_of_decision(decision, sent, texts))
    return found


def _of_decision(
    decision: Decision, sent: Mapping[str, Sequence[PromptPart]], texts: Texts
) -> Iterator[tuple[str, TextChange]]:
    shown = 0
    for entry_id in decision.entry_ids:
        if shown == SHOWN_ENTRIES:
            return
        change = _of_entry(entry_id, sent.get(entry_id, ()), texts)
        if change is not None:
            shown += 1
            yield entry_id, change


def _of_entry(entry_id: str, parts: Sequence[PromptPart], texts: Texts) -> TextChange | None:
    if not parts:
        before = texts.of_entry(entry_id, 0)
        return _change(entry_id, before, "", gone=True) if before else None
    for part in parts:
        if part.segment.derived:
            before, after = texts.of_entry(entry_id, part.segment.block), texts.of(part.segment)
            if before is not None and after is not None and before != after:
                return _change(entry_id, before, after)
    return None


def _change(entry_id: str, before: str, after: str, *, gone: bool = False) -> TextChange:
    old, new = before.splitlines()[:COMPARED_LINES], after.splitlines()[:COMPARED_LINES]
    lines = [
        (SIGNS[line[0]], "" if line[0] == "@" else head(line[1:], LINE_CHARS))
        for line in list(unified_diff(old, new, n=1, lineterm=""))[2:]
    ]
    if lines and lines[0][0] == "…" and (gone or old[:1] != new[:1]):
        lines = lines[1:]
    return TextChange(entry_id, tuple(lines[:SHOWN_LINES]), max(0, len(lines) - SHOWN_LINES), gone)
