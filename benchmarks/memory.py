"""Cost of the memory index as it grows: indexing, keeping in step, searching, and a search in a new process.

    python -m benchmarks.memory [--sizes 1 20 90 200] [--queries 100] [--runs 5] [--json FILE]
                                [--no-rate] [--no-one-shot]

Sizes are megabytes of Markdown in files of 10 kB (90 are some 100,000 chunks), made from a seed: notes with
Zipf-distributed words, people, identifiers, dates and Chinese lines. Vectors are made up (a random direction a text),
so that the rows measure the index and not an embedder. Every size is measured in a process of its own, because peak
memory never falls.
Wall time is what a user waits; CPU time, with worker processes, is what a busy machine leaves of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

FILE_BYTES = 10_000
ONE_SHOT_MB = 0.2  # is embedded for real, which takes a minute a megabyte
RATE_MB = 0.6
TEXTS_A_CALL = 16
VOCABULARY = 20_000
DIMENSIONS = 512
PEOPLE = ("Mira", "Teo", "Anna", "Rafi", "Linnea", "Bao", "Kofi", "Yara", "Noor", "Sven", "小陈", "老周")
SYLLABLES = ("ka", "ro", "mi", "ten", "sul", "var", "do", "pe", "lin", "ga", "shu", "bor", "ne", "ti", "fal", "qua")
CHINESE = (
    "网关服务早上重新部署了一次",
    "账单模块的超时问题已经修复",
    "明天和同事确认缓存层的配置",
    "索引任务占用的磁盘太多",
)


class Notes:
    """Lines of notes from a seed; the vocabulary is always the same."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        maker = random.Random(1)
        words = {"".join(maker.choices(SYLLABLES, k=maker.randint(1, 4))) for _ in range(3 * VOCABULARY)}
        self.words = sorted(words)
        maker.shuffle(self.words)
        del self.words[VOCABULARY:]
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))

    def line(self) -> str:
        """Return one line of a note."""
        kind = self.source.random()
        if kind < 0.15:
            return f"- {self.source.choice(PEOPLE)}: {self.source.choice(CHINESE)}，{self.source.choice(CHINESE)}。"
        if kind < 0.3:
            error, build = self.source.randint(1000, 9999), self.source.getrandbits(28)
            return f"  {self.identifier()}() -> E{error}, build {build:07x}"
        said = " ".join(self.source.choices(self.words, cum_weights=self.weights, k=self.source.randint(6, 24)))
        return f"- {self.source.choice(PEOPLE)} {said}."

    def identifier(self) -> str:
        """Return a name as code has them."""
        return "_".join(self.source.choices(self.words[:2000], k=2))

    def file(self) -> str:
        """Return a note of about 10 kB."""
        lines = [f"# Notes {self.source.randint(1, 10**6)}", ""]
        size = 0
        while size < FILE_BYTES:
            lines.append(self.line())
            size += len(lines[-1].encode()) + 1
        return "\n".join(lines) + "\n"

    def queries(self, count: int) -> list[str]:
        """Return questions: two to five words, every fifth an identifier, every seventh Chinese."""
        made = []
        for number in range(count):
            picked = self.source.choices(self.words, cum_weights=self.weights, k=self.source.randint(2, 5))
            special = self.identifier() if number % 5 == 0 else "缓存层 配置" if number % 7 == 0 else ""
            made.append(special or f"what did {self.source.choice(PEOPLE)} say about {' '.join(picked)}")
        return made


class MadeUpVectors:
    """An embedder that gives every text a random direction at once."""

    id = "made-up"
    is_remote = False
    max_input_tokens = 32_000

    def embed_documents(self, texts: Sequence[str]) -> Any:
        import numpy as np

        source = np.random.default_rng(len(texts[0]))
        return source.standard_normal((len(texts), DIMENSIONS), dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]


