"""Running turns as a stream: follow the spools of a home, whichever process runs the turn.

Source: spec/seeing.md 1.1 and 2.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from stores.traces import spools

POLL_S = 0.2
KEEP_ALIVE_POLLS = 75  # a comment every 15 s, so that proxies and browsers keep the connection
LONGEST_TEXT = 2_000


@dataclass(slots=True)
class Follower:
    """Remembers what of each running turn was told already.

    Attributes:
        folder: ``traces/live`` of the home. session_key: of the session that is followed, ``None`` for all.
    """

    folder: Path
    session_key: str | None = None
    _told: dict[str, int] = field(default_factory=dict)

    def news(self) -> list[dict[str, Any]]:
        """Return what happened since the last call, oldest first; ended turns come as ``ended``."""
        found: list[dict[str, Any]] = []
        alive = set()
        for spool in spools(self.folder):
            if spool.is_dead or self.session_key not in (None, spool.header["session_key"]):
                continue
            alive.add(spool.trace_id)
            about = {"trace": spool.trace_id, "session": str(spool.header["session_key"])}
            if spool.trace_id not in self._told:
                found.append({"what": "started", **about, "at": str(spool.header["started"])})
            for event in spool.events[self._told.get(spool.trace_id, 0) :]:
                shown = _shown(event)
                if shown is not None:
                    found.append({**shown, **about})
            self._told[spool.trace_id] = len(spool.events)
        for trace_id in [trace_id for trace_id in self._told if trace_id not in alive]:
            del self._told[trace_id]
            found.append({"what": "ended", "trace": trace_id})
        return found


def _shown(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the page tells of an event; most agent events are of no use to a reader."""
    match event.get("event"):
        case "node_start":
            return {"what": "node", "node": str(event.get("node"))}
        case "node_end":
            error = event.get("error")
            return {
                "what": "node done",
                "node": str(event.get("node")),
                "ms": round(float(event.get("ms") or 0.0), 1),
                "error": None if error is None else str(error),
            }
        case "message_update":
            return {"what": "text", "text": str(event.get("text") or "")[:LONGEST_TEXT]}
        case "tool_execution_start":
            return {"what": "tool", "tool": str(event.get("toolName") or event.get("name") or "")}
        case _:
            return None


async def server_sent_events(follower: Follower, *, poll_s: float = POLL_S) -> AsyncIterator[bytes]:
    """Yield the news as server-sent events until the reader goes away."""
    yield b"retry: 1000\n\n"
    quiet = 0
    while True:
        news = await asyncio.to_thread(follower.news)
        for item in news:
            yield b"data: " + orjson.dumps(item) + b"\n\n"
        quiet = 0 if news else quiet + 1
        if quiet >= KEEP_ALIVE_POLLS:
            yield b": still here\n\n"
            quiet = 0
        await asyncio.sleep(poll_s)
