"""summary_sections: the headings that every stored summary has.

Source: spec/compaction.md sections 4.3 and 4.6.
"""

from __future__ import annotations

from collections.abc import Sequence

DECISIONS = "## Decisions"
OPEN_TODOS = "## Open TODOs"
CONSTRAINTS = "## Constraints/Rules"
PENDING_ASKS = "## Pending user asks"
IDENTIFIERS = "## Exact identifiers"
REQUIRED_HEADINGS = (DECISIONS, OPEN_TODOS, CONSTRAINTS, PENDING_ASKS, IDENTIFIERS)

NO_HISTORY = "No prior history."
_NONE = "None."
_NONE_CAPTURED = "None captured."


def heading_lines(summary: str) -> list[str]:
    """Return the required headings in the order in which they stand in ``summary``, repeated ones too."""
    wanted = set(REQUIRED_HEADINGS)
    return [line.strip() for line in summary.split("\n") if line.strip() in wanted]


def has_required_sections(summary: str) -> bool:
    """Whether ``summary`` has each required heading exactly once, in order."""
    return tuple(heading_lines(summary)) == REQUIRED_HEADINGS


def build_sections(
    *,
    decisions: str = "",
    todos: str = "",
    constraints: str = "",
    asks: str = "",
    identifiers: str = "",
) -> str:
    """Write a summary with the required headings; an empty part says that there is none."""
    bodies = (decisions or _NONE, todos or _NONE, constraints or _NONE, asks or _NONE, identifiers or _NONE_CAPTURED)
    return "\n\n".join(f"{heading}\n{body}" for heading, body in zip(REQUIRED_HEADINGS, bodies, strict=True))


def fallback_summary(previous_summary: str | None) -> str:
    """Return a summary for a history without conversation: the previous one, brought under the headings."""
    previous = (previous_summary or "").strip()
    if previous and has_required_sections(previous):
        return previous
    return build_sections(decisions=previous or NO_HISTORY)


def add_identifiers(summary: str, identifiers: Sequence[str]) -> str:
    """Return ``summary`` with ``identifiers`` listed at the end of its section of exact identifiers."""
    if not identifiers:
        return summary
    lines = summary.split("\n")
    added = [f"- {identifier}" for identifier in identifiers]
    start = next((index for index, line in enumerate(lines) if line.strip() == IDENTIFIERS), None)
    if start is None:
        return "\n".join((*lines, "", IDENTIFIERS, *added))
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    body = [line for line in lines[start + 1 : end] if line.strip() not in ("", _NONE, _NONE_CAPTURED, "None")]
    rest = ["", *lines[end:]] if end < len(lines) else []
    return "\n".join((*lines[: start + 1], *body, *added, *rest))
