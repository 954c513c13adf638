from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.session_entries import find_entry, parse_store, store_text
from stores.sessions import SessionStore
from turngraph.clock import DerivedIds, FixedClock, to_ms
from turngraph.errors import NotFound

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
MAIN = "agent:main:main"
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions.json", "main", FixedClock(NOW), DerivedIds("test"))


def transcript(folder: Path, session_id: str, *, key: str | None = None, age_s: int = 0) -> None:
    header: dict[str, Any] = {
        "type": "session",
        "version": 3,
        "id": session_id,
        "timestamp": "2026-03-01T00:00:00.000Z",
    }
    if key:
        header["turngraph"] = {"sessionKey": key}
    path = folder / f"{session_id}.jsonl"
    path.write_text(json.dumps(header) + "\n")
    at = NOW.timestamp() - age_s
    os.utime(path, (at, at))


def test_an_entry_is_laid_over_what_is_stored_and_unknown_fields_stay(store: SessionStore) -> None:
    store.path.write_text(json.dumps({MAIN: {"sessionId": "s1", "updatedAt": 5, "fromTheFuture": {"a": [1, None]}}}))
    store.update(MAIN, {"label": "日本語 👩‍👩‍👧"})
    entry = json.loads(store.path.read_text())[MAIN]
    assert entry == {
        "sessionId": "s1",
        "updatedAt": to_ms(NOW),
        "fromTheFuture": {"a": [1, None]},
        "label": "日本語 👩‍👩‍👧",
    }


def test_bookkeeping_does_not_count_as_activity(store: SessionStore) -> None:
    store.update(MAIN, {"sessionId": "s1", "updatedAt": 7}, touch=False)
    assert store.update(MAIN, {"totalTokens": 3}, touch=False)["updatedAt"] == 7


def test_the_file_looks_as_javascript_writes_it(store: SessionStore) -> None:
    store.update(MAIN, {"sessionId": "s1", "label": "é"})
    text = store.path.read_text()
    assert text.startswith('{\n  "agent:main:main": {\n    "sessionId": "s1",\n    "label": "é"')
    assert text.endswith("\n  }\n}")
    assert store.path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in store.folder.iterdir()] == ["sessions.json"]


def test_nothing_is_written_when_nothing_changed(store: SessionStore) -> None:
    store.update(MAIN, {"sessionId": "s1"})
    before = store.path.stat().st_mtime_ns
    with store.transaction():
        pass
    assert store.path.stat().st_mtime_ns == before


def test_reading_writes_nothing(store: SessionStore) -> None:
    transcript(store.folder, "s1")
    store.path.write_text("{")
    before = sorted((path.name, path.read_bytes()) for path in store.folder.iterdir())
    store.read()
    store.find(MAIN)
    assert sorted((path.name, path.read_bytes()) for path in store.folder.iterdir()) == before


def test_a_block_that_fails_changes_nothing(store: SessionStore) -> None:
    store.update(MAIN, {"sessionId": "s1"})
    with pytest.raises(RuntimeError, match="half way"), store.transaction() as entries:
        entries.clear()
        raise RuntimeError("half way")
    assert store.get(MAIN)["sessionId"] == "s1"


def test_other_spellings_of_a_key_go_with_the_next_write(store: SessionStore) -> None:
    store.path.write_text(
        json.dumps(
            {MAIN: {"sessionId": "old", "updatedAt": 5}, "Agent:Main:MAIN": {"sessionId": "new", "updatedAt": 9}}
        )
    )
    assert store.get("AGENT:main:main")["sessionId"] == "new"
    store.update(MAIN, {"label": "x"})
    assert list(store.entries()) == [MAIN]


def test_an_unknown_key_is_an_empty_entry_or_an_error(store: SessionStore) -> None:
    assert store.get("agent:main:x") == {}
    with pytest.raises(NotFound, match="sessions list"):
        store.require("agent:main:x")


