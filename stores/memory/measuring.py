"""Score a search against queries whose answers are known: hits, recall, rank, lines read, time.

Source: issue Memory, `memory bench`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from stores.memory.results import Hit, SearchResult
from turngraph.errors import StoreError

ALL = "all"
_EXPECTED = "{id, kind, query, answers: [{path, line}]}"


@dataclass(frozen=True, slots=True)
class Question:
    """A query with the lines that answer it, as (path, line)."""

    id: str
    kind: str
    query: str
    answers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """Figures of one kind of question, or of all.

    Attributes:
        hit_1, hit_6, hit_10: share of questions with an answer among the first hits.
        recall_1, recall_6, recall_10: mean share of a question's answers among the first hits.
        mrr: mean of one over the rank of the first answer.
        lines: mean number of lines that the hits span. p50_ms, p95_ms: time of a search.
    """

    kind: str
    queries: int
    hit_1: float
    hit_6: float
    hit_10: float
    recall_1: float
    recall_6: float
    recall_10: float
    mrr: float
    lines: float
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class _Asked:
    kind: str
    ranks: tuple[int | None, ...]  # of each answer, from 1
    lines: int
    took_ms: float


def read_queries(path: Path) -> list[Question]:
    """Read questions, one JSON object a line.

    Raises:
        StoreError: a line is no question (the message names it), or no question has an answer to look for.
    """
    questions = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            answers = tuple((answer["path"], int(answer["line"])) for answer in raw["answers"])
            questions.append(Question(str(raw["id"]), str(raw.get("kind", ALL)), str(raw["query"]), answers))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}, line {number}: expected {_EXPECTED} ({error})") from error
    if not any(question.answers for question in questions):
        raise StoreError(f"{path} holds no question with an answer; expected lines of {_EXPECTED}")
    return questions


def measure(questions: Sequence[Question], search: Callable[[str], SearchResult]) -> list[Scores]:
    """Ask every question that has an answer (at least one), and return the scores per kind, and of all last."""
    with_answers = [question for question in questions if question.answers]
    search(with_answers[0].query)  # what a process loads for its first search is not the time of a search
    asked = [_ask(question, search) for question in with_answers]
    kinds = list(dict.fromkeys(one.kind for one in asked))
    groups = [(kind, [one for one in asked if one.kind == kind]) for kind in kinds]
    return [_scores(kind, group) for kind, group in (*groups, (ALL, asked)) if group]


def _ask(question: Question, search: Callable[[str], SearchResult]) -> _Asked:
    started = time.perf_counter()
    hits = search(question.query).hits
    took = (time.perf_counter() - started) * 1000
    ranks = tuple(next((at for at, hit in enumerate(hits, 1) if _covers(hit, *a)), None) for a in question.answers)
    return _Asked(question.kind, ranks, sum(hit.end_line - hit.start_line + 1 for hit in hits), took)


def _covers(hit: Hit, path: str, line: int) -> bool:
    return hit.path == path and hit.start_line <= line <= hit.end_line


def _scores(kind: str, asked: Sequence[_Asked]) -> Scores:
    firsts = [min((rank for rank in one.ranks if rank), default=None) for one in asked]
    times = sorted(one.took_ms for one in asked)

    def hit(limit: int) -> float:
        return fmean(first is not None and first <= limit for first in firsts)

    def recall(limit: int) -> float:
        return fmean(fmean(rank is not None and rank <= limit for rank in one.ranks) for one in asked)

    return Scores(
        kind,
        len(asked),
        hit(1),
        hit(6),
        hit(10),
        recall(1),
        recall(6),
        recall(10),
        fmean(1 / first if first else 0.0 for first in firsts),
        fmean(one.lines for one in asked),
        times[len(times) // 2],
        times[min(len(times) - 1, int(len(times) * 0.95))],
    )
