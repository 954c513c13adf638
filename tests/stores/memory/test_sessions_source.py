"""Transcripts as a source: what is said, on which line, without secrets and without machinery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stores.memory.index import MemoryIndex
from tests.stores.memory.conftest import Notes
from turngraph.errors import NotFound

SOURCES: dict[str, Any] = {"sources": ["memory", "sessions"], "experimental": {"sessionMemory": True}}


class Transcripts:
    """The transcripts of the main agent."""

    def __init__(self, notes: Notes) -> None:
        self.folder = notes.root / "agents/main/sessions"
        self.folder.mkdir(parents=True)
        self.keys: dict[str, dict[str, str]] = {}

    def write(self, session: str, *said: tuple[str, Any], key: str | None = None, name: str | None = None) -> Path:
        """Write a chain of messages; the first one stands on line 2."""
        records: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": session}]
        for number, (role, content) in enumerate(said):
            parent = f"m{number - 1}" if number else None
            message = {"role": role, "content": content}
            records.append({"type": "message", "id": f"m{number}", "parentId": parent, "message": message})
        file = self.folder / (name or f"{session}.jsonl")
        file.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
        if key:
            self.keys[key] = {"sessionId": session}
            (self.folder / "sessions.json").write_text(json.dumps(self.keys))
        return file


@pytest.fixture
def transcripts(notes: Notes) -> Transcripts:
    return Transcripts(notes)


def _found(index: MemoryIndex, query: str) -> list[tuple[str, int, int]]:
    return [(hit.path, hit.start_line, hit.end_line) for hit in index.search(query, corpus="sessions").hits]


def test_a_hit_names_the_line_of_the_transcript(notes: Notes, transcripts: Transcripts) -> None:
    tool = [{"type": "toolCall", "id": "t1", "name": "exec", "arguments": {"command": "zebra"}}]
    transcripts.write("s1", ("assistant", tool), ("toolResult", "zebra output"), ("user", "the walrus arrived"))
    index = notes.index(**SOURCES)
    assert _found(index, "walrus") == [("sessions/s1.jsonl", 4, 4)]
    assert _found(index, "zebra") == []


def test_secrets_are_masked_before_they_are_stored(notes: Notes, transcripts: Transcripts) -> None:
    transcripts.write("s1", ("user", "use API_KEY=abcdef1234567890wxyz for the walrus service"))
    index = notes.index(**SOURCES)
    [hit] = index.search("walrus").hits
    assert "abcdef1234567890wxyz" not in hit.snippet
    assert "abcdef…wxyz" in hit.snippet
    index.close()
    assert b"abcdef1234567890wxyz" not in index.places.index.read_bytes()


@pytest.mark.parametrize(
    "key",
    [
        "agent:main:cron:job-1:run:r1",
        "agent:main:subagent:x",
        "agent:main:main:heartbeat",
        "agent:main:hook:gmail",
    ],
)
def test_sessions_of_machinery_are_left_out(notes: Notes, transcripts: Transcripts, key: str) -> None:
    transcripts.write("s1", ("user", "the walrus arrived"), key=key)
    assert _found(notes.index(**SOURCES), "walrus") == []


def test_reset_archives_are_found_and_deleted_ones_are_not(notes: Notes, transcripts: Transcripts) -> None:
    stamp = "2026-02-16T04-37-00.000Z"
    transcripts.write("s1", ("user", "the walrus arrived"), name=f"s1.jsonl.reset.{stamp}")
    transcripts.write("s2", ("user", "the walrus left"), name=f"s2.jsonl.deleted.{stamp}")
    assert [path for path, _, _ in _found(notes.index(**SOURCES), "walrus")] == [f"sessions/s1.jsonl.reset.{stamp}"]


def test_protocol_is_not_speech(notes: Notes, transcripts: Transcripts) -> None:
    transcripts.write(
        "s1",
        ("user", "[cron:job-1] count the walrus"),
        ("assistant", "NO_REPLY"),
        ("user", "System: [2026-02-16 04:37 UTC] the walrus restarted"),
        ("assistant", "HEARTBEAT_OK"),
    )
    assert _found(notes.index(**SOURCES), "walrus") == []


def test_a_search_takes_a_transcript_again_when_it_has_grown_enough(notes: Notes, transcripts: Transcripts) -> None:
    index = notes.index(**SOURCES, sync={"sessions": {"deltaBytes": 100_000, "deltaMessages": 3}})
    said = [("user", "first words")]
    transcripts.write("s1", *said)
    index.sync()
    transcripts.write("s1", *said, ("assistant", "the walrus arrived"))
    assert _found(index, "walrus") == []
    assert index.status().changed == 1
    transcripts.write("s1", *said, ("assistant", "the walrus arrived"), ("user", "thanks"), ("assistant", "welcome"))
    assert _found(index, "walrus") == [("sessions/s1.jsonl", 2, 5)]


def test_a_forgotten_session_does_not_come_back(notes: Notes, transcripts: Transcripts) -> None:
    transcripts.write("s1", ("user", "the walrus arrived"))
    index = notes.index(**SOURCES)
    index.sync()
    index.forget(session="s1", confirmed=True)
    assert _found(index, "walrus") == []
    transcripts.write("s1", ("user", "the walrus arrived"), ("user", "the walrus is still here"))
    index.sync()
    index.sync(force=True)
    assert _found(index, "walrus") == []
    index.close()
    files = index.places.index.parent.glob(f"{index.places.index.name}*")
    assert not any(b"walrus arrived" in file.read_bytes() for file in files)
    with pytest.raises(NotFound):
        index.forget(session="s2")


def test_sessions_are_not_indexed_unless_they_are_switched_on(notes: Notes, transcripts: Transcripts) -> None:
    transcripts.write("s1", ("user", "the walrus arrived"))
    index = notes.index(sources=["memory", "sessions"])
    assert index.search("walrus").hits == ()


def test_the_first_search_of_a_session_looks_at_the_disk(notes: Notes) -> None:
    index = notes.index(sync={"onSearch": False})
    notes.write("memory/a.md", "apples")
    assert [hit.path for hit in index.search("apples", session_key="agent:main:main").hits] == ["memory/a.md"]
    notes.write("memory/b.md", "pears")
    assert index.search("pears", session_key="agent:main:main").hits == ()
    assert [hit.path for hit in index.search("pears", session_key="agent:main:other").hits] == ["memory/b.md"]
