"""sections: named sections read out of a Markdown file (spec/compaction.md 4.9, last paragraph)."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADING = re.compile(r"(#{2,3})\s+(.+?)\s*")


def extract_sections(markdown: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return ``(name, text with its heading)`` of the wanted level-2 and level-3 sections, in the order of ``names``.

    Names match in any case; the first section of a name counts. A section ends at the next heading of its level or
    above (2 or 3; a level-1 heading does not end it). Headings inside a code fence are text.
    """
    found = []
    for name in names:
        text = _section(markdown.split("\n"), name.strip().casefold())
        if text is not None:
            found.append((name, text))
    return found


def _section(lines: Sequence[str], wanted: str) -> str | None:
    fenced = False
    level = 0
    taken: list[str] = []
    for line in lines:
        if line.lstrip().startswith("```"):
            fenced = not fenced
        heading = None if fenced else _HEADING.fullmatch(line)
        if heading and level and len(heading.group(1)) <= level:
            break
        if heading and not level and heading.group(2).casefold() == wanted:
            level = len(heading.group(1))
        if level:
            taken.append(line)
    return "\n".join(taken).strip() if level else None
