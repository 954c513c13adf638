"""refresh: put the workspace's rules back in sight after a compaction (spec/compaction.md 5.1, design decision 10)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from nodes.compaction.sections import extract_sections
from turngraph.text import head

HEADING = "[Post-compaction context refresh]"
DEFAULT_SECTIONS = ("Session Startup", "Red Lines")
REFRESH_MAX_CHARS = 1_800  # contextLimits.postCompactionMaxChars
SUMMARY_RULES_MAX_CHARS = 2_000  # spec/compaction.md 4.9
_TRUNCATED = "\n...[truncated]..."


def workspace_sections(agents_md: str | None, names: Sequence[str] | None) -> str:
    """Return the wanted sections of AGENTS.md, joined by blank lines; empty when there are none.

    ``None`` for ``names`` takes the default pair where the file has it, an empty list takes nothing.
    """
    wanted = DEFAULT_SECTIONS if names is None else names
    return "\n\n".join(text for _, text in extract_sections(agents_md or "", wanted))


def refresh_text(
    agents_md: str | None, names: Sequence[str] | None, today: date, max_chars: int = REFRESH_MAX_CHARS
) -> str | None:
    """Return the text for the system prompt of the turn after a compaction; ``None`` when there is nothing to say."""
    sections = workspace_sections(agents_md, names).replace("YYYY-MM-DD", today.isoformat())
    if not sections:
        return None
    again = "re-read the sections below" if names else "do the start-up reading below"
    sentence = (
        "The conversation has just been compacted. The summary is a reminder and no substitute for the start-up "
        f"sequence: {again} before you answer."
    )
    return "\n\n".join((HEADING, sentence, "Rules of this workspace (from AGENTS.md):", _cut(sections, max_chars)))


def summary_rules(agents_md: str | None, names: Sequence[str] | None) -> str:
    """Return the same sections as the last part of a summary, beginning with a blank line; empty without any."""
    sections = workspace_sections(agents_md, names)
    if not sections:
        return ""
    body = _cut(sections, SUMMARY_RULES_MAX_CHARS)
    return f"\n\n<workspace-critical-rules>\n{body}\n</workspace-critical-rules>"


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{head(text, max_chars)}{_TRUNCATED}"
