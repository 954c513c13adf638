"""Replay speed: turns a second on a recorded session, and how the time grows with its length.

    python benchmarks/replay.py [TRANSCRIPT]

Without a transcript, or where it is absent, the longest sample session is replayed. Processor time is what counts on
a machine that has other work; the process is warm (imports, token ranks, compiled graph).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet  # noqa: F401 - so that no figure holds its import

from graphs.turn import turn_graph
from stores.traces.run_folder import write_run
from turngraph.clock import SystemClock
from turngraph.config import default_settings
from turngraph.replay.driver import replay_session
from turngraph.replay.run import replay_file
from turngraph.replay.samples import sample_sessions, write_sample_home
from turngraph.replay.source import RecordedSession, read_session
from turngraph.tokens import default_counter
from turngraph.viewer.sources import TurnSource
from turngraph.viewer.turn_data import PageRules

REAL = Path("../shared/data/transcripts/coding-session-v1.jsonl")
SHARES = (0.25, 0.5, 1.0)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        path = _transcript(work)
        session = read_session(path, SystemClock())
        turn_graph()
        default_counter().text("warm")
        print(f"{path.name}: {len(session.turns)} turns")
        for share in SHARES:
            _length(session, max(1, round(len(session.turns) * share)), work / f"{share}")
        _with_traces(path, work / "written")


def _transcript(work: Path) -> Path:
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else REAL
    if given.is_file():
        return given
    print(f"{given} is absent; the longest sample session takes its place")
    write_sample_home(work / "home")
    folder = work / "home/agents/main/sessions"
    return max((folder / sample.file for sample in sample_sessions(work / "home")), key=lambda p: p.stat().st_size)


def _length(session: RecordedSession, count: int, work: Path) -> None:
    part = RecordedSession(session.path, session.session_id, session.turns[:count], ())
    started, wall = time.process_time(), time.perf_counter()
    turns = replay_session(part, work, default_settings())
    seconds, waited = time.process_time() - started, time.perf_counter() - wall
    calls = sum(len(turn.calls) for turn in turns)
    print(
        f"  {count:4d} turns, {calls:4d} calls: {seconds:6.2f} s processor, {waited:6.2f} s wall, "
        f"{count / seconds:6.1f} turns/s, {1000 * seconds / max(1, calls):5.1f} ms a call"
    )


def _with_traces(path: Path, work: Path) -> None:
    started = time.process_time()
    turns = replay_session(read_session(path, SystemClock()), work / "home", default_settings())
    write_run([turn.trace for turn in turns], work / "traces")
    print(f"  with traces written: {time.process_time() - started:.2f} s processor")
    out = work / "out"
    started = time.process_time()
    replay_file(path, default_settings(), out=out)
    print(f"  with traces, cost, cache and survival: {time.process_time() - started:.2f} s processor")
    source = TurnSource.of_folder(out)
    key = source.reader.turns(limit=1)[0].session_key
    _report("one turn", lambda: source.report(key, None, PageRules()))
    _report("one turn, redacted", lambda: source.report(key, None, PageRules(redact=True)))
    _report("all turns", lambda: source.report_of_all(key, PageRules()))


def _report(name: str, make: Callable[[], str]) -> None:
    started = time.process_time()
    size = len(make().encode("utf-8", "replace"))
    print(f"  report of {name}: {size / 1000:,.0f} kB in {time.process_time() - started:.2f} s")


if __name__ == "__main__":
    main()
