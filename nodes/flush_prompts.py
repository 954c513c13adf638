"""flush_prompts: what a memory flush is told, and the one file that it may write.

Source: spec/compaction.md 1.3, known-faults 6.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from nodes.silent import SILENT_TOKEN
from turngraph.text import js_trim

DATE = "YYYY-MM-DD"
SAFETY_RULES = (
    f"Store notes only in memory/{DATE}.md (create memory/ when it is missing).",
    "MEMORY.md, SOUL.md, TOOLS.md, AGENTS.md and DREAMS.md are read-only now; never overwrite, replace or edit them.",
    f"When memory/{DATE}.md exists, only append to it; never make a file with a time in its name "
    f"(such as {DATE}-HHMM.md).",
)
PROMPT = (
    "Memory flush before compaction: the older part of this conversation is about to be folded into a summary. Write "
    f"down now what should outlast it: facts, decisions, promises, preferences, open work.\n\n{SAFETY_RULES[0]}\n\n"
    f"{SAFETY_RULES[1]}\n\n{SAFETY_RULES[2]}\n\nWhen there is nothing to store, answer {SILENT_TOKEN}."
)
SYSTEM_PROMPT = (
    "This run is a memory flush: the session is near its automatic compaction. Save lasting facts with the write tool "
    f"and do nothing else.\n\n{SAFETY_RULES[0]}\n\n{SAFETY_RULES[1]}\n\n{SAFETY_RULES[2]}\n\n"
    f"Nobody reads your answer; {SILENT_TOKEN} is usually right."
)
_TIME_LINE = "Current time:"
_ORDINALS = {1: "st", 2: "nd", 3: "rd"}


@dataclass(frozen=True, slots=True)
class FlushPrompts:
    """What a flush is asked: one date was taken for file, prompt and write guard alike."""

    path: str
    prompt: str
    system: str


def flush_path(now: datetime, zone: tzinfo) -> str:
    """Return the day's note in the user's zone: ``memory/2026-03-17.md``."""
    return f"memory/{now.astimezone(zone):%Y-%m-%d}.md"


def time_line(now: datetime, zone: tzinfo) -> str:
    """Return the line that tells the time, in the user's zone and in UTC."""
    local = now.astimezone(zone)
    suffix = "th" if 10 < local.day < 14 else _ORDINALS.get(local.day % 10, "th")
    hour = local.hour % 12 or 12
    name = getattr(zone, "key", None) or str(zone)
    return (
        f"{_TIME_LINE} {local:%A, %B} {local.day}{suffix}, {local:%Y} — {hour}:{local:%M %p} ({name}) / "
        f"{now.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    )


def dated_prompt(prompt: str, now: datetime, zone: tzinfo) -> str:
    """Return ``prompt`` with its date filled in and the time line at its end, unless it has one."""
    dated = prompt.replace(DATE, f"{now.astimezone(zone):%Y-%m-%d}").rstrip()
    if not dated:
        return time_line(now, zone)
    return dated if _TIME_LINE in dated else f"{dated}\n{time_line(now, zone)}"


def with_safety_rules(custom: str | None, built_in: str) -> str:
    """Return the operator's text with every safety rule that it lacks, else the built-in text."""
    text = js_trim(custom or "")
    if not text:
        return built_in
    missing = [rule for rule in SAFETY_RULES if rule not in text]
    text = "\n\n".join((text, *missing))
    if SILENT_TOKEN in text:
        return text
    return f"{text}\n\nWhen there is nothing to store, answer {SILENT_TOKEN}."


def flush_prompts(prompt: str | None, system_prompt: str | None, now: datetime, zone: tzinfo) -> FlushPrompts:
    """Resolve file, prompt and system addition of one flush."""
    path = flush_path(now, zone)
    day = path.removeprefix("memory/").removesuffix(".md")
    return FlushPrompts(
        path,
        dated_prompt(with_safety_rules(prompt, PROMPT), now, zone),
        with_safety_rules(system_prompt, SYSTEM_PROMPT).replace(DATE, day),
    )
