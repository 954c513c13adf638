"""The prompt of a turn for the report: every segment with its origin, and where it stops being what was sent before.

Pure but for the texts it is given. Source: spec/seeing.md 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turngraph.decisions import Origin, Segment, SegmentKind
from turngraph.text import head
from turngraph.viewer.texts import Texts

# A sign for each kind, so that the legend does not rely on colour alone.
SIGNS: dict[SegmentKind, str] = {
    "system section": "SYS",
    "bootstrap file": "BOOT",
    "skill": "SKILL",
    "tool schema": "TOOL",
    "summary": "SUM",
    "history message": "HIST",
    "hook context": "HOOK",
    "recalled memory": "MEM",
    "current message": "NOW",
}


@dataclass(frozen=True, slots=True)
class PromptPart:
    """One segment as the report shows it.

    Attributes:
        number: place in the prompt, from 1. segment: what the trace holds.
        origin: where it came from, in words.
        text: as sent, cut to the limit; ``None`` when it is missing or was left out. more_chars: what was cut off.
        missing: whether the text can no longer be found.
        shared: whether the previous request had the same segment in the same place, and everything before it.
        breaks: whether this is the first segment that differs: the prompt cache breaks here.
        original_chars: what the transcript holds, where a node changed it.
    """

    number: int
    segment: Segment
    origin: str
    text: str | None
    more_chars: int
    missing: bool
    shared: bool
    breaks: bool
    original_chars: int | None

    @property
    def sign(self) -> str:
        return SIGNS[self.segment.kind]

    @property
    def chars(self) -> int:
        return len(self.segment.text) if self.segment.chars is None else self.segment.chars


@dataclass(frozen=True, slots=True)
class Prompt:
    """The whole prompt; ``shared_tokens`` of it equal the beginning of the previous request."""

    parts: tuple[PromptPart, ...]
    shared: int
    shared_tokens: int
    tokens: int
    has_previous: bool


def prompt_parts(
    segments: Sequence[Segment], previous: Sequence[Segment] | None, texts: Texts | None, *, text_chars: int
) -> Prompt:
    """Return the parts of a prompt.

    Args:
        segments: as the model read them.
        previous: of the request before, if it is known.
        texts: where texts are found; ``None`` leaves them out (a redacted report).
        text_chars: longest text that is shown.
    """
    shared = _shared(segments, previous or ())
    parts = []
    for index, segment in enumerate(segments):
        text = texts.of(segment) if texts and text_chars else None
        shown = head(text, text_chars) if text is not None else None
        parts.append(
            PromptPart(
                number=index + 1,
                segment=segment,
                origin=origin_words(segment.origin),
                text=shown,
                more_chars=len(text or "") - len(shown or ""),
                missing=bool(texts) and text_chars > 0 and text is None,
                shared=index < shared,
                breaks=previous is not None and index == shared,
                original_chars=texts.original_chars(segment) if texts and segment.derived else None,
            )
        )
    return Prompt(
        tuple(parts),
        shared,
        sum(segment.tokens for segment in segments[:shared]),
        sum(segment.tokens for segment in segments),
        previous is not None,
    )


def _shared(now: Sequence[Segment], before: Sequence[Segment]) -> int:
    """Count the segments from the start that are equal in both."""
    count = 0
    for new, old in zip(now, before, strict=False):
        if (new.sha256, new.role, new.text) != (old.sha256, old.role, old.text):
            break
        count += 1
    return count


def origin_words(origin: Origin) -> str:
    """Say where a segment came from."""
    lines = f" lines {origin.lines[0]}-{origin.lines[1]}" if origin.lines else ""
    digest = f", sha256 {origin.sha256[:12]}" if origin.sha256 else ""
    match origin.kind:
        case "entry":
            return f"transcript entry {origin.entry_id}"
        case "summary":
            return f"summary in entry {origin.entry_id}, in place of {len(origin.replaced)} entries"
        case "bootstrap" | "skill" | "recall" if origin.path:
            return f"{origin.path}{lines}{digest}"
        case "hook":
            return f"hook {origin.name}"
        case "tool_schema":
            return f"schema of tool {origin.name}"
        case "inbound":
            return "the message that came in"
        case _:
            return f"made by turngraph ({origin.name or origin.kind})"
