from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.archives import archive_file, archive_stamp, artifact, expired_archives, files_in, parse_stamp, remove_files

NOW = datetime(2026, 3, 16, 9, 40, tzinfo=UTC)
MONTH = timedelta(days=30)


def stamped(name: str, reason: str, days_ago: int) -> str:
    return f"{name}.{reason}.{archive_stamp(NOW - timedelta(days=days_ago))}"


def test_two_archives_of_one_millisecond_get_two_names(tmp_path: Path) -> None:
    names = []
    for text in ("first", "second"):
        path = tmp_path / "a.jsonl"
        path.write_text(text)
        names.append(archive_file(path, "reset", NOW).name)
    assert names == ["a.jsonl.reset.2026-03-16T09-40-00.000Z", "a.jsonl.reset.2026-03-16T09-40-00.001Z"]
    assert (tmp_path / names[0]).read_text() == "first"


def test_archiving_a_missing_file_fails_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        archive_file(tmp_path / "a.jsonl", "reset", NOW)
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_takes_what_is_past_its_retention_and_nothing_else(tmp_path: Path) -> None:
    old = [stamped("a.jsonl", "reset", 40), stamped("b.jsonl", "deleted", 40), stamped("sessions.json", "corrupt", 40)]
    kept = [
        stamped("a.jsonl", "reset", 5),
        stamped("b.jsonl", "deleted", 5),
        "d.jsonl.reset.garbage",
        "live.jsonl",
        "notes.txt",
        "sessions.json",
    ]
    for name in (*old, *kept):
        (tmp_path / name).write_bytes(b"12345")
    found = expired_archives(tmp_path, NOW, resets=MONTH, leftovers=MONTH)
    assert sorted(item.name for item in found) == sorted(old)
    assert {item.bytes for item in found} == {5}
    assert sorted(remove_files(tmp_path, [item.name for item in found])) == sorted(old)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_temporary_files_go_by_the_time_of_their_last_change(tmp_path: Path) -> None:
    for name, days in (("sessions.json.0b9d.tmp", 40), ("x.jsonl.repair-12-99.tmp", 40), ("sessions.json.1.tmp", 5)):
        (tmp_path / name).touch()
        changed = (NOW - timedelta(days=days)).timestamp()
        os.utime(tmp_path / name, (changed, changed))
    found = expired_archives(tmp_path, NOW, resets=MONTH, leftovers=MONTH)
    assert [item.name for item in found] == ["sessions.json.0b9d.tmp", "x.jsonl.repair-12-99.tmp"]


def test_no_retention_keeps_everything(tmp_path: Path) -> None:
    (tmp_path / stamped("a.jsonl", "reset", 400)).touch()
    (tmp_path / stamped("a.jsonl", "deleted", 400)).touch()
    assert expired_archives(tmp_path, NOW, resets=None, leftovers=None) == []


def test_exactly_at_its_retention_an_archive_stays(tmp_path: Path) -> None:
    (tmp_path / stamped("a.jsonl", "reset", 30)).touch()
    assert expired_archives(tmp_path, NOW, resets=MONTH, leftovers=MONTH) == []


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9000, 1, 1)))  # noqa: DTZ001
def test_a_stamp_reads_back_to_the_millisecond(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    read = parse_stamp(archive_stamp(aware))
    assert read == aware.replace(microsecond=aware.microsecond // 1000 * 1000)
    assert artifact(f"会话.jsonl.reset.{archive_stamp(aware)}").session_id == "会话"


def test_a_file_that_goes_while_a_folder_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stays", "goes"):
        (tmp_path / name).write_text("x")
    listed = os.scandir

    class Listing:
        """A listing beside which another process removes a file."""

        def __init__(self, folder: Path) -> None:
            self.entries = listed(folder)

        def __enter__(self) -> Listing:
            return self

        def __exit__(self, *_: object) -> None:
            self.entries.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            for entry in self.entries:
                if entry.name == "goes":
                    Path(entry.path).unlink()
                yield entry

    monkeypatch.setattr("stores.archives.os.scandir", Listing)
    assert [name for name, _ in files_in(tmp_path)] == ["stays"]
    assert not (tmp_path / "goes").exists()
