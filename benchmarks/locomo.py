"""Evidence recall of memory search on LoCoMo conversations, by what each part of the ranking adds.

    python -m benchmarks.locomo PATH [--names plain|dated|both] [--cache FOLDER] [--set KEY=VALUE ...] [--json]

PATH is a folder of LoCoMo files (one conversation each, JSON, with ``session_N`` and ``qa``); they are read, never
copied. Every conversation becomes a workspace of notes: one file a session, a heading with its date, one line a turn
with its id, captions of images included. All questions count whose evidence names at least one turn of the
conversation, category 5 too. Figures are the mean share of a question's evidence lines that the hits cover: among the
first 6 and 10 hits, and among the first 60 distinct lines read. The index is the real one, with its default settings
but a least score of 0. Baselines are plain BM25 over the same chunks and over single turns.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from stores.home import Home
from stores.memory.index import MemoryIndex
from turngraph.config import default_settings

MAX_HITS = 30
LINES_READ = 60
RESAMPLES = 2000
MEASURES = ("at 6", "at 10", f"in {LINES_READ} lines")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

Place = tuple[str, int]
Range = tuple[str, int, int]
Ranker = Callable[[str], Sequence[Range]]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the lines that answer it."""

    category: int
    text: str
    evidence: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Notes by path, as lines, and the questions about them."""

    name: str
    notes: dict[str, list[str]]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """Recall of one question by measure, and the lines that its first six and ten hits span."""

    category: int
    recall: tuple[float, float, float]
    lines: tuple[int, int]


def conversations(folder: Path, *, dated: bool) -> Iterator[Conversation]:
    """Read every LoCoMo file of a folder; other files are passed by."""
    for path in sorted(folder.glob("*.json")):
        raw = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(raw, dict) and "qa" in raw:
            yield _conversation(path.stem, raw, dated=dated)


def _conversation(name: str, raw: dict[str, Any], *, dated: bool) -> Conversation:
    notes: dict[str, list[str]] = {}
    places: dict[str, Place] = {}
    for number in sorted(int(key[8:]) for key in raw if re.fullmatch(r"session_\d+", key) and raw[key]):
        when = raw[f"session_{number}_date_time"]
        path = f"memory/session-{number:02d}.md"
        if dated:
            day = _day(when)
            path = f"memory/{day}.md" if f"memory/{day}.md" not in notes else f"memory/{day}-{number:02d}.md"
        lines = notes[path] = [f"# Conversation on {when}", ""]
        for turn in raw[f"session_{number}"]:
            caption = f" [shared image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            said = " ".join(f"{turn.get('text') or turn.get('clean_text') or ''}{caption}".split())
            lines.append(f"{turn['dia_id']} {turn['speaker']}: {said}")
            places[turn["dia_id"]] = (path, len(lines))
    asked = []
    for question in raw["qa"]:
        evidence = tuple(places[turn] for turn in _turns(question.get("evidence")) if turn in places)
        if evidence:
            asked.append(Question(question["category"], str(question["question"]), evidence))
    return Conversation(name, notes, tuple(asked))


def _day(when: str) -> str:
    found = re.search(r"on (\d+) (\w+), (\d{4})", when)
    if found is None:
        raise ValueError(f"no date in {when!r}")
    return datetime.strptime(" ".join(found.groups()), "%d %B %Y").date().isoformat()  # noqa: DTZ007


def _turns(evidence: Sequence[object] | None) -> list[str]:
    """Return the distinct turn ids that an evidence list names; some entries hold several or leading zeros."""
    pairs = [pair for entry in evidence or () for pair in re.findall(r"D(\d+):(\d+)", str(entry))]
    return list(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in pairs))


def judge(question: Question, hits: Sequence[Range]) -> Answered:
    """Compare hits, best first, with the evidence."""

    def share(read: set[Place]) -> float:
        return fmean(place in read for place in question.evidence)

    def lines(count: int) -> set[Place]:
        return {(path, line) for path, first, last in hits[:count] for line in range(first, last + 1)}

    read: dict[Place, None] = {}
    for path, first, last in hits:
        read.update(dict.fromkeys((path, line) for line in range(first, last + 1)))
    recall = (share(lines(6)), share(lines(10)), share(set(list(read)[:LINES_READ])))
    return Answered(question.category, recall, (len(lines(6)), len(lines(10))))


class PlainBm25:
    """BM25 over lower-case words (k1 1.2, b 0.75): no stemmer, no stop words, nothing else."""

    def __init__(self, passages: Sequence[tuple[Range, str]]) -> None:
        self._ranges = [place for place, _ in passages]
        self._counts = [Counter(_words(text)) for _, text in passages]
        self._holding = Counter(word for counts in self._counts for word in counts)
        self._lengths = [counts.total() for counts in self._counts]
        self._mean = fmean(self._lengths) or 1.0

    def __call__(self, query: str) -> list[Range]:
        words = set(_words(query))
        scores = [self._score(words, at) for at in range(len(self._ranges))]
        order = sorted(range(len(scores)), key=lambda at: -scores[at])
        return [self._ranges[at] for at in order[: 2 * LINES_READ] if scores[at] > 0]

    def _score(self, words: set[str], at: int) -> float:
        total = 0.0
        for word in words & self._counts[at].keys():
            holding, times = self._holding[word], self._counts[at][word]
            rarity = math.log1p((len(self._ranges) - holding + 0.5) / (holding + 0.5))
            total += rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * self._lengths[at] / self._mean))
        return total


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def workspace(root: Path, conversation: Conversation, sets: dict[str, Any], cache_dir: Path) -> MemoryIndex:
    """Write the notes of a conversation below ``root`` and index them with vectors."""
    for path, lines in conversation.notes.items():
        file = root / "workspace" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    base = default_settings()
    search: dict[str, Any] = {"query": {"minScore": 0}}
    for key, value in sets.items():
        *groups, last = key.split(".")
        target = search
        for group in groups:
            target = target.setdefault(group, {})
        target[last] = value
    settings = base.model_copy(update={"memory_search": type(base.memory_search).model_validate(search)})
    index = MemoryIndex.open(Home(root), "main", settings, cache_dir=cache_dir)
    index.sync("manual", embed=True)
    embedder = index.meaning.embedder()
    if embedder is not None:
        embedder.inner = Remembered(embedder.inner)
    return index


class Remembered:
    """An embedder that is asked once for each question, whatever the number of rankings that need its vector."""

    def __init__(self, inner: Any) -> None:
        self.id, self.is_remote, self.max_input_tokens = inner.id, inner.is_remote, inner.max_input_tokens
        self.embed_documents = inner.embed_documents
        self.embed_query = cache(inner.embed_query)


def rankers(index: MemoryIndex, conversation: Conversation) -> dict[str, Ranker]:
    """Return every ranking that is compared, by name."""

    def ours(mode: Any) -> Ranker:
        def search(query: str) -> list[Range]:
            hits = index.search(query, max_results=MAX_HITS, mode=mode, refresh=False).hits
            return [(hit.path, hit.start_line, hit.end_line) for hit in hits]

        return search

    with index.database.read() as connection:
        rows = connection.execute(
            "SELECT path, start_line, end_line, text FROM chunks JOIN files USING (file_id) ORDER BY chunk_id"
        ).fetchall()
    turns = [
        ((path, at, at), line) for path, lines in conversation.notes.items() for at, line in enumerate(lines, 1) if line
    ]
    return {
        "hybrid": ours("hybrid"),
        "keyword": ours("keyword"),
        "vector": ours("vector"),
        "plain BM25, same chunks": PlainBm25([((row[0], row[1], row[2]), row[3]) for row in rows]),
        "plain BM25, single turns": PlainBm25(turns),
    }


# What can be taken away from the hybrid ranking, to see what it is worth.
_WITHOUT: dict[str, dict[str, Any]] = {
    "context lines": {"searching.CONTEXT_LINES": 0},
    "exact words and phrases": {"keyword.EXACT_BONUS": 0.0},
    "function words": {"keyword.FUNCTION_WORD_WEIGHT": 0.0},
    "words inside words": {"lookup.EXPANDED_FROM_CHARS": 1_000_000},
    "spread of cosines": {"searching.NEARNESS_POWER": 1},
}


def without(part: str, ranker: Ranker) -> Ranker:
    """Return a ranking that lacks one part."""
    from unittest.mock import patch

    def search(query: str) -> Sequence[Range]:
        ((name, value),) = _WITHOUT[part].items()
        with patch(f"stores.memory.{name}", value):
            return ranker(query)

    return search


def run(folder: Path, *, dated: bool, sets: dict[str, Any], cache_dir: Path, ablate: bool) -> dict[str, list[Answered]]:
    """Ask all questions in every ranking; indexes are kept in ``cache_dir`` for the next run."""
    found: dict[str, list[Answered]] = {}
    for conversation in conversations(folder, dated=dated):
        root = cache_dir / f"{conversation.name}-{'dated' if dated else 'plain'}"
        index = workspace(root, conversation, sets, cache_dir)
        try:
            ways = rankers(index, conversation)
            if ablate:
                ways |= {f"hybrid without {part}": without(part, ways["hybrid"]) for part in _WITHOUT}
            for name, ranker in ways.items():
                found.setdefault(name, []).extend(judge(q, ranker(q.text)) for q in conversation.questions)
        finally:
            index.close()
    return found


def interval(better: Sequence[float], worse: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean paired difference and the bounds of its 95 % bootstrap interval over questions."""
    differences = [a - b for a, b in zip(better, worse, strict=True)]
    source = random.Random(1)
    means = sorted(fmean(source.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    return fmean(differences), means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def summary(found: dict[str, list[Answered]]) -> list[dict[str, Any]]:
    """Return one row a ranking: recall by measure, by category at 6, lines, and what hybrid gains over it."""
    rows = []
    for name, answers in found.items():
        row: dict[str, Any] = {"ranking": name, "questions": len(answers)}
        for at, measure in enumerate(MEASURES):
            row[measure] = fmean(answer.recall[at] for answer in answers)
        row["lines at 6"] = fmean(answer.lines[0] for answer in answers)
        row["lines at 10"] = fmean(answer.lines[1] for answer in answers)
        for at, measure in enumerate(MEASURES[:2]):
            row[f"by category {measure}"] = {
                CATEGORIES[number]: fmean(answer.recall[at] for answer in answers if answer.category == number)
                for number in sorted({answer.category for answer in answers})
            }
        if name != "hybrid":
            row["hybrid gains"] = {
                measure: interval([a.recall[at] for a in found["hybrid"]], [a.recall[at] for a in answers])
                for at, measure in enumerate(MEASURES)
            }
        rows.append(row)
    return rows


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    print(f"\n{title}: {rows[0]['questions']} questions\n")
    print(f"{'ranking':<40}" + "".join(f"{measure:>13}" for measure in (*MEASURES, "lines at 6", "lines at 10")))
    for row in rows:
        ratios = "".join(f"{row[measure]:>13.4f}" for measure in MEASURES)
        print(f"{row['ranking']:<40}{ratios}{row['lines at 6']:>13.1f}{row['lines at 10']:>13.1f}")
    for measure in MEASURES[:2]:
        print(f"\nby category, {measure}")
        for row in rows[:5]:
            parts = row[f"by category {measure}"]
            print(f"{row['ranking']:<40}" + "  ".join(f"{name} {value:.3f}" for name, value in parts.items()))
    print("\nwhat hybrid gains over each: mean and 95 % interval of the paired difference")
    for row in rows[1:]:
        gains = row["hybrid gains"]
        parts = (f"{m} {gains[m][0]:+.4f} [{gains[m][1]:+.4f}, {gains[m][2]:+.4f}]" for m in MEASURES)
        print(f"{row['ranking']:<40}" + "   ".join(parts))


def main() -> int:
    """Read the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--names", choices=("plain", "dated", "both"), default="both")
    parser.add_argument("--cache", type=Path, help="folder that keeps the indexes for the next run")
    parser.add_argument("--set", action="append", default=[], help="setting below memorySearch, as key=JSON")
    parser.add_argument("--no-parts", action="store_true", help="do not measure what each part adds")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.path.is_dir() or not any(arguments.path.glob("*.json")):
        print(f"{arguments.path}: no LoCoMo conversations here; the data set is not part of this project and must be"
              " fetched from its authors (one JSON file a conversation)", file=sys.stderr)  # fmt: skip
        return 2
    sets = {key: json.loads(value) for key, _, value in (text.partition("=") for text in arguments.set)}
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as fresh:
        for names in ("plain", "dated") if arguments.names == "both" else (arguments.names,):
            parts = not arguments.no_parts and not results
            found = run(
                arguments.path,
                dated=names == "dated",
                sets=sets,
                cache_dir=arguments.cache or Path(fresh),
                ablate=parts,
            )
            title = f"notes with {names} names"
            results[title] = summary(found)
            if not arguments.json:
                show(title, results[title])
    if arguments.json:
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
