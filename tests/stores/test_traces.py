"""The trace store: every turn is kept once, whatever is killed, and read back as it was."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.traces import TraceReader, TraceStore, read_spool, spools, write_run
from stores.traces.rows import from_row, to_line, to_row
from stores.traces.tables import TABLES, read_table, to_tables
from turngraph.decisions import Decision, NodeRun, Origin, Segment, TurnTrace
from turngraph.errors import NotFound, StoreError

START = datetime(2026, 3, 16, 9, 40, 0, 123456, tzinfo=UTC)
DAY = START.date()
NEXT_DAY = DAY + timedelta(days=1)
KEY = "agent:main:main"

SYSTEM = Segment("system section", "system", "Be kind. 日本語 👩‍👩‍👧", 9, Origin("system", name="tone"), name="tone")
HISTORY = Segment("history message", "user", "hello", 1, Origin("entry", entry_id="a1"), block=0)
CUT = Segment("history message", "toolResult", "[cut]", 2, Origin("entry", entry_id="a2"), block=0, derived=True)
SUMMARY = Segment("summary", "user", "what was", 2, Origin("summary", entry_id="c1", replaced=("a0", "a1")))
FILE = Segment(
    "bootstrap file", "system", "# مرحبا", 3, Origin("bootstrap", path="SOUL.md", lines=(1, 1), sha256="f" * 64)
)


def trace(number: int = 1, **changes: Any) -> TurnTrace:
    started = START + timedelta(minutes=number)
    made = TurnTrace(
        trace_id=f"t{number}",
        agent_id="main",
        session_key=KEY,
        session_id="s1",
        turn=number,
        started=started,
        ended=started + timedelta(seconds=1),
        facts={"trigger": "user", "prompt_tokens": 17, "reported_usage": {"input": 3}, "error": None, "reply": "text"},
        nodes=(
            NodeRun(0, "load_history", started, 1.25, None, 2, None, 20, "d" * 64),
            NodeRun(1, "budget", started, 0.0, 2, 2, 20, 20, route="fits", why="20 < 176,000"),
            NodeRun(2, "prompt:model", started, 7.5, error="ModelError: overloaded"),
        ),
        decisions=(
            (0, Decision("load_history", "kept", "2 of 2 entries", entry_ids=("a1", "a2"), tokens_after=20)),
            (1, Decision("budget", "routed", "fits", data={"window": 200_000, "parts": [1, 2]}, lines=(3, 4))),
            (1, Decision("budget", "warned", "small", path="SOUL.md")),
        ),
        segments=(SYSTEM, HISTORY, CUT, SUMMARY, FILE),
    )
    return replace(made, **changes)


def looked_up(reader: TraceReader, found: TurnTrace, transcript: dict[tuple[str, int | None], str]) -> TurnTrace:
    """Put the texts back into the segments, as a report does."""

    def text_of(entry_id: str, block: int | None) -> str | None:
        return transcript.get((entry_id, block))

    def whole(segment: Segment) -> Segment:
        text = reader.segment_text(segment, text_of)
        assert text is not None
        return replace(segment, text=text, sha256=None, chars=None)

    return replace(found, segments=tuple(whole(segment) for segment in found.segments))


def test_a_turn_reads_back_as_it_was_written(tmp_path: Path) -> None:
    TraceStore(tmp_path).append(trace())
    reader = TraceReader(tmp_path)
    assert looked_up(reader, reader.trace("t1"), {("a1", 0): "hello"}) == trace()


def test_a_merged_turn_reads_back_as_it_was_written(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    for number in (1, 2, 3):
        store.append(trace(number))
    (merged,) = store.merge_finished_days(NEXT_DAY)
    assert (merged.agent_id, merged.day, merged.traces, merged.added) == ("main", DAY, 3, 3)
    assert not list((tmp_path / "open").rglob("*.jsonl*"))
    reader = TraceReader(tmp_path)
    assert [looked_up(reader, found, {("a1", 0): "hello"}) for found in reader.turns()] == [trace(n) for n in (1, 2, 3)]


def test_a_replay_folder_travels_alone(tmp_path: Path) -> None:
    write_run([trace(1), trace(2)], tmp_path / "run")
    reader = TraceReader(tmp_path / "run")
    assert [looked_up(reader, found, {}) for found in reader.turns()] == [trace(1), trace(2)]
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *(f"{name}.parquet" for name in TABLES),
        "texts.parquet",
    }
    assert reader.trace("t2").turn == reader.trace_of_turn(KEY, 2).turn == 2


def test_two_runs_of_equal_traces_are_equal_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_run([trace(1), trace(2)], tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_wall_times_stand_in_one_field_only() -> None:
    quick, slow = trace(), trace(nodes=tuple(replace(run, duration_ms=99.0) for run in trace().nodes))

    def masked(line: bytes) -> Any:
        row = orjson.loads(line)
        for node in row["nodes"]:
            node["duration_ms"] = 0
        return row

    assert to_line(quick) != to_line(slow)
    assert masked(to_line(quick)) == masked(to_line(slow))


def test_a_row_written_again_is_the_same_bytes() -> None:
    line = to_line(trace())
    assert to_line(from_row(orjson.loads(line), "here")) == line


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.none() | st.integers(0, 2**40)
origins = st.builds(
    Origin,
    st.sampled_from(["entry", "bootstrap", "hook", "summary", "synthetic"]),
    st.none() | texts,
    st.none() | texts,
    st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.none() | texts,
    st.none() | texts,
    st.lists(texts, max_size=2).map(tuple),
)
plain_values = st.dictionaries(texts, st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts, max_size=3)
made_traces = st.builds(
    trace,
    facts=plain_values,
    started=st.integers(0, 10**15).map(lambda micros: START + timedelta(microseconds=micros)),
    decisions=st.lists(
        st.tuples(
            st.integers(0, 9),
            st.builds(
                Decision,
                texts,
                st.sampled_from(["kept", "cleared"]),
                texts,
                st.lists(texts, max_size=2).map(tuple),
                st.none() | texts,
                st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
                *(counts for _ in range(6)),
                data=plain_values,
            ),
        ),
        max_size=3,
    ).map(tuple),
    segments=st.lists(
        st.builds(
            Segment,
            st.sampled_from(["skill", "history message"]),
            texts,
            texts,
            st.integers(0, 99),
            origins,
            st.none() | texts,
            st.none() | st.integers(0, 9),
            st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)


@given(made_traces)
def test_json_and_tables_hold_the_same_row(made: TurnTrace) -> None:
    from stores.traces.tables import from_tables

    row = orjson.loads(to_line(made))
    records = {name: table.to_pylist() for name, table in to_tables([to_row(made)]).items()}
    assert from_tables(records) == [row]
    assert to_line(from_row(row, "here")) == to_line(made)


def test_only_what_no_transcript_holds_is_stored_and_only_once(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    store.append(trace(2))
    stored = {path.read_text() for path in (tmp_path / "blobs").iterdir()}
    assert stored == {SYSTEM.text, CUT.text, SUMMARY.text, FILE.text}


@pytest.mark.parametrize(("store_text", "count"), [("segments", 4), ("all", 5), ("none", 0)])
def test_store_text_says_which_texts_are_kept(tmp_path: Path, store_text: Any, count: int) -> None:
    TraceStore(tmp_path, store_text).append(trace())
    assert len(list((tmp_path / "blobs").glob("*"))) == count
    found = TraceReader(tmp_path).trace("t1").segments[0]
    assert (found.text, found.chars, found.tokens) == ("", len(SYSTEM.text), 9)


def test_a_text_that_is_gone_or_changed_is_missing(tmp_path: Path) -> None:
    TraceStore(tmp_path).append(trace())
    reader = TraceReader(tmp_path)
    system, history, *_ = reader.trace("t1").segments
    assert reader.segment_text(history) is None
    assert reader.segment_text(history, lambda entry, block: "hullo") is None
    assert reader.segment_text(history, lambda entry, block: "hello") == "hello"
    assert system.sha256
    (tmp_path / "blobs" / system.sha256).write_text("Be rude.")
    assert reader.segment_text(system) is None
    TraceStore(tmp_path).append(trace(2))  # the next turn with this text mends the blob: its size differs
    assert reader.segment_text(system) == SYSTEM.text


def test_an_empty_segment_needs_no_blob(tmp_path: Path) -> None:
    TraceStore(tmp_path).append(trace(segments=(replace(SYSTEM, text=""),)))
    reader = TraceReader(tmp_path)
    assert reader.segment_text(reader.trace("t1").segments[0]) == ""


def test_turns_come_oldest_first_and_the_limit_takes_the_newest(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    store.merge_finished_days(NEXT_DAY)
    store.append(trace(2, started=START + timedelta(days=1), session_key="agent:main:other"))
    store.append(trace(3, started=START + timedelta(days=2)))
    store.append(trace(4, agent_id="ann", session_key="agent:ann:main", started=START + timedelta(hours=1)))
    reader = TraceReader(tmp_path)

    def numbers(**chosen: Any) -> list[int]:
        return [found.turn for found in reader.turns(**chosen)]

    assert numbers() == [1, 4, 2, 3]
    assert numbers(limit=2) == [2, 3]
    assert numbers(session_key=KEY) == [1, 3]
    assert numbers(session_key=KEY, limit=1) == [3]
    assert numbers(agent="ann") == [4]
    assert numbers(agent="nobody") == []


def test_the_newest_trace_of_a_turn_is_taken(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1, facts={"error": "interrupted"}))
    store.append(trace(1, trace_id="again", started=START + timedelta(hours=1)))
    assert TraceReader(tmp_path).trace_of_turn(KEY, 1).trace_id == "again"
    with pytest.raises(NotFound):
        TraceReader(tmp_path).trace_of_turn(KEY, 2)
    with pytest.raises(NotFound):
        TraceReader(tmp_path).trace("t9")


def test_an_empty_or_absent_store_has_no_turns(tmp_path: Path) -> None:
    assert TraceReader(tmp_path / "none").turns() == []
    assert not (tmp_path / "none").exists()


def test_a_half_written_line_spoils_only_itself(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    path = tmp_path / "open" / "main" / f"{DAY}.jsonl"
    with path.open("ab") as file:
        file.write(to_line(trace(2))[:200])
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1]
    store.append(trace(3))
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 3]
    store.merge_finished_days(NEXT_DAY)
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 3]


def test_a_trace_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "open").write_text("in the way")
    TraceStore(tmp_path).append(trace())
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    caplog.clear()
    TraceStore(tmp_path / "other").append(trace(facts={"odd": object()}))
    assert len(caplog.records) == 1


def test_without_traces_nothing_is_written(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces", None)
    spool = store.spool("t1", {})
    spool.write("node_start", {})
    spool.close()
    store.append(trace())
    assert not (tmp_path / "traces").exists()


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace())
    path = tmp_path / "open" / "main" / f"{DAY}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":2'))
    with pytest.raises(StoreError, match=r"\.jsonl has trace schema 2, this program reads up to 1"):
        TraceReader(tmp_path).turns()
    with pytest.raises(StoreError, match="schema 2"):
        store.merge_finished_days(NEXT_DAY)
    with pytest.raises(StoreError, match="schema 2"):
        store.sweep(None, START + timedelta(days=900))
    assert list((tmp_path / "blobs").iterdir())


def test_a_newer_parquet_schema_is_refused_and_an_older_one_is_read(tmp_path: Path) -> None:
    from pyarrow import parquet

    write_run([trace()], tmp_path)
    path = tmp_path / "turns.parquet"
    table = parquet.read_table(path)
    older = table.drop_columns(["flushes"]).replace_schema_metadata({b"turngraph.trace.schema": b"0"})
    parquet.write_table(older, path)
    assert TraceReader(tmp_path).trace("t1").facts == trace().facts
    parquet.write_table(table.replace_schema_metadata({b"turngraph.trace.schema": b"7"}), path)
    with pytest.raises(StoreError, match=r"turns\.parquet has trace schema 7"):
        TraceReader(tmp_path).turns()


def test_a_damaged_day_is_one_warning_and_is_set_aside_by_the_next_merge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    store.merge_finished_days(NEXT_DAY)
    damaged = store.merged.path("turns", "main", DAY)
    damaged.write_bytes(b"PAR1 not really")
    assert TraceReader(tmp_path).turns() == []
    assert "can be deleted" in caplog.text
    store.append(trace(2))
    store.merge_finished_days(NEXT_DAY)
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [2]
    assert damaged.with_name("part.parquet.damaged").exists()


def test_a_late_turn_joins_its_merged_day(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(2))
    store.merge_finished_days(NEXT_DAY)
    store.append(trace(1))
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 2]
    (merged,) = store.merge_finished_days(NEXT_DAY)
    assert (merged.traces, merged.added) == (2, 1)
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 2]
    assert store.merge_finished_days(NEXT_DAY) == []


def test_today_stays_open(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace())
    assert store.merge_finished_days(DAY) == []
    assert (tmp_path / "open" / "main" / f"{DAY}.jsonl").exists()


def test_a_trace_that_stands_in_both_places_is_read_once(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    path = tmp_path / "open" / "main" / f"{DAY}.jsonl"
    line = path.read_bytes()
    store.merge_finished_days(NEXT_DAY)
    path.with_name(f"{path.name}.merging").write_bytes(line)  # killed before the taken file was removed
    path.write_bytes(line + to_line(trace(2)))
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 2]
    store.merge_finished_days(NEXT_DAY)
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 2]
    assert not list((tmp_path / "open").rglob("*.jsonl*"))


def test_columns_keep_their_types_when_all_are_null(tmp_path: Path) -> None:
    write_run([trace(nodes=(NodeRun(0, "x", START, 1.0),), facts={})], tmp_path)
    from pyarrow import parquet

    assert str(parquet.read_schema(tmp_path / "nodes.parquet").field("tokens_in").type) == "int64"
    assert read_table(tmp_path / "turns.parquet")[0]["model"] is None


def test_a_merged_day_reads_as_a_partitioned_data_set(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    store = TraceStore(tmp_path)
    store.append(trace(1))
    store.append(trace(2, agent_id="ann"))
    store.merge_finished_days(NEXT_DAY)
    rows = duckdb.sql(
        f"SELECT agent, CAST(day AS VARCHAR), node, count(*) FROM read_parquet("
        f"'{tmp_path}/merged/nodes/**/*.parquet', hive_partitioning = true) "
        "WHERE node = 'budget' GROUP BY ALL ORDER BY 1"
    ).fetchall()
    assert rows == [("ann", str(DAY), "budget", 1), ("main", str(DAY), "budget", 1)]


def header(number: int = 1) -> dict[str, Any]:
    return {"agent": "main", "session_key": KEY, "started": (START + timedelta(minutes=number)).isoformat()}


def test_a_spool_can_be_followed_and_goes_when_the_turn_is_over(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    spool = store.spool("t1", header())
    spool.write("node_start", {"type": "node_start", "node": "prune", "ordinal": 0})
    (seen,) = spools(tmp_path / "live")
    assert (seen.trace_id, seen.header["pid"], seen.is_dead) == ("t1", os.getpid(), False)
    assert seen.events == ({"event": "node_start", "type": "node_start", "node": "prune", "ordinal": 0},)
    assert store.adopt_dead_spools() == []
    spool.close()
    assert spools(tmp_path / "live") == []


def test_an_event_that_json_does_not_have_does_not_end_the_turn(tmp_path: Path) -> None:
    spool = TraceStore(tmp_path).spool("t1", header())
    spool.write("odd", {"value": Origin("hook"), "other": object()})
    spool.write("next", {})
    (seen,) = spools(tmp_path / "live")
    spool.close()
    assert [event["event"] for event in seen.events] == ["odd", "next"]


def test_a_spool_that_cannot_be_opened_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "live").write_text("in the way")
    spool = TraceStore(tmp_path).spool("t1", header())
    spool.write("x", {})
    spool.close()
    assert len(caplog.records) <= 2
    assert "cannot be followed" in caplog.records[0].message


SPOOLING = """
import sys, time
from pathlib import Path
from stores.traces import TraceStore
spool = TraceStore(Path(sys.argv[1])).spool("t1", {
    "agent": "main", "session_key": "agent:main:main", "started": "2026-03-16T09:41:00+00:00"})
