"""What breaks an index from outside: killed writers, damaged files, a full disk, two writers, vanishing files."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from stores.memory import files, sync
from stores.memory.index import MemoryIndex
from stores.memory.reading import Sizes, Wanted
from tests.stores.memory.conftest import Notes
from turngraph.errors import StoreError

Paths = Callable[..., list[str]]
ROOT = Path(__file__).parents[3]

WRITER = """
import sys
from pathlib import Path
from stores.home import Home
from stores.memory.index import MemoryIndex
from turngraph.config import default_settings
root, force = Path(sys.argv[1]), sys.argv[2] == "force"
settings = default_settings()
search = settings.memory_search.model_copy(update={"provider": "none"})
settings = settings.model_copy(update={"memory_search": search})
index = MemoryIndex.open(Home(root), "main", settings, cache_dir=root / "cache")
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    for number in range(12):
        (root / f"workspace/memory/{number}.md").write_text(f"note {number} turn {turn} " + "words " * 300)
    index.sync(force=force)
    print(turn, flush=True)
"""


def _start(notes: Notes, kind: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, str(notes.root), kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _kill_somewhere(notes: Notes, kind: str, chance: random.Random) -> None:
    process = _start(notes, kind)
    time.sleep(chance.uniform(0.01, 0.35))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _opens_or_is_rebuilt(index: MemoryIndex) -> None:
    report = index.sync()
    status = index.status()
    assert (status.files, status.on_disk, status.is_clean) == (12, 12, True), report
    # A kill in the middle of write_text leaves an empty note, which has nothing to find.
    written = {f"memory/{n}.md" for n in range(12) if (index.places.disk.workspace / f"memory/{n}.md").read_text()}
    assert {hit.path for hit in index.search("note first", max_results=50).hits} == written
    index.close()


@pytest.mark.parametrize("kind", ["sync", "force"])
def test_a_killed_writer_leaves_an_index_that_opens_or_is_rebuilt(notes: Notes, kind: str) -> None:
    chance = random.Random(kind)
    for number in range(12):
        notes.write(f"memory/{number}.md", "first")
    for _ in range(2):
        _kill_somewhere(notes, kind, chance)
        _opens_or_is_rebuilt(notes.index())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sync", "force"])
def test_fifty_killed_writers(notes: Notes, kind: str) -> None:
    chance = random.Random(f"fifty {kind}")
    for number in range(12):
        notes.write(f"memory/{number}.md", "first")
    for _ in range(50):
        _kill_somewhere(notes, kind, chance)
        _opens_or_is_rebuilt(notes.index())


@pytest.mark.parametrize("damage", ["garbage", "truncated", "empty", "header"])
def test_a_damaged_index_is_moved_aside_and_rebuilt(notes: Notes, paths_of: Paths, damage: str) -> None:
    notes.write("memory/a.md", "apples")
    index = notes.index()
    index.sync()
    index.close()
    file = index.places.index
    data = file.read_bytes()
    broken = {
        "garbage": b"this is no index" * 1000,
        "truncated": data[: len(data) // 3],
        "empty": b"",
        "header": b"\0" * 8192 + data[8192:],
    }[damage]
    file.write_bytes(broken)
    again = notes.index()
    assert paths_of(again, "apples") == ["memory/a.md"]
    assert again.status().is_clean


def test_an_index_of_another_version_is_kept_and_rebuilt(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/a.md", "apples")
    index = notes.index()
    index.sync()
    with index.database.write() as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE key = 'schema'")
    index.close()
    report = index.sync()
    assert report.rebuilt is not None
    assert "could not be used" in report.rebuilt
    assert list(index.places.index.parent.glob("*.damaged-*"))
    assert paths_of(index, "apples") == ["memory/a.md"]


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk_is_said_and_leaves_the_index_usable(notes: Notes, paths_of: Paths) -> None:
    notes.write("memory/a.md", "apples")
    small = notes.root / "memory"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(small)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        index = notes.index()
        index.sync()
        chance = random.Random(1)
        for number in range(60):
            words = " ".join(f"w{chance.getrandbits(40):x}" for _ in range(6_000))
            notes.write(f"memory/{number}.md", words)
        with pytest.raises(StoreError, match="disk is full"):
            for _ in range(3):
                index.sync()
        index.close()
        assert "memory/a.md" in paths_of(index, "apples", refresh=False)
        index.close()
    finally:
        subprocess.run(["umount", str(small)], check=False)


def test_two_writers_and_a_reader_get_along(notes: Notes) -> None:
    for number in range(12):
        notes.write(f"memory/{number}.md", "first")
    writers = [_start(notes, "sync") for _ in range(2)]
    reader = notes.index()
    try:
        until = time.monotonic() + 2
        answered = 0
        while time.monotonic() < until:
            result = reader.search("note", refresh=False)
            answered += bool(result.hits)
    finally:
        for writer in writers:
            with suppress(ProcessLookupError):
                writer.kill()
            writer.wait()
            assert writer.stdout is not None
            writer.stdout.close()
    assert answered > 0
    _opens_or_is_rebuilt(reader)


def test_a_file_that_vanishes_after_it_was_listed_is_left_out(notes: Notes) -> None:
    for name in ("a", "b"):
        notes.write(f"memory/{name}.md", name)
    listing = files.list_memory_files(notes.workspace)
    (notes.workspace / "memory/a.md").unlink()
    index = notes.index()
    index.sync()
    plan = sync.SyncPlan(tuple(Wanted("memory", file) for file in listing.files.values()), (), (), 0)
    problems: list[str] = []
    report = sync.apply_plan(index.database.write, plan, Sizes(400, 80), problems)
    assert report.added == 1
    assert problems == []
    assert index.status().files == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read_is_reported(notes: Notes) -> None:
    notes.write("memory/a.md", "apples").chmod(0)
    report = notes.index().sync()
    assert report.problems


# What is registered first is called last.
ENDS_BEHIND_A_SEARCH = """
import atexit, sys
from pathlib import Path
atexit.register(lambda: print(database._reader))
from stores.memory.database import Database

database = Database(Path(sys.argv[1]))
with database.write() as connection:
    connection.execute("SELECT 1")
with database.read() as connection:
    connection.execute("SELECT 1")
assert database._reader is not None
"""


def test_a_process_that_ends_behind_a_search_leaves_no_reader_open(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENDS_BEHIND_A_SEARCH, str(tmp_path / "index.duckdb")]
    told = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert told.stdout == "None\n"
