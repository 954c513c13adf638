"""Rank what both legs found: weights, age, diversity, the least score, and an account of every step.

Pure: plain values in, hits with their explanation out.
Source: spec/memory.md 4.2, 4.5 to 4.7; known-faults 7.6; weights measured in spec/stack.md 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stores.memory.tokenizer import surface_terms

DEFAULT_TEXT_WEIGHT = 0.7
DEFAULT_VECTOR_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Weights:
    """Share of each leg; they add up to 1."""

    text: float = DEFAULT_TEXT_WEIGHT
    vector: float = DEFAULT_VECTOR_WEIGHT

    @classmethod
    def of(cls, text: float, vector: float) -> Weights:
        """Divide two weights by their sum; a sum of 0 means the defaults."""
        total = text + vector
        return cls(text / total, vector / total) if total > 0 else cls()


@dataclass(frozen=True, slots=True)
class Candidate:
    """What the legs say of one chunk.

    Attributes:
        key: identifies the chunk.
        text_score, vector_score: 0 to 1; 0 where a leg did not find it.
        keyword_rank, vector_rank: place in its leg from 1, ``None`` where it was not among the candidates.
        bm25, coverage: raw keyword score, and share of the query that the chunk holds.
        content: text that diversity compares.
        decay: factor of age, ``age_days`` behind it.
    """

    key: int | str
    text_score: float = 0.0
    vector_score: float = 0.0
    keyword_rank: int | None = None
    vector_rank: int | None = None
    bm25: float = 0.0
    coverage: float = 0.0
    content: str = ""
    decay: float = 1.0
    age_days: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a hit has its score: ``combined`` is the weighted sum, ``score`` what is left after ``decay``.

    ``mmr_penalty`` is the part of the MMR value that similarity to better hits took; it moves a hit, not its score.
    ``admitted`` says which rule let it in.
    """

    keyword_rank: int | None
    bm25: float
    coverage: float
    text_score: float
    vector_rank: int | None
    vector_score: float
    text_weight: float
    vector_weight: float
    combined: float
    age_days: float | None
    decay: float
    mmr_penalty: float
    score: float
    admitted: str = "score"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place."""

    key: int | str
    score: float
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Rules:
    """How to rank: weights, MMR (``None`` is off), least score, number of hits."""

    weights: Weights = field(default_factory=Weights)
    mmr_lambda: float | None = None
    min_score: float = 0.0
    max_results: int = 6


def rank(candidates: Sequence[Candidate], rules: Rules) -> list[Ranked]:
    """Rank candidates; equal scores keep the order of ``candidates``."""
    scored = sorted((_score(candidate, rules.weights) for candidate in candidates), key=lambda hit: -hit.score)
    if rules.mmr_lambda is not None:
        contents = {candidate.key: candidate.content for candidate in candidates}
        scored = diversify(scored, contents, rules.mmr_lambda)
    return select(scored, rules.min_score, rules.max_results)


def _score(candidate: Candidate, weights: Weights) -> Ranked:
    combined = weights.vector * candidate.vector_score + weights.text * candidate.text_score
    score = combined * candidate.decay
    return Ranked(
        candidate.key,
        score,
        Explanation(
            candidate.keyword_rank,
            candidate.bm25,
            candidate.coverage,
            candidate.text_score,
            candidate.vector_rank,
            candidate.vector_score,
            weights.text,
            weights.vector,
            combined,
            candidate.age_days,
            candidate.decay,
            0.0,
            score,
        ),
    )


def select(hits: Sequence[Ranked], min_score: float, max_results: int) -> list[Ranked]:
    """Return the hits that reach the least score; spare places go to those that one leg alone vouches for, in order.

    The weight of one leg alone would never let its hits reach the least score.

    Source: spec/memory.md 4.2 [9], known-faults 7.6: an exact word is not lost to the threshold.
    """
    strict = [hit for hit in hits if hit.score >= min_score][:max_results]
    taken = {hit.key for hit in strict}
    chosen = list(strict)
    for hit in hits:
        if len(chosen) >= max_results:
            break
        leg = _vouching_leg(hit.explanation, min_score)
        if leg is not None and hit.key not in taken:
            chosen.append(replace(hit, explanation=replace(hit.explanation, admitted=f"spare place: {leg}")))
    return chosen


def _vouching_leg(explained: Explanation, min_score: float) -> str | None:
    """Return the leg whose word is enough for a hit below the least score, ``None`` when there is none.

    Words vouch for whatever holds one, unless meaning found it too and thinks less of it than the least score.
    Meaning vouches for what it finds itself when its own score, before any weight, reaches the least score.
    """
    found_by_meaning = explained.vector_rank is not None
    reaches = explained.vector_score >= min_score
    if explained.text_score > 0:
        return "words" if reaches or not found_by_meaning else None
    return "meaning" if found_by_meaning and reaches else None


def diversify(hits: Sequence[Ranked], contents: Mapping[int | str, str], lambda_: float) -> list[Ranked]:
    """Reorder hits so that near-duplicates of better ones come later (maximal marginal relevance).

    Args:
        hits: best first.
        contents: text of each hit by key.
        lambda_: 1 is score alone, 0 diversity alone; clamped.

    Source: spec/memory.md 4.7.
    """
    balance = min(1.0, max(0.0, lambda_))
    if len(hits) < 2 or balance == 1.0:
        return sorted(hits, key=lambda hit: -hit.score) if balance == 1.0 else list(hits)
    scores = [hit.score for hit in hits]
    low, span = min(scores), max(scores) - min(scores)
    relevance = {hit.key: (hit.score - low) / span if span else 1.0 for hit in hits}
    tokens = {hit.key: diversity_tokens(contents.get(hit.key, "")) for hit in hits}
    left, chosen = list(hits), list[Ranked]()
    nearest = {hit.key: 0.0 for hit in hits}
    while left:
        best = max(left, key=lambda hit: (_value(relevance[hit.key], nearest[hit.key], balance), hit.score))
        left.remove(best)
        penalty = (1 - balance) * nearest[best.key]
        chosen.append(replace(best, explanation=replace(best.explanation, mmr_penalty=penalty)))
        for hit in left:
            alike = similarity(contents.get(hit.key, ""), contents.get(best.key, ""), tokens[hit.key], tokens[best.key])
            nearest[hit.key] = max(nearest[hit.key], alike)
    return chosen


def _value(relevance: float, nearest: float, balance: float) -> float:
    return balance * relevance - (1 - balance) * nearest


def diversity_tokens(text: str) -> frozenset[str]:
    """Return the terms that decide whether two texts say the same."""
    return surface_terms(text)


def similarity(first: str, second: str, first_terms: frozenset[str], second_terms: frozenset[str]) -> float:
    """Return the Jaccard similarity of two texts; texts without terms are alike only when they are equal."""
    if not first_terms and not second_terms:
        return float(first.strip().lower() == second.strip().lower())
    return len(first_terms & second_terms) / len(first_terms | second_terms)
