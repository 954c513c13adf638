"""Sessions: transcripts as text for the index, masked secrets, and growth that makes them due."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stores.memory.session_files import Growth, grow, growth_is_due
from stores.memory.session_text import plain_text, session_text, wrap_line
from tests.vectors.runner import Case
from turngraph.credentials import mask_credentials

TOPIC = "sessions"


def _export(case: Case) -> Any:
    text = session_text(case.input["text"].encode())
    return {
        "path": f"sessions/{case.input['fileName']}",
        "content": text.content,
        "lineMap": list(text.line_map),
        "messageTimestampsMs": list(text.times_ms),
    }


def _wrap(case: Case) -> Any:
    pieces = wrap_line(case.input["text"], case.input["maxChars"])
    return [{"length": len(piece), "head": piece[:6], "tail": piece[-6:]} for piece in pieces]


def _growth(case: Case) -> Any:
    limits = (case.input["deltaBytes"], case.input["deltaMessages"])
    growth, seen = Growth(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        for step in case.input["steps"]:
            if "write" in step:
                path.write_text(step["write"]["text"] * step["write"]["times"])
            elif "append" in step:
                with path.open("a") as stream:
                    stream.write(step["append"]["text"] * step["append"]["times"])
            growth = grow(growth, path, *limits)
            seen.append(
                {
                    "synced": growth_is_due(growth, *limits),
                    "pendingBytes": growth.pending_bytes,
                    "pendingMessages": growth.pending_messages,
                    "lastSize": growth.size,
                }
            )
    return seen


def _same_flags(_: Case, got: Any, wanted: Any) -> bool:
    """The counters may be written back or not: spec/sessions.md 7.4."""
    return [step["synced"] for step in got] == [step["synced"] for step in wanted]


ADAPTERS: dict[str, Callable[[Case], Any]] = {
    "build_session_index_entry@2026.9": _export,
    "extract_session_text": lambda case: plain_text(case.input.get("content")),
    "redact_sensitive_text": lambda case: mask_credentials(case.input["text"]),
    "session_delta_tracking": _growth,
    "split_long_session_line@2026.9": _wrap,
}
COMPARE = {"session_delta_tracking": _same_flags}
