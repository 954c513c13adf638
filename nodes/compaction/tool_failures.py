"""tool_failures: the tools that failed in the folded part, as a section of the summary (spec/compaction.md 4.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.credentials import mask_credentials
from turngraph.messages import Message
from turngraph.text import head

MAX_LISTED = 8
MAX_CHARS = 240


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """A failed call: ``summary`` is its output in one line, ``meta`` its status and exit code."""

    call_id: str
    tool: str
    summary: str
    meta: str


def find_tool_failures(messages: Iterable[Message]) -> list[ToolFailure]:
    """Return the failed tool results with an id, each call once, oldest first."""
    failures: dict[str, ToolFailure] = {}
    for message in messages:
        call_id = message.tool_call_id
        if message.role == "toolResult" and message.is_error and call_id and call_id not in failures:
            meta = _meta(message.raw.get("details"))
            text = mask_credentials(" ".join(message.text.split()))
            summary = _cut(text) or ("failed" if meta else "failed (no output)")
            failures[call_id] = ToolFailure(call_id, message.tool_name.strip() or "tool", summary, meta)
    return list(failures.values())


def tool_failures_section(failures: list[ToolFailure]) -> str:
    """Write the section, beginning with a blank line; empty when nothing failed."""
    if not failures:
        return ""
    lines = [
        f"- {failure.tool}{f' ({failure.meta})' if failure.meta else ''}: {failure.summary}"
        for failure in failures[:MAX_LISTED]
    ]
    if len(failures) > MAX_LISTED:
        lines.append(f"- ...and {len(failures) - MAX_LISTED} more")
    return "\n\n## Tool Failures\n" + "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else head(text, MAX_CHARS - 3) + "..."


def _meta(details: Any) -> str:
    if not isinstance(details, Mapping):
        return ""
    parts = []
    status, exit_code = details.get("status"), details.get("exitCode")
    if isinstance(status, str) and status:
        parts.append(f"status={status}")
    if isinstance(exit_code, (int, float)) and not isinstance(exit_code, bool):
        parts.append(f"exitCode={exit_code:g}")
    return " ".join(parts)
