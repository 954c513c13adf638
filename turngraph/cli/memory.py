"""``turngraph memory``: index, search, read, inspect, forget and measure long-term memory.

Imports of the index happen inside the commands: a search by words needs DuckDB and numpy and nothing heavier.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turngraph.cli.options import (
    AgentOption,
    HomeOption,
    JsonOption,
    SetOption,
    console,
    find_home,
    new_app,
    pick_agent,
    print_json,
    read_settings,
    warn,
)
from turngraph.errors import NotFound

if TYPE_CHECKING:
    from stores.memory.index import MemoryIndex
    from stores.memory.measuring import Scores
    from stores.memory.results import Hit, SearchResult
    from stores.memory.sync import Progress

app = new_app("Index, search and read long-term memory.")

Mode = Literal["keyword", "vector", "hybrid"]
Source = Literal["memory", "sessions", "all"]
ModeOption = Annotated[Mode | None, typer.Option("--mode", help="Legs to use; both where there are vectors.")]
SourceOption = Annotated[Source | None, typer.Option("--source", help="What to search; else what is configured.")]


@contextmanager
def _opened(home: Path | None, agent: str | None, sets: list[str] | None) -> Iterator[MemoryIndex]:
    # One BLAS thread is steadier than two on a machine that has other work, and starts sooner: spec/stack.md 3.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from stores.memory.index import MemoryIndex

    found = find_home(home)
    settings = read_settings(found, sets)
    agent_id = pick_agent(settings, agent)
    index = MemoryIndex.open(found, agent_id, settings.agent(agent_id))
    try:
        yield index
    finally:
        index.close()


@app.command("index")
def index_command(
    force: Annotated[bool, typer.Option("--force", help="Build everything anew beside the old index.")] = False,
    keywords_only: Annotated[bool, typer.Option("--keywords-only", help="Make no vectors now.")] = False,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Bring the index up to the files, vectors included.

    Example: turngraph memory index --force
    """
    with _opened(home, agent, set) as index, _progress(quiet=json) as progress:
        report = index.sync("manual", force=force, embed=not keywords_only, progress=progress)
    for problem in report.problems:
        warn(problem)
    if report.fallback:
        warn(f"vectors stopped: {report.fallback}")
    if json:
        print_json(asdict(report))
        return
    why = f" ({report.rebuilt})" if report.rebuilt else ""
    print(
        f"{report.added} added, {report.changed} changed, {report.removed} removed, {report.unchanged} unchanged{why}; "
        f"{report.chunks} chunks, {report.embedded} vectors in {report.took_ms / 1000:.1f} s"
        + (f"; {report.pending} chunks still without a vector" if report.pending else "")
    )


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="Any text.")],
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Most hits.")] = None,
    min_score: Annotated[float | None, typer.Option("--min-score", min=0, max=1)] = None,
    source: SourceOption = None,
    mode: ModeOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score came about.")] = False,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Search memory by words and meaning.

    Example: turngraph memory search "which port does the gateway use" --explain
    """
    with _opened(home, agent, set) as index:
        result = index.search(query, max_results=limit, min_score=min_score, corpus=source, mode=mode)
    _warn_of(result)
    if json:
        print_json(asdict(result))
        return
    for hit in result.hits:
        print(f"{hit.path}:{hit.start_line}-{hit.end_line}  {hit.score:.3f}")
        print("\n".join(f"    {line}" for line in hit.snippet.strip().split("\n")))
        if explain:
            print(f"    = {_explained(hit)}")
    if not result.hits:
        print(f"nothing found in {result.files} files ({result.chunks} chunks)")


@app.command()
def get(
    path: Annotated[str, typer.Argument(help="Memory file, relative to the workspace.")],
    start: Annotated[int | None, typer.Option("--from", min=1, help="First line.")] = None,
    lines: Annotated[int | None, typer.Option("--lines", min=1, help="How many lines.")] = None,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Print a part of a memory file.

    Example: turngraph memory get memory/2026-03-31.md --from 10
    """
    with _opened(home, agent, set) as index:
        part = index.get(path, start, lines)
    if json:
        print_json(asdict(part))
    elif part.status == "not_found":
        raise NotFound(f"{part.path} does not exist")
    else:
        print(part.text)


@app.command()
def status(home: HomeOption = None, agent: AgentOption = None, set: SetOption = None, json: JsonOption = False) -> None:
    """Compare the index with the files and say what is missing.

    Example: turngraph memory status --json
    """
    with _opened(home, agent, set) as index:
        found = index.status()
    if json:
        print_json(asdict(found) | {"is_clean": found.is_clean})
        return
    state = "up to date" if found.is_clean else f"{found.added} new, {found.changed} changed, {found.removed} gone"
    rows = [
        ("index", f"{found.path} ({found.bytes / 1e6:.1f} MB)" if found.exists else f"{found.path} (not built yet)"),
        ("files", f"{found.files} of {found.on_disk} on disk; {state}"),
        ("chunks", ", ".join(f"{s.chunks} from {s.files} files of {s.source}" for s in found.sources)),
        ("vectors", f"{found.vectors} of {found.model or found.provider}, {found.pending} pending"),
        ("cache", f"{found.cached} embeddings"),
        ("forgotten", f"{found.forgotten} files"),
        ("no vectors", found.fallback),
        ("rebuild", found.rebuild),
        *(("problem", problem) for problem in found.problems),
    ]
    for name, text in rows:
        if text:
            print(f"{name:<11}{text}")


