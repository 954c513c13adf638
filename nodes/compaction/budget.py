"""budget: cut a summary to its cap, body and attachments each getting their share.

Lengths are weighted characters (design decision 1). Source: spec/compaction.md 4.10.
"""

from __future__ import annotations

from turngraph.summary_sections import has_required_sections
from turngraph.text import weighted_chars, weighted_head, weighted_tail

TRUNCATED_MARKER = "\n\n[Compaction summary truncated to fit budget]"
ATTACHMENTS_MARKER = "\n\n[Earlier attachments of the summary left out to fit budget]"


def cap_summary(summary: str, max_chars: int) -> str:
    """Return ``summary`` within ``max_chars``, with a marker where it was cut and the marker fits."""
    if weighted_chars(summary) <= max_chars:
        return summary
    room = max_chars - weighted_chars(TRUNCATED_MARKER)
    return weighted_head(summary, room) + TRUNCATED_MARKER if room > 0 else weighted_head(summary, max_chars)


def cap_body(body: str, max_chars: int) -> str:
    """Return ``body`` within ``max_chars``; the longest sections are cut, so that all headings stay."""
    if weighted_chars(body) <= max_chars or not has_required_sections(body):
        return cap_summary(body, max_chars)
    sections = [part if part.startswith("## ") else f"## {part}" for part in body.split("\n## ")]
    low, high = 0, max_chars
    while low < high:
        level = (low + high + 1) // 2
        if weighted_chars("\n".join(cap_summary(section, level) for section in sections)) <= max_chars:
            low = level
        else:
            high = level - 1
    # A level that holds little more than the marker would cut headings; at the marker's own weight none is written.
    for level in (low, min(low, weighted_chars(TRUNCATED_MARKER))):
        capped = "\n".join(cap_summary(section, level) for section in sections)
        if has_required_sections(capped):
            return capped
    return cap_summary(body, max_chars)


def cap_with_suffix(body: str, suffix: str, max_chars: int) -> str:
    """Return ``body`` and ``suffix`` within ``max_chars``; the body keeps at least half.

    The suffix loses whole parts from its head (they are ordered by rising importance), then the body is cut.
    """
    suffix = suffix if not suffix or suffix.startswith("\n\n") else f"\n\n{suffix}"
    suffix_room = max(max_chars - weighted_chars(body), max_chars // 2)
    suffix = _cut_head(suffix, suffix_room)
    room = max_chars - weighted_chars(suffix)
    while weighted_chars(capped := cap_body(body, room) + suffix) > max_chars and room > 0:
        room -= 1  # the weight of two texts together may round up by one or two
    return capped


def _cut_head(suffix: str, max_chars: int) -> str:
    if weighted_chars(suffix) <= max_chars:
        return suffix
    room = max_chars - weighted_chars(ATTACHMENTS_MARKER)
    if room <= 0:
        return weighted_tail(suffix, max_chars)
    rest = suffix
    while weighted_chars(rest) > room:
        border = rest.find("\n\n", 2)
        if border < 0:
            return ATTACHMENTS_MARKER + weighted_tail(rest, room)
        rest = rest[border:]
    return ATTACHMENTS_MARKER + rest
