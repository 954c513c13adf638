"""Measure opening a transcript: time to open and build the context, and peak memory.

    python -m benchmarks.transcripts [--entries 1000 10000 76000 100000] [--runs 7] [--json FILE]

Every file has the same visible tail of 500 messages behind a compaction; what differs is the history before it.
76,000 entries make a file of 100 MB. Wall time is what a user waits; the CPU time is what a busy machine leaves of it.
Each figure comes from a process of its own: the fastest of the runs, and the peak resident memory above that of
the interpreter with the modules loaded. Files are made from a seed and deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stores.transcript_entries import dump_line
from stores.transcript_view import OWN_FIELD
from stores.transcripts import Transcript
from turngraph.clock import RandomIds, SystemClock, iso_ms, to_ms

VISIBLE_MESSAGES = 500
START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
WORDS = tuple(
    "the build fails because module settings reads environment before tests patch it 我们 需要 检查 配置 "  # noqa: SIM905
    "please run again with verbose output and tell which file changed since yesterday return value error at".split()
)


def generate(path: Path, entries: int, *, seed: int = 7, compacted: bool = True, carried: bool = True) -> None:
    """Write a coding session of about 1 kB a line: questions, tool calls with results, answers.

    Args:
        path: the file.
        entries: lines without the header.
        seed: makes the same file again.
        compacted: put a compaction before the last ``VISIBLE_MESSAGES`` messages.
        carried: let the compaction carry the settings, as ours do; others do not.
    """
    source = random.Random(seed)
    with path.open("wb") as file:
        header = {"type": "session", "version": 3, "id": f"bench-{seed}", "timestamp": iso_ms(START), "cwd": "/work"}
        file.write(dump_line(header))
        parent: str | None = None
        messages = _messages(source)
        kept: str | None = None
        for number in range(entries):
            own = f"{number * 2_654_435_761 % 2**32:08x}"  # an odd factor: no two are alike
            fields = _fields(number, entries, kept, messages, compacted=compacted, carried=carried)
            at = iso_ms(START + timedelta(seconds=20 * number))
            file.write(dump_line({"type": fields.pop("type"), "id": own, "parentId": parent, "timestamp": at} | fields))
            parent = own
            if number == entries - VISIBLE_MESSAGES - 1:
                kept = own


def _fields(
    number: int, entries: int, kept: str | None, messages: Iterator[dict[str, Any]], *, compacted: bool, carried: bool
) -> dict[str, Any]:
    if number == 0:
        return {"type": "model_change", "provider": "anthropic", "modelId": "claude-test"}
    if number == 1:
        return {"type": "thinking_level_change", "thinkingLevel": "medium"}
    if compacted and number == entries - VISIBLE_MESSAGES // 2:
        own = {"thinkingLevel": "medium", "model": ["anthropic", "claude-test"], "customTypes": []}
        fields = {"type": "compaction", "summary": "word " * 800, "firstKeptEntryId": kept, "tokensBefore": 150_000}
        return fields | ({OWN_FIELD: {"carried": own}} if carried else {})
    message = next(messages) | {"timestamp": to_ms(START) + 20_000 * number}
    return {"type": "message", "message": message}


def _messages(source: random.Random) -> Iterator[dict[str, Any]]:
    call = 0
    while True:
        yield {"role": "user", "content": [{"type": "text", "text": _text(source, 10, 60)}]}
        for _ in range(source.randint(1, 6)):
            call += 1
            tool = {
                "type": "toolCall",
                "id": f"toolu_{call:08d}",
                "name": "read",
                "arguments": {"path": f"a/{call}.py"},
            }
            yield _assistant(source, [{"type": "text", "text": _text(source, 5, 40)}, tool], "toolUse")
            output = _text(source, 20, 600)
            yield {
                "role": "toolResult",
                "toolCallId": tool["id"],
                "toolName": "read",
                "content": [{"type": "text", "text": output}],
                "isError": False,
            }
        yield _assistant(source, [{"type": "text", "text": _text(source, 40, 200)}], "stop")


def _assistant(source: random.Random, content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    cost = {"input": 0.0013, "output": 0.002, "cacheRead": 0.01, "cacheWrite": 0.004, "total": 0.0173}
    tokens = {"input": 12, "output": source.randint(20, 900), "cacheRead": 41_000, "cacheWrite": 700}
    usage = tokens | {"totalTokens": sum(tokens.values()), "cost": cost}
    made_by = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-test"}
    return {"role": "assistant", "content": content} | made_by | {"usage": usage, "stopReason": stop}


def _text(source: random.Random, least: int, most: int) -> str:
    return " ".join(source.choices(WORDS, k=source.randint(least, most)))


def measure(path: Path, *, full: bool, settings: bool, runs: int) -> dict[str, Any]:
    """Open a file and build its context, in this process."""
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(runs):
        cpu = time.process_time()
        started = time.perf_counter()
        transcript = Transcript.open(
            path, session_id="bench", clock=SystemClock(), ids=RandomIds(), full=full, read_only=True
        )
        opened = time.perf_counter()
        context = transcript.context()
        if settings:
            _ = context.thinking_level, context.model, context.name
        times.append((time.perf_counter() - started, opened - started, time.process_time() - cpu))
    report = transcript.report
    total_s, open_s, cpu_s = (min(column) for column in zip(*times, strict=True))
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "mode": report.mode,
        "messages": len(context.messages),
        "read_bytes": report.bytes_read,
        "file_bytes": report.bytes_total,
        "open_ms": round(open_s * 1000, 2),
        "total_ms": round(total_s * 1000, 2),
        "total_cpu_ms": round(cpu_s * 1000, 2),
        "extra_mb": round((peak_kb - before_kb) / 1024, 1),
        "peak_mb": round(peak_kb / 1024, 1),
    }


def _in_process_of_its_own(path: Path, *, full: bool, settings: bool, runs: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.transcripts", "--measure", str(path), "--runs", str(runs)]
    command += ["--full"] * full + ["--settings"] * settings
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def run(folder: Path, sizes: list[int], runs: int) -> list[dict[str, Any]]:
    """Make the files, measure each, and return one row a case."""
    rows = []
    for entries in sizes:
        cases = (
            ("tail", True, True, False, False),
            ("tail, settings asked", True, True, False, True),
            ("tail, settings asked, foreign compaction", True, False, False, True),
            ("full read, one compaction", True, True, True, False),
            ("full read, everything visible", False, False, False, True),
        )
        for name, compacted, carried, full, settings in cases:
            path = folder / f"{entries}-{compacted}-{carried}.jsonl"
            if not path.exists():
                generate(path, entries, compacted=compacted, carried=carried)
            few = 1 if entries >= 50_000 and (full or not compacted) else runs
            rows.append(
                {"case": name, "entries": entries}
                | _in_process_of_its_own(path, full=full, settings=settings, runs=few)
            )
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Lay rows out for people."""
    heads = ("entries", "file MB", "read MB", "messages", "open ms", "+context", "CPU ms", "peak MB")
    lines = [f"{'case':<42}" + "".join(f"{head:>10}" for head in heads)]
    for row in rows:
        sizes = f"{row['entries']:>10,}{row['file_bytes'] / 1e6:>10.1f}{row['read_bytes'] / 1e6:>10.2f}"
        times = f"{row['open_ms']:>10.1f}{row['total_ms']:>10.1f}{row['total_cpu_ms']:>10.1f}"
        lines.append(f"{row['case']:<42}{sizes}{row['messages']:>10,}{times}{row['peak_mb']:>10.0f}")
    tail = [row for row in rows if row["case"] == "tail"]
    wall, cpu = (tail[-1][key] / tail[0][key] for key in ("total_ms", "total_cpu_ms"))
    sizes = f"{tail[-1]['entries']:,} entries against {tail[0]['entries']:,}"
    lines.append(f"tail, {sizes}: {wall:.2f}x wall time, {cpu:.2f}x CPU time")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--entries", type=int, nargs="+", default=[1_000, 10_000, 76_000, 100_000])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--full", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--settings", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, full=options.full, settings=options.settings, runs=options.runs)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = run(Path(folder), options.entries, options.runs)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