def write_notes(root: Path, megabytes: float) -> int:
    """Write a workspace below ``root``; return the number of files."""
    notes = Notes(seed=11)
    folder = root / "workspace" / "memory"
    folder.mkdir(parents=True)
    files = max(1, round(megabytes * 1_000_000 / FILE_BYTES))
    for number in range(files):
        (folder / f"topic-{number:05d}.md").write_text(notes.file(), encoding="utf-8")
    return files


def _cpu() -> float:
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU milliseconds of ``work``."""
    wall, cpu = time.perf_counter(), _cpu()
    work()
    return (time.perf_counter() - wall) * 1000, (_cpu() - cpu) * 1000


def fastest(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Return the least wall and CPU milliseconds of some runs."""
    found = [timed(work) for _ in range(runs)]
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def measure(root: Path, megabytes: float, queries: int, runs: int) -> dict[str, Any]:
    """Index and search a workspace of this size, in this process."""
    from stores.home import Home
    from stores.memory.index import MemoryIndex
    from turngraph.config import default_settings

    files = write_notes(root, megabytes)
    base = default_settings()
    search = {"query": {"minScore": 0}, "cache": {"enabled": False}}
    settings = base.model_copy(update={"memory_search": type(base.memory_search).model_validate(search)})
    index = MemoryIndex.open(Home(root), "main", settings, embedder=MadeUpVectors(), cache_dir=root / "cache")
    row: dict[str, Any] = {"MB": megabytes, "files": files}

    def note(name: str, figures: tuple[float, float]) -> None:
        row[f"{name} ms"], row[f"{name} CPU ms"] = figures

    note("full index", timed(lambda: index.sync("manual", embed=False)))
    row["index MB"] = index.places.index.stat().st_size / 1e6
    row["peak MB, words"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    time.sleep(0.2)  # files written a moment ago are read again: their time may not have moved
    index.sync("manual", embed=False)
    note("no-change sync", fastest(lambda: index.sync("manual", embed=False), runs))
    changed = root / "workspace" / "memory" / "topic-00000.md"

    def edit_and_sync() -> None:
        index.sync("manual", embed=False)

    figures = []
    for run in range(runs):
        changed.write_text(f"{changed.read_text(encoding='utf-8')}- edit {run}\n", encoding="utf-8")
        figures.append(timed(edit_and_sync))
    note("one-file sync", (min(wall for wall, _ in figures), min(cpu for _, cpu in figures)))
    asked = Notes(seed=12).queries(queries)
    row |= _search_times(index, "keyword", asked)
    note("vectors stored", timed(lambda: index.sync("manual", embed=True)))
    row |= _search_times(index, "vector", asked) | _search_times(index, "hybrid", asked)
    row["chunks"] = index.search("any", mode="keyword", refresh=False).chunks
    row["index MB, vectors"] = index.places.index.stat().st_size / 1e6
    row["peak MB, vectors"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    index.close()
    return row


def _search_times(index: Any, mode: Any, queries: Sequence[str]) -> dict[str, float]:
    index.search(queries[0], mode=mode)  # loads what a process keeps
    times = [timed(lambda query=query: index.search(query, mode=mode, refresh=False)) for query in queries]  # type: ignore[misc]
    walls = sorted(wall for wall, _ in times)
    return {
        f"{mode} p50 ms": median(walls),
        f"{mode} p95 ms": walls[int(0.95 * (len(walls) - 1))],
        f"{mode} p50 CPU ms": median(cpu for _, cpu in times),
    }


def embedding_rate(root: Path) -> dict[str, Any]:
    """Compare how fast an index gets its vectors with how fast the built-in embedder gives them."""
    from stores.home import Home
    from stores.memory.index import MemoryIndex
    from turngraph.config import default_settings

    write_notes(root, RATE_MB)
    index = MemoryIndex.open(Home(root), "main", default_settings(), cache_dir=root / "cache")
    index.sync("manual", embed=False)
    embedder = index.meaning.embedder()
    assert embedder is not None
    embedder.query("the first text unpacks the weights")
    with index.database.read() as connection:
        texts = [text for (text,) in connection.execute("SELECT text FROM chunks").fetchall()]
    batches = [texts[at : at + TEXTS_A_CALL] for at in range(0, len(texts), TEXTS_A_CALL)]
    alone = timed(lambda: [embedder.documents(batch) for batch in batches])
    stored = timed(lambda: index.sync("manual", embed=True))
    index.close()
    rates = {
        "embedder alone, chunks a second": len(texts) / alone[0] * 1000,
        "into the index, chunks a second": len(texts) / stored[0] * 1000,
    }
    return {"chunks": len(texts), **rates, "share, wall": alone[0] / stored[0], "share, CPU": alone[1] / stored[1]}


def one_shot(root: Path, runs: int) -> dict[str, Any]:
    """Time ``turngraph memory search`` in a new process, with the built-in embedder, and its imports."""
    write_notes(root, ONE_SHOT_MB)
    command = [sys.executable, "-m", "turngraph.cli.main", "memory"]
    env = {**os.environ, "TURNGRAPH_HOME": str(root)}
    row: dict[str, Any] = {}

    def run(*arguments: str) -> None:
        subprocess.run([*command, *arguments], env=env, check=True, capture_output=True)

    run("index", "--keywords-only")
    query = Notes(seed=12).queries(1)[0]
    row["keyword ms"], row["keyword CPU ms"] = fastest(lambda: run("search", query, "--mode", "keyword"), runs)
    run("index")
    row["hybrid ms"], row["hybrid CPU ms"] = fastest(lambda: run("search", query, "--mode", "hybrid"), runs)
    interpreter = [sys.executable, "-c", "pass"]
    row["interpreter alone ms"], _ = fastest(lambda: subprocess.run(interpreter, check=True), runs)
    traced = subprocess.run(
        [sys.executable, "-X", "importtime", *command[1:], "search", query, "--mode", "hybrid"],
        env=env, check=True, capture_output=True, text=True,
    )  # fmt: skip
    row["import ms"] = import_times(traced.stderr)
    return row


def import_times(trace: str, least_ms: float = 10.0) -> dict[str, float]:
    """Return milliseconds by top-level package of an ``-X importtime`` trace, the dearest first."""
    spent: dict[str, float] = {}
    for own, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", trace, re.MULTILINE):
        package = name.split(".")[0]
        spent[package] = spent.get(package, 0.0) + int(own) / 1000
    return {name: round(ms, 1) for name, ms in sorted(spent.items(), key=lambda item: -item[1]) if ms >= least_ms}


def _in_own_process(*arguments: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as root:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.memory", "--inside", root, *arguments],
            check=True, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def main() -> int:
    """Read the arguments, measure every size and print one column a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1, 20, 90, 200], help="megabytes; 0 leaves them out")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--no-one-shot", action="store_true", help="leave out the command line")
    parser.add_argument("--no-rate", action="store_true", help="leave out the rate of the built-in embedder")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        row = measure(arguments.inside, arguments.sizes[0], arguments.queries, arguments.runs)
        print(json.dumps(row))
        return 0
    options = ("--queries", str(arguments.queries), "--runs", str(arguments.runs))
    rows = (
        [] if arguments.sizes == [0] else [_in_own_process("--sizes", str(size), *options) for size in arguments.sizes]
    )
    for name in rows[0] if rows else ():
        print(f"{name:<26}" + "".join(f"{row[name]:>14,.1f}" for row in rows))
    found: dict[str, Any] = {"sizes": rows}
    if not arguments.no_rate:
        with tempfile.TemporaryDirectory() as root:
            found["rate"] = embedding_rate(Path(root))
        print(f"\nvectors of the built-in embedder, {RATE_MB} MB of notes")
        for name, value in found["rate"].items():
            print(f"{name:<34}{value:6,.2f}")
    if not arguments.no_one_shot:
        with tempfile.TemporaryDirectory() as root:
            found["one-shot"] = one_shot(Path(root), arguments.runs)
        print(f"\nturngraph memory search in a new process, {ONE_SHOT_MB} MB of notes")
        for name, value in found["one-shot"].items():
            print(f"{name:<26}{value if isinstance(value, dict) else f'{value:14,.1f}'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