spool.write("node_start", {"node": "load_history", "ordinal": 0})
spool.write("node_end", {"node": "load_history", "ordinal": 0, "ms": 2.5, "error": None})
spool.write("node_start", {"node": "prompt", "ordinal": 1})
print("ready", flush=True)
time.sleep(60)
"""


def killed_turn(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SPOOLING, str(root)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.kill()


def test_the_spool_of_a_killed_turn_becomes_an_interrupted_trace(tmp_path: Path) -> None:
    killed_turn(tmp_path)
    path = tmp_path / "live" / "t1.jsonl"
    with path.open("ab") as file:
        file.write(b'{"event": "node_')
    (adopted,) = TraceStore(tmp_path).adopt_dead_spools()
    found = TraceReader(tmp_path).trace("t1")
    assert found == adopted
    assert (found.facts["error"], found.session_key, found.started.minute) == ("interrupted", KEY, 41)
    assert [(run.node, run.duration_ms, run.error) for run in found.nodes] == [
        ("load_history", 2.5, None),
        ("prompt", 0.0, "interrupted"),
    ]
    assert not path.exists()
    assert TraceStore(tmp_path).adopt_dead_spools() == []


@pytest.mark.parametrize("merged", [False, True])
def test_a_turn_killed_after_its_trace_was_safe_keeps_that_trace(tmp_path: Path, merged: bool) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    if merged:
        store.merge_finished_days(NEXT_DAY)
    killed_turn(tmp_path)
    assert store.adopt_dead_spools() == []
    assert TraceReader(tmp_path).trace("t1").facts == trace(1).facts
    assert spools(tmp_path / "live") == []


def test_a_spool_without_a_whole_header_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    path = tmp_path / "live" / "t1.jsonl"
    path.write_bytes(b'{"version":1,"tra')
    assert read_spool(path) is None
    assert TraceStore(tmp_path).adopt_dead_spools() == []
    assert path.exists()


def age(path: Path, at: datetime) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


def test_a_sweep_removes_old_days_then_the_blobs_that_no_row_names(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1, segments=(SYSTEM, FILE)))
    store.merge_finished_days(NEXT_DAY)
    store.append(trace(2, started=START + timedelta(days=1), segments=(CUT,)))
    store.append(trace(3, started=START + timedelta(days=60), segments=(FILE,)))
    for blob in (tmp_path / "blobs").iterdir():
        age(blob, START)
    now = START + timedelta(days=62)

    planned = store.sweep(timedelta(days=30), now, dry_run=True)
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [1, 2, 3]
    swept = store.sweep(timedelta(days=30), now)
    assert swept == planned
    assert (len(swept.days), len(swept.blobs), swept.spools) == (5, 2, ())
    assert swept.freed_bytes > 0
    assert [found.turn for found in TraceReader(tmp_path).turns()] == [3]
    assert [path.read_text() for path in (tmp_path / "blobs").iterdir()] == [FILE.text]
    assert store.sweep(timedelta(days=30), now) == type(swept)((), (), (), 0)


def test_a_dry_sweep_writes_nothing(tmp_path: Path) -> None:
    TraceStore(tmp_path / "traces").sweep(timedelta(days=1), START, dry_run=True)
    assert list(tmp_path.iterdir()) == []


def test_a_day_stays_until_all_of_it_is_too_old(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1))
    end_of_day = datetime(2026, 3, 17, tzinfo=UTC)
    assert store.sweep(timedelta(days=1), end_of_day + timedelta(hours=23)).days == ()
    assert store.sweep(timedelta(days=1), end_of_day + timedelta(days=1)).days != ()


def test_without_a_retention_only_blobs_without_a_row_go(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.append(trace(1, segments=(SYSTEM,)))
    stray = tmp_path / "blobs" / ("0" * 64)
    stray.write_text("nobody's")
    far = datetime(2126, 1, 1, tzinfo=UTC)
    assert store.sweep(None, far).blobs == (stray,)
    assert len(TraceReader(tmp_path).turns()) == 1


def test_a_young_blob_may_belong_to_a_turn_that_is_just_ending(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.blobs.put([SYSTEM])
    assert store.sweep(timedelta(days=1), datetime.now(UTC)).blobs == ()


def test_a_blob_that_is_used_again_is_young_again(tmp_path: Path) -> None:
    store = TraceStore(tmp_path)
    store.blobs.put([SYSTEM])
    (blob,) = (tmp_path / "blobs").iterdir()
    age(blob, START)
    store.blobs.put([SYSTEM])
    assert time.time() - blob.stat().st_mtime < 60


def test_the_spool_of_a_dead_turn_goes_with_the_retention(tmp_path: Path) -> None:
    killed_turn(tmp_path)
    path = tmp_path / "live" / "t1.jsonl"
    age(path, START)
    assert TraceStore(tmp_path).sweep(timedelta(days=30), START + timedelta(days=31)).spools == (path,)
    assert not path.exists()


def test_days_are_those_of_utc(tmp_path: Path) -> None:
    late = datetime.fromisoformat("2026-03-16T23:30:00-05:00")
    TraceStore(tmp_path).append(trace(1, started=late))
    assert (tmp_path / "open" / "main" / "2026-03-17.jsonl").exists()
    assert TraceReader(tmp_path).trace("t1").started == late


def test_a_turn_does_not_import_pyarrow(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from stores.traces import TraceReader, TraceStore, write_run\n"
        "from tests.stores.test_traces import trace\n"
        "TraceStore(Path(sys.argv[1])).append(trace()); TraceReader(Path(sys.argv[1])).turns()\n"
        "assert 'pyarrow' not in sys.modules and 'duckdb' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=env)


def test_a_date_is_no_name_of_another_form() -> None:
    from stores.traces.open_days import parse_day

    assert parse_day("2026-03-16") == date(2026, 3, 16)
    assert [parse_day(text) for text in ("20260316", "2026-W12-1", "open", "")] == [None] * 4