@app.command()
def forget(
    path: Annotated[str | None, typer.Option("--path", help="A memory file or transcript, as results name it.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Id of a session.")] = None,
    query: Annotated[str | None, typer.Option("--query", help="Whatever this query finds.")] = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove the note too; of a query's hits their lines.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, only the plan is shown.")] = False,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Take texts out of the index and the embedding cache, and keep them out.

    Example: turngraph memory forget --session 3f2b8c1e-9d44-4a7e-8b61-0c5f7a92e6d1 --yes
    """
    from stores.traces import TraceStore

    with _opened(home, agent, set) as index:
        report = index.forget(path=path, session=session, query=query, delete=delete, confirmed=yes)
    copies = TraceStore(find_home(home).traces_dir).forget(report.texts, dry_run=not report.done)
    if json:
        print_json(
            {key: value for key, value in asdict(report).items() if key != "texts"} | {"traceTexts": len(copies)}
        )
        return
    verb = "forgot" if report.done else "would forget"
    for name, chunks in report.paths:
        print(f"{verb} {chunks} chunks of {name}")
    for name in report.deleted:
        print(f"{'deleted' if report.done else 'would delete'} {name}")
    if copies:
        print(f"{verb} {len(copies)} texts of traces that quote them")
    if not report.done:
        print("nothing was changed; add --yes to do it")


@app.command()
def bench(
    queries: Annotated[Path, typer.Argument(help="Lines of {id, kind, query, answers: [{path, line}]}.")],
    mode: ModeOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Hits to look at.")] = 10,
    home: HomeOption = None,
    agent: AgentOption = None,
    set: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Measure retrieval: how often and how high a search finds lines that are known to answer.

    Example: turngraph memory bench queries.jsonl --mode keyword --set memorySearch.query.minScore=0
    """
    from stores.memory.measuring import measure, read_queries

    asked = read_queries(queries)
    with _opened(home, agent, set) as index:
        index.sync("manual", embed=mode != "keyword")
        scores = measure(asked, lambda text: index.search(text, max_results=limit, mode=mode, refresh=False))
    if json:
        print_json([asdict(row) for row in scores])
        return
    print(_bench_table(scores))


def _bench_table(scores: Sequence[Scores]) -> str:
    """Write scores as lines of 80 columns for kinds of up to 12 characters."""
    wide = max(len(row.kind) for row in scores) + 1
    names = ("hit@1", "@6", "@10", "rec@1", "@6", "@10", "MRR")
    lines = [f"{'kind':<{wide}}{'n':>4}" + "".join(f"{name:>6}" for name in names) + "  lines  p50ms  p95ms"]
    for row in scores:
        ratios = (row.hit_1, row.hit_6, row.hit_10, row.recall_1, row.recall_6, row.recall_10, row.mrr)
        told = "".join(f"{ratio:6.3f}" for ratio in ratios)
        lines.append(f"{row.kind:<{wide}}{row.queries:>4}{told}{row.lines:7.1f}{row.p50_ms:7.1f}{row.p95_ms:7.1f}")
    return "\n".join(lines)


def _warn_of(result: SearchResult) -> None:
    if result.pending and result.mode != "keyword":
        warn(f"partial: {result.pending} of {result.chunks} chunks have no vector yet; run `turngraph memory index`")
    elif result.pending and not result.fallback:
        warn(f"words only: {result.pending} chunks have no vector yet; run `turngraph memory index`")
    for reason in (result.stale, result.fallback, result.rebuild, *result.problems):
        if reason:
            warn(reason)


def _explained(hit: Hit) -> str:
    e = hit.explanation
    words = f"words {e.text_score:.3f} (rank {e.keyword_rank or '-'}, bm25 {e.bm25:.2f}, covers {e.coverage:.0%})"
    meaning = f"meaning {e.vector_score:.3f} (rank {e.vector_rank or '-'})"
    parts = f"{e.text_weight:.2f} x {words} + {e.vector_weight:.2f} x {meaning} = {e.combined:.3f}"
    age = f", age {e.age_days:.0f} days x {e.decay:.3f}" if e.age_days is not None else ""
    mmr = f", similar to better hits -{e.mmr_penalty:.3f}" if e.mmr_penalty else ""
    return f"{parts}{age}{mmr}, admitted by {e.admitted}"


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show a bar on stderr for work that takes longer than a moment."""
    shown = console(stderr=True)
    if quiet or not shown.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    with Bars(console=shown, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield tell
