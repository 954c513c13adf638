"""A transcript read from its end tells the same as one that is read whole."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stores.transcript_reading import ChunksBackward
from stores.transcripts import Transcript
from tests.builders import user
from turngraph.clock import DerivedIds, FixedClock

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
SHARED = Path(__file__).parents[3] / "shared"
HEADER = {"type": "session", "version": 3, "id": "sess-1", "timestamp": "2026-03-16T00:00:00.000Z", "cwd": "/work"}


def opened(path: Path, *, full: bool = False, first_block: int = 1) -> Transcript:
    return Transcript.open(
        path, session_id="lost", clock=FixedClock(NOW), ids=DerivedIds("t"), full=full, first_block=first_block
    )


def told(transcript: Transcript) -> dict[str, Any]:
    """Everything that must not depend on how much was read."""
    context = transcript.context()
    customs = {kind: transcript.newest_custom(kind) for kind in ("openclaw.cache-ttl", "turngraph.projection")}
    return {
        "messages": [(message.entry_id, dict(message.raw)) for message in context.messages],
        "compaction": context.compaction.id if context.compaction else None,
        "thinking": context.thinking_level,
        "model": context.model,
        "name": context.name,
        "labels": transcript.labels(),
        "customs": {kind: (entry.id, entry.raw["data"]) if entry else None for kind, entry in customs.items()},
        "leaf": transcript.leaf_id,
        "session": transcript.session_id,
    }


def assert_tail_equals_full(path: Path) -> Transcript:
    before = path.read_bytes()
    tail = opened(path)
    assert told(tail) == told(opened(path, full=True))
    assert path.read_bytes() == before
    return tail


IDS = [f"e{number}" for number in range(14)]
KINDS = ["message"] * 8 + [
    "compaction",
    "compaction",
    "reset",
    "thinking_level_change",
    "model_change",
    "custom",
    "custom_message",
    "branch_summary",
    "label",
    "session_info",
    "future_thing",
]


def body(draw: st.DrawFn, kind: str, own: str) -> dict[str, Any]:
    anywhere = st.sampled_from([*IDS, "nowhere"])
    match kind:
        case "message":
            return {"message": draw(st.sampled_from(messages(own)))}
        case "compaction":
            return {"summary": f"S {own}", "firstKeptEntryId": draw(anywhere), "tokensBefore": 9}
        case "reset":
            kept = draw(st.none() | anywhere)
            return {} if kept is None else {"firstKeptEntryId": kept}
        case "thinking_level_change":
            return {"thinkingLevel": draw(st.sampled_from(["low", "high"]))}
        case "model_change":
            return {"provider": "px", "modelId": draw(st.sampled_from(["m1", "m2"]))}
        case "custom":
            return {"customType": draw(st.sampled_from(["openclaw.cache-ttl", "turngraph.projection"])), "data": own}
        case "custom_message":
            return {"customType": "note", "content": "备注 👩‍👩‍👧", "display": False}
        case "branch_summary":
            return {"fromId": "root", "summary": draw(st.sampled_from(["", "left"]))}
        case "label":
            return {"targetId": draw(anywhere), "label": draw(st.sampled_from(["", "mark", "标"]))}
        case "session_info":
            return {"name": draw(st.sampled_from(["", " my chat ", "名"]))}
    return {"foo": 1}


def messages(own: str) -> list[dict[str, Any]]:
    made_by = {"provider": "anthropic", "model": f"model-{own}"}
    called = [{"type": "toolCall", "id": "t1", "name": "read", "arguments": {}}]
    return [
        {"role": "user", "content": f"hello {own} \u2028 日本語", "timestamp": 1},
        {"role": "assistant", "content": [{"type": "text", "text": own}], **made_by},
        {"role": "assistant", "content": called, **made_by},
        {"role": "assistant", "content": "plain text"},
        {"role": "toolResult", "toolCallId": "t1", "toolName": "read", "content": "out"},
        {"role": "custom", "customType": "c", "content": "z", "display": True, "excludeFromContext": True},
    ]


@st.composite
def lines(draw: st.DrawFn) -> list[bytes]:
    """A file of any shape: branches, cycles, lost parents, repeated ids, broken lines, headers anywhere."""
    orderly = draw(st.booleans())
    rows: list[bytes] = [json.dumps(HEADER).encode()]
    previous: str | None = None
    for number in range(draw(st.integers(0, 14))):
        own = f"e{number}" if orderly or draw(st.integers(0, 9)) else draw(st.sampled_from(IDS))
        kind = draw(st.sampled_from(KINDS))
        parent = previous if draw(st.integers(0, 5)) else draw(st.sampled_from([None, "nowhere", *IDS]))
        entry = {"type": kind, "id": own, "parentId": parent, "timestamp": "2026-03-16T00:00:01.000Z"}
        if orderly or draw(st.integers(0, 29)):
            previous = own
        else:
            del entry["id"]
        entry |= body(draw, kind, own)
        spaced = draw(st.booleans())
        text = json.dumps(entry, ensure_ascii=False, separators=None if spaced else (",", ":"))
        rows.append(text.encode() + draw(st.sampled_from([b"", b"", b"", b"\r"])))
        if not orderly and not draw(st.integers(0, 6)):
            odd = [b'{"type":"mess', b"null", b"", b"  ", json.dumps(HEADER).encode(), b'{"a":NaN}']
            rows.append(draw(st.sampled_from(odd)))
    if not draw(st.integers(0, 9)):
        rows.append(b'{"type":"message","id":"torn')
    elif draw(st.booleans()):
        rows.append(b"")
    return rows


def test_the_model_is_found_when_another_question_has_read_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(
        b"\n".join(
            [
                b'{"type":"session","version":3,"id":"sess-1","timestamp":"2026-03-16T00:00:00.000Z","cwd":"/work"}',
                b'{"type":"mess',
                b'{"type":"custom","parentId":null,"customType":"openclaw.cache-ttl","data":"e3"}',
                b'{"type":"message","parentId":null,"message":{"role":"assistant","content":[],"provider":"p","model":"m"}}',
                b'{"type":"reset","id":"e5","parentId":"nowhere"}',
                b'{"type":"message","id":"e6","parentId":"e5","message":{"role":"user","content":"hello"}}',
                b"",
            ]
        )
    )
    tail = opened(path)
    context = tail.context()
    assert not tail.is_complete
    tail.load_all()
    assert context.model == ("p", "m")
    assert_tail_equals_full(path)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=lines())
@example(rows=[json.dumps(HEADER).encode()])
@example(rows=[b""])
def test_tail_read_equals_full_read_of_any_file(tmp_path: Path, rows: list[bytes]) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(b"\n".join(rows))
    assert_tail_equals_full(path)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=lines())
def test_the_first_append_to_any_file_mends_it_and_changes_nothing_visible(tmp_path: Path, rows: list[bytes]) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(b"\n".join(rows))
    for backup in tmp_path.glob("*.bak.*"):
        backup.unlink()
    before, transcript = path.read_bytes(), opened(path)
    visible = told(transcript)["messages"]
    needed_mending = opened(path, full=True).report.repairs
    added = transcript.append_message(user("next"))
    after = opened(path, full=True)
    assert told(after)["messages"] == [*visible, (added.id, dict(user("next").raw))]
    assert told(after) == told(transcript) == told(opened(path))
    if transcript.is_complete:
        assert after.report.repairs == ()
        assert [backup.read_bytes() for backup in tmp_path.glob("*.bak.*")] == [before] * bool(needed_mending)
    else:
        assert path.read_bytes().startswith(before)


def vector_transcripts() -> list[Any]:
    source = SHARED / "vectors" / "sessions.json"
    if not source.exists():
        return []
    found = []
    for case in json.loads(source.read_text("utf-8"))["cases"]:
        given_input = case["input"]
        if not isinstance(given_input, dict):
            continue
        text = given_input.get("text") or given_input.get("existingFile")
        entries = given_input.get("entries")
        if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
            rows = entries if entries[0].get("type") == "session" else [HEADER, *entries]
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        if isinstance(text, str) and "{" in text:
            found.append(pytest.param(text, id=f"{case['function']} {case['name']}"))
    return found


@pytest.mark.parametrize("text", vector_transcripts())
def test_tail_read_equals_full_read_of_every_vector(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vector.jsonl"
    path.write_text(text, "utf-8")
    assert_tail_equals_full(path)


def test_tail_read_equals_full_read_of_a_real_session() -> None:
    real = SHARED / "data" / "transcripts" / "coding-session-v1.jsonl"
    if not real.exists():
        pytest.skip("the shared transcripts are not here")
    assert_tail_equals_full(real)


@given(data=st.lists(st.sampled_from([b"a", b"bb\n", b"\n", b"ccccc"])).map(b"".join), block=st.integers(1, 9))
def test_chunks_from_the_end_are_whole_lines_and_add_up_to_the_file(data: bytes, block: int) -> None:
    chunks = list(ChunksBackward(io.BytesIO(data), len(data), block))
    assert b"".join(chunk for _, chunk in reversed(chunks)) == data
    for offset, chunk in chunks:
        assert data[offset : offset + len(chunk)] == chunk
        assert offset == 0 or data[offset - 1 : offset] == b"\n"
