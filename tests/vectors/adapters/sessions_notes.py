"""The note of an ended session (spec/sessions.md 6.5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from nodes.session_note import compose_note, conversation, excerpt, slug
from tests.vectors.runner import Case
from turngraph.clock import from_ms
from turngraph.messages import Message

TOPIC = "sessions"


def _messages(rows: list[Any]) -> list[Message]:
    return [Message(row["message"]) for row in rows if row.get("type") == "message"]


def _rows(lines: list[str]) -> list[Any]:
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _file(case: Case) -> dict[str, Any]:
    given = case.input
    if given.get("action", "new") not in ("new", "reset"):
        return {"files": [], "content": None}
    note = compose_note(
        conversation(_messages(_rows(given["lines"]))),
        now=from_ms(given["ts"]),
        zone=ZoneInfo("UTC"),
        key=given["sessionKey"],
        session_id=given["sessionId"],
        source=given["source"],
        count=given.get("messages") or 15,
        name=given.get("slug") if given.get("llmSlug") is not False else None,
    )
    return {"files": [f"{note.stem}.md"] if note else [], "content": note.content if note else None}


def _excerpt(case: Case) -> dict[str, Any] | None:
    found = excerpt(conversation(_messages(case.input["events"])), case.input["messageCount"])
    return None if found is None else {"content": found}


def _same_content(_case: Case, got: Any, want: Any) -> bool:
    if got is None or want is None:
        return got is want
    return bool(got["content"] == want["content"])


ADAPTERS: dict[str, Callable[[Case], object]] = {
    "session_memory_file": _file,
    "slug_from_model_text": lambda case: slug(case.input["text"]),
    "slug_from_model_text@2026.9": lambda case: slug(case.input["text"]),
    "session_memory_excerpt@2026.9": _excerpt,
}
COMPARE = {"session_memory_excerpt@2026.9": _same_content}