@pytest.mark.parametrize("content", ["", "   \n", '{"agent:main:main": {"sessionId": "s', "[1, 2]", '{"a": NaN}'])
def test_a_damaged_table_is_rebuilt_from_the_transcripts_beside_it(
    store: SessionStore, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    transcript(store.folder, "s1", key=MAIN)
    transcript(store.folder, "s2")
    transcript(store.folder, "s3-topic-9")
    store.path.write_text(content)
    with caplog.at_level(logging.WARNING):
        entries = store.entries()
        store.entries()
    assert len(caplog.records) == 1
    assert {entry["sessionId"] for entry in entries.values()} == {"s1", "s2", "s3"}
    assert entries[MAIN]["sessionStartedAt"] == to_ms(datetime(2026, 3, 1, tzinfo=UTC))
    assert entries["agent:main:session:s3:topic:9"]["sessionFile"] == "s3-topic-9.jsonl"
    assert store.path.read_text() == content


def test_the_damaged_file_is_kept_under_another_name_at_the_first_write(store: SessionStore) -> None:
    transcript(store.folder, "s1", key=MAIN)
    store.path.write_text("{")
    store.update(MAIN, {"label": "x"})
    kept = store.folder / "sessions.json.corrupt.2026-03-16T09-40-00.000Z"
    assert kept.read_text() == "{"
    assert store.read().problem is None
    assert store.get(MAIN)["sessionId"] == "s1"


def test_the_newest_readable_backup_comes_before_the_transcripts(store: SessionStore) -> None:
    transcript(store.folder, "s9")
    store.path.write_text("")
    for stamp, text in ((1, '{"a": {"sessionId": "old"}}'), (2, '{"a": {"sessionId": "new"}}'), (3, "{")):
        (store.folder / f"sessions.json.bak.177366240000{stamp}").write_text(text)
    assert store.get("a")["sessionId"] == "new"
    assert "sessions.json.bak.1773662400002" in str(store.read().problem)


def test_of_two_transcripts_that_name_one_key_the_newer_one_has_it(store: SessionStore) -> None:
    transcript(store.folder, "old", key=MAIN, age_s=100)
    transcript(store.folder, "new", key=MAIN)
    store.path.write_text("")
    assert store.get(MAIN)["sessionId"] == "new"
    assert store.get("agent:main:session:old")["sessionId"] == "old"


def test_derived_skill_data_goes_and_routing_stays(store: SessionStore) -> None:
    snapshot = {"prompt": "p", "resolvedSkills": ["x" * 40_000]}
    route = {"lastChannel": "telegram", "lastTo": "42", "deliveryContext": {"channel": "telegram"}}
    entries = {f"agent:main:s{n}": {"sessionId": f"s{n}", "skillsSnapshot": snapshot, **route} for n in range(200)}
    store.path.write_bytes(store_text(entries))
    store.update("agent:main:s0", {"label": "x"})
    assert store.path.stat().st_size < 400_000
    assert all(entry["lastTo"] == "42" for entry in store.entries().values())
    assert store.get("agent:main:s7")["skillsSnapshot"] == {"prompt": "p"}


def test_fields_of_older_releases_are_read_under_their_present_names(store: SessionStore) -> None:
    store.path.write_text('{"a": {"sessionId": "s", "provider": "telegram", "room": "r"}, "b": 7}')
    assert store.entries() == {"a": {"sessionId": "s", "channel": "telegram", "groupChannel": "r"}}


def test_listing_a_thousand_entries_takes_less_than_a_fifth_of_a_second(store: SessionStore) -> None:
    entry = {"sessionId": "x" * 36, "updatedAt": 1, "deliveryContext": {"channel": "telegram", "to": "42"}}
    facts = {f"field{n}": n for n in range(30)}
    store.path.write_bytes(store_text({f"agent:main:telegram:direct:{n}": {**entry, **facts} for n in range(1_000)}))
    started = time.perf_counter()
    assert len(store.entries()) == 1_000
    assert time.perf_counter() - started < 0.2


def test_half_a_surrogate_pair_survives_a_rewrite() -> None:
    data = b'{\n  "a": {\n    "label": "\\ud800x"\n  }\n}'
    entries = parse_store(data)
    assert entries is not None
    assert store_text(entries) == data


def test_a_turn_holds_the_transcript_until_it_ends(store: SessionStore) -> None:
    import asyncio

    path = store.folder / "s1.jsonl"
    lock = store.folder / "s1.jsonl.lock"

    async def turn() -> None:
        async with store.turn(MAIN, timeout_ms=0):
            assert store.is_running(MAIN)
            store.hold_transcript(MAIN, path, timeout_ms=0)
            store.hold_transcript(MAIN, path, timeout_ms=0)
            assert lock.exists()
        assert not lock.exists()
        assert not store.is_running(MAIN)

    asyncio.run(turn())


WRITER = """
    import sys
    from pathlib import Path
    from stores.sessions import SessionStore
    store = SessionStore(Path(sys.argv[1]))
    for n in range(int(sys.argv[3])):
        store.update(f"agent:main:{sys.argv[2]}{n}", {"label": "x" * 2000})
"""


def writer(store: SessionStore, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(store.path), name, str(count)], cwd=REPOSITORY
    )


def test_two_processes_that_write_lose_nothing(store: SessionStore) -> None:
    both = [writer(store, name, 20) for name in "ab"]
    assert [process.wait() for process in both] == [0, 0]
    assert len(store.entries()) == 40
    assert [path.name for path in store.folder.iterdir()] == ["sessions.json"]


@pytest.mark.slow
def test_a_killed_writer_leaves_the_old_or_the_new_table(store: SessionStore) -> None:
    store.update(MAIN, {"sessionId": "s1", "label": "y" * 100_000})
    for n in range(20):
        process = writer(store, f"k{n}-", 10_000)
        time.sleep(0.15 + n * 0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        loaded = store.read()
        assert loaded.problem is None
        assert loaded.entries[MAIN]["sessionId"] == "s1"


KEYS = st.sampled_from([MAIN, "Agent:Main:MAIN", "agent:main:日本語", "global", "x"])
VALUES: st.SearchStrategy[object] = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=9) | st.just([{}, []])
)
TABLES = st.dictionaries(KEYS, st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=4)


@given(TABLES)
def test_what_is_written_reads_back(table: dict[str, dict[str, Any]]) -> None:
    assert parse_store(store_text(table)) == table


@given(TABLES, KEYS)
def test_a_lookup_gives_an_entry_of_the_table_or_none(table: dict[str, dict[str, Any]], key: str) -> None:
    found = find_entry(table, key)
    assert found.entry is None or any(entry is found.entry for entry in table.values())
    assert found.key not in found.legacy_keys
