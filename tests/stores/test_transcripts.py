"""Opening never writes, appending never loses anything, and the tree reads as Pi reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stores.transcripts import Transcript
from tests.builders import assistant, call, result, user
from turngraph.clock import DerivedIds, FixedClock, RandomIds
from turngraph.errors import NotFound, TranscriptError
from turngraph.messages import Message

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
BACKUP = "s.jsonl.bak.2026-03-16T09-40-00.000Z"
HEADER = {"type": "session", "version": 3, "id": "sess-1", "timestamp": "2026-03-16T00:00:00.000Z", "cwd": "/work"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def opened(path: Path, **options: Any) -> Transcript:
    settings: dict[str, Any] = {"session_id": "sess-1", "clock": FixedClock(NOW), "ids": RandomIds(), "cwd": "/work"}
    return Transcript.open(path, **settings | options)


def msg(own: str, parent: str | None, role: str, text: str) -> dict[str, Any]:
    message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": 1}
    return {
        "type": "message",
        "id": own,
        "parentId": parent,
        "timestamp": "2026-03-16T00:00:01.000Z",
        "message": message,
    }


def chat(count: int) -> list[dict[str, Any]]:
    """A chain m1, m2, ... of alternating user and assistant messages."""
    roles = ("assistant", "user")
    return [msg(f"m{n}", f"m{n - 1}" if n > 1 else None, roles[n % 2], f"text {n}") for n in range(1, count + 1)]


def write(path: Path, *rows: dict[str, Any] | bytes, header: dict[str, Any] | bytes = HEADER) -> bytes:
    lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in (header, *rows)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path.read_bytes()


def texts(transcript: Transcript) -> list[str]:
    return [str(message.raw.get("summary", message.text)) for message in transcript.context().messages]


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


class TestOpening:
    def test_a_missing_file_is_an_empty_transcript_and_stays_missing(self, path: Path) -> None:
        transcript = opened(path)
        assert (transcript.report.mode, transcript.leaf_id, texts(transcript)) == ("new", None, [])
        assert not path.exists()

    def test_broken_lines_are_counted_with_their_numbers_and_cut_nothing_off(self, path: Path) -> None:
        rows: list[Any] = list(chat(10))
        rows[2] = rows[5] = b'{"type":"mess'
        before = write(path, *rows)
        transcript = opened(path)
        assert texts(transcript) == [f"text {n}" for n in (1, 2, 4, 5, 7, 8, 9, 10)]
        assert transcript.report.broken_lines == (4, 7)
        assert any("2 broken lines (lines 4, 7)" in repair for repair in transcript.report.repairs)
        assert path.read_bytes() == before

    def test_a_damaged_header_loses_no_message(self, path: Path) -> None:
        before = write(path, *chat(30), header=json.dumps(HEADER).encode()[:20])
        transcript = opened(path)
        assert len(texts(transcript)) == 30
        assert path.read_bytes() == before

    def test_a_file_cut_to_its_last_lines_still_opens(self, path: Path) -> None:
        rows = chat(10)
        write(path, *rows[6:], header=rows[5])
        assert texts(opened(path)) == [f"text {n}" for n in range(6, 11)]

    @pytest.mark.parametrize("content", [b"", b"\n\n", b"hello world\n", b"null\n", b'{"type":"session","id":7}\n'])
    def test_a_file_without_entries_is_empty_and_keeps_its_bytes(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        assert opened(path).leaf_id is None
        assert path.read_bytes() == content

    def test_byte_order_mark_crlf_second_header_and_line_separators_are_read(self, path: Path) -> None:
        rows = [msg("m1", None, "user", "a\u2028b\u0085c"), HEADER, msg("m2", "m1", "assistant", "好👩‍👩‍👧")]
        lines = [json.dumps(row, ensure_ascii=False).encode() + b"\r\n" for row in [HEADER, *rows]]
        path.write_bytes(b"\xef\xbb\xbf" + b"".join(lines))
        transcript = opened(path)
        assert texts(transcript) == ["a\u2028b\u0085c", "好👩‍👩‍👧"]
        assert transcript.report.repairs == ()

    @pytest.mark.parametrize("line", [b'{"a":NaN}', b'{"a":1}{"b":2}', b"[1,]", b"7"])
    def test_what_is_no_json_object_is_a_broken_line(self, path: Path, line: bytes) -> None:
        write(path, *chat(1), line)
        assert opened(path).report.broken_lines == (3,)

    def test_half_a_surrogate_pair_is_read_as_a_replacement(self, path: Path) -> None:
        line = json.dumps(msg("m1", None, "user", "x")).replace('"x"', '"\\ud83d!"').encode()
        write(path, line)
        transcript = opened(path)
        assert transcript.report.broken_lines == ()
        assert texts(transcript) == ["\ufffd!"]

    def test_unknown_types_and_fields_stay(self, path: Path) -> None:
        strange = {"type": "future", "id": "f1", "parentId": None, "timestamp": "x", "deep": {"größe": [1, None]}}
        write(path, strange, msg("m1", "f1", "user", "hi"))
        transcript = opened(path)
        assert transcript.entries()[0].raw == strange
        assert transcript.entries()[0].at_ms == 0


class TestMigration:
    V1 = (
        {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "a"}},
        {"type": "compaction", "timestamp": "t", "summary": "S", "firstKeptEntryIndex": 3, "tokensBefore": 1},
        {"type": "message", "timestamp": "t", "message": {"role": "hookMessage", "content": "b", "display": True}},
    )

    def test_ids_of_version_1_are_derived_so_that_two_reads_agree(self, path: Path) -> None:
        before = write(path, *self.V1, header={"type": "session", "id": "old"})
        first, second = opened(path), opened(path)
        ids = [entry.id for entry in first.entries()]
        assert ids == [entry.id for entry in second.entries()]
        assert all(len(own) == 8 for own in ids)
        assert [entry.parent_id for entry in first.entries()] == [None, *ids[:2]]
        assert path.read_bytes() == before

    def test_a_compaction_may_name_a_later_entry_by_index(self, path: Path) -> None:
        write(path, *self.V1, header={"type": "session", "id": "old"})
        entries = opened(path).entries()
        assert entries[1].raw["firstKeptEntryId"] == entries[2].id
        assert entries[2].raw["message"]["role"] == "custom"

    def test_the_first_append_makes_it_durable_after_a_backup(self, path: Path) -> None:
        before = write(path, *self.V1, header={"type": "session", "id": "old", "cwd": "/w"})
        transcript = opened(path)
        ids = [entry.id for entry in transcript.entries()]
        added = transcript.append_message(user("new"))
        assert (path.parent / BACKUP).read_bytes() == before
        rows = stored(path)
        assert rows[0] == {"type": "session", "id": "old", "cwd": "/w", "version": 3}
        assert [row["id"] for row in rows[1:]] == [*ids, added.id]
        assert opened(path).report.repairs == ()


class TestAppending:
    def test_header_and_first_message_are_written_at_once(self, path: Path) -> None:
        opened(path).append_message(user("hi"), durable=True)
        header, entry = stored(path)
        assert header == HEADER | {"timestamp": "2026-03-16T09:40:00.000Z"}
        assert (entry["parentId"], entry["message"]["content"]) == (None, "hi")

    @pytest.mark.parametrize("content", [b"", json.dumps(HEADER).encode() + b"\n", json.dumps(HEADER).encode()])
    def test_there_is_never_a_second_header(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        transcript = opened(path)
        transcript.append_message(user("hi"))
        transcript.append_message(assistant("yo"))
        assert [row["type"] for row in stored(path)] == ["session", "message", "message"]

    def test_a_last_line_without_line_feed_is_not_swallowed(self, path: Path) -> None:
        write(path, *chat(2))
        path.write_bytes(path.read_bytes()[:-1])
        opened(path).append_message(user("hi"))
        assert texts(opened(path)) == ["text 1", "text 2", "hi"]
        assert not (path.parent / BACKUP).exists()

    def test_a_torn_last_line_goes_to_a_backup_before_the_first_append(self, path: Path) -> None:
        before = write(path, *chat(2)) + b'{"type":"message","id":"m3","par'
        path.write_bytes(before)
        transcript = opened(path)
        assert (transcript.report.torn_bytes, transcript.report.broken_lines) == (32, ())
        assert path.read_bytes() == before
        transcript.append_message(user("hi"))
        assert (path.parent / BACKUP).read_bytes() == before
        assert texts(opened(path)) == ["text 1", "text 2", "hi"]
        assert opened(path).report.repairs == ()

    def test_gaps_are_linked_on_disk_and_other_lines_stay_byte_for_byte(self, path: Path) -> None:
        rows: list[Any] = list(chat(5))
        rows[2] = b"{broken"
        before = write(path, *rows).split(b"\n")
        opened(path).append_message(user("hi"))
        after = path.read_bytes().split(b"\n")
        assert [after[0], after[1], after[2], after[4]] == [before[0], before[1], before[2], before[5]]
        assert stored(path)[3] == chat(5)[3] | {"parentId": "m2"}
        assert texts(opened(path)) == ["text 1", "text 2", "text 4", "text 5", "hi"]

    def test_a_lost_header_is_written_anew_after_a_backup(self, path: Path) -> None:
        before = write(path, *chat(3), header=b'{"type":"sess')
        opened(path).append_message(user("hi"))
        assert (path.parent / BACKUP).read_bytes() == before
        assert stored(path)[0]["type"] == "session"
        assert texts(opened(path)) == ["text 1", "text 2", "text 3", "hi"]

    def test_a_second_backup_in_the_same_millisecond_takes_the_next_one(self, path: Path) -> None:
        for _ in range(2):
            path.write_bytes(path.read_bytes() + b"{torn" if path.exists() else b"{torn")
            opened(path).append_message(user("hi"))
        assert (path.parent / BACKUP).exists()
        assert (path.parent / BACKUP.replace(".000Z", ".001Z")).exists()

    def test_what_another_process_appended_comes_first(self, path: Path) -> None:
        ours, theirs = opened(path), opened(path)
        ours.append_message(user("one"))
        second = theirs.append_message(user("two"))
        third = ours.append_message(user("three"))
        assert third.parent_id == second.id
        assert texts(ours) == ["one", "two", "three"]
        assert [row["type"] for row in stored(path)].count("session") == 1

    def test_a_file_that_another_process_replaced_is_read_again(self, path: Path) -> None:
        write(path, *chat(2))
        transcript = opened(path)
        path.unlink()
        write(path, *chat(3))
        transcript.append_message(user("hi"))
        assert texts(transcript) == ["text 1", "text 2", "text 3", "hi"]

    def test_a_file_that_was_archived_meanwhile_is_not_started_again(self, path: Path) -> None:
        write(path, *chat(2))
        transcript = opened(path)
        path.rename(path.with_suffix(".gone"))
        with pytest.raises(TranscriptError, match="open the session again"):
            transcript.append_message(user("hi"))
        assert not path.exists()

    def test_a_read_only_transcript_refuses_every_append(self, path: Path) -> None:
        before = write(path, *chat(2))
        with pytest.raises(TranscriptError, match="reading only"):
            opened(path, read_only=True).append_message(user("hi"))
        assert path.read_bytes() == before

    def test_ids_do_not_meet_those_that_a_tail_read_has_not_seen(self, path: Path) -> None:
        compaction = {"type": "compaction", "id": "c", "parentId": "m9", "summary": "S", "firstKeptEntryId": "m9"}
        write(path, *chat(9), compaction | {"tokensBefore": 1, "timestamp": "t"})
        transcript = opened(path, first_block=1, ids=DerivedIds("x"))
        assert transcript.report.mode == "tail"
        assert len(transcript.append_message(user("hi")).id) == len("01234567-89ab")

    def test_half_a_surrogate_pair_can_be_written(self, path: Path) -> None:
        opened(path).append_message(user("a\ud83d"))
        assert texts(opened(path)) == ["a\ufffd"]


class TestContext:
    def test_messages_are_the_same_objects_from_call_to_call(self, path: Path) -> None:
        write(path, *chat(4))
        transcript = opened(path)
        first = transcript.context().messages
        transcript.append_message(user("hi"))
        assert all(a is b for a, b in zip(first, transcript.context().messages, strict=False))

    def test_a_compaction_shows_its_summary_then_what_it_kept(self, path: Path) -> None:
        write(path, *chat(4))
        transcript = opened(path)
        entry = transcript.append_compaction("S", "m3", 900, details={"readFiles": []})
        transcript.append_message(user("hi"))
        context = opened(path).context()
        assert [m.raw.get("summary", m.text) for m in context.messages] == ["S", "text 3", "text 4", "hi"]
        summary = context.messages[0]
        assert summary.origin is not None
        assert (summary.origin.kind, summary.origin.entry_id, summary.origin.replaced) == (
            "summary",
            entry.id,
            ("m1", "m2"),
        )
        assert context.compaction is not None
        assert context.compaction.id == entry.id

    def test_settings_from_before_the_tail_still_count_without_a_search(self, path: Path) -> None:
        transcript = opened(path)
        transcript.append_model_change("px", "mx")
        transcript.append_thinking_level("high")
        transcript.append_session_info(" 我的会话 ")
        transcript.append_custom("plugin", {"n": 1})
        last = [transcript.append_message(user(f"text {n}")) for n in range(9)][-1]
        transcript.append_compaction("S", last.id, 1)
        tail = opened(path, first_block=1)
        assert tail.report.mode == "tail"
        path.rename(path.with_suffix(".away"))  # whoever searches now fails
        context = tail.context()
        assert (context.thinking_level, context.model, context.name) == ("high", ("px", "mx"), "我的会话")
        assert tail.newest_custom("openclaw.cache-ttl") is None

    def test_plain_text_of_an_answer_reads_as_one_block(self, path: Path) -> None:
        entry = msg("m1", None, "assistant", "") | {"message": {"role": "assistant", "content": "hi"}}
        write(path, entry)
        assert opened(path).context().messages[0].raw["content"] == [{"type": "text", "text": "hi"}]

    def test_a_cycle_of_parents_ends_the_walk(self, path: Path) -> None:
        write(path, msg("a", "b", "user", "1"), msg("b", "a", "user", "2"), msg("c", "c", "user", "3"))
        assert texts(opened(path)) == ["3"]
        assert len(opened(path).branch("b")) == 2

    def test_user_turns_begin_with_the_message_of_the_user(self, path: Path) -> None:
        transcript = opened(path)
        transcript.append_custom("x")
        for message in (user("q1"), assistant(call("t1")), result("t1"), assistant("a1"), user("q2")):
            transcript.append_message(message)
        turns = [[Message(entry.message or {}).role for entry in turn] for turn in transcript.turns()]
        assert turns == [["user", "assistant", "toolResult", "assistant"], ["user"]]


class TestBranches:
    def test_a_moved_leaf_is_the_same_for_every_reader(self, path: Path) -> None:
        write(path, *chat(4))
        transcript = opened(path)
        transcript.move_leaf("m2")
        assert texts(transcript) == texts(opened(path)) == ["text 1", "text 2"]
        transcript.append_message(user("hi"))
        assert texts(opened(path)) == ["text 1", "text 2", "hi"]
        last = stored(path)[-2]
        assert (last["type"], last["customType"], last["parentId"]) == ("custom", "turngraph.leaf", "m2")

    def test_moving_the_leaf_before_the_first_entry_empties_the_context(self, path: Path) -> None:
        write(path, *chat(4))
        opened(path).move_leaf(None)
        assert texts(opened(path)) == []

    def test_moving_the_leaf_to_where_it_is_writes_nothing(self, path: Path) -> None:
        before = write(path, *chat(4))
        opened(path).move_leaf("m4")
        assert path.read_bytes() == before

    def test_an_unknown_entry_is_not_found(self, path: Path) -> None:
        write(path, *chat(4))
        acts: tuple[Callable[[Transcript], object], ...] = (
            lambda t: t.move_leaf("nope"),
            lambda t: t.branch("nope"),
            lambda t: t.append_label("nope", "x"),
        )
        for act in acts:
            with pytest.raises(NotFound, match="no entry nope"):
                act(opened(path))

    def test_a_branch_summary_goes_back_and_says_what_was_left(self, path: Path) -> None:
        write(path, *chat(4))
        opened(path).append_branch_summary("m1", "tried X")
        assert texts(opened(path)) == ["text 1", "tried X"]

    def test_a_leaf_moved_behind_the_tail_reads_everything(self, path: Path) -> None:
        compaction = {"type": "compaction", "id": "c", "parentId": "m9", "summary": "S", "firstKeptEntryId": "m9"}
        write(path, *chat(9), compaction | {"tokensBefore": 1, "timestamp": "t"})
        transcript = opened(path, first_block=1)
        transcript.move_leaf("m3")
        assert texts(transcript) == ["text 1", "text 2", "text 3"]

    def test_labels_of_the_unread_part_are_found(self, path: Path) -> None:
        write(path, *chat(9))
        transcript = opened(path)
        transcript.append_label("m1", "start")
        transcript.append_label("m2", "gone")
        transcript.append_label("m2", None)
        kept = transcript.append_message(user("hi"))
        transcript.append_compaction("S", kept.id, 1)
        assert opened(path, first_block=1).labels() == opened(path, full=True).labels() == {"m1": "start"}

    def test_rewriting_replaces_a_message_and_keeps_the_old_lines(self, path: Path) -> None:
        write(path, *chat(4))
        transcript = opened(path)
        transcript.append_compaction("S", "m3", 1)
        before = path.read_bytes()
        renamed = transcript.rewrite_branch({"m3": user("shorter")})
        assert path.read_bytes().startswith(before)
        assert texts(transcript) == texts(opened(path)) == ["S", "shorter", "text 4"]
        assert set(renamed) == {"m3", "m4", before.split(b'"id":"')[-1][:8].decode()}
        assert transcript.context().compaction is not None

    def test_rewriting_nothing_writes_nothing(self, path: Path) -> None:
        before = write(path, *chat(4))
        assert opened(path).rewrite_branch({"nope": user("x")}) == {}
        assert path.read_bytes() == before


def test_time_of_an_entry_is_the_clock_when_it_was_appended(path: Path) -> None:
    clock = FixedClock(NOW)
    transcript = opened(path, clock=clock)
    first = transcript.append_message(user("a"))
    clock.advance(timedelta(seconds=90))
    second = transcript.append_message(user("b"))
    assert second.at_ms - first.at_ms == 90_000
