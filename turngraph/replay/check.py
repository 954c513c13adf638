"""Check a replay against an earlier one: which turns decided something else, and at which node first.

The gate for an upgrade. Pure but for reading the earlier output. Source: spec/seeing.md 4.7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from stores.traces import TraceReader
from stores.traces.rows import text_digest
from turngraph.decisions import Decision, NodeRun, TurnTrace
from turngraph.errors import NotFound

IDENTICAL = "identical to record"
# Says how many bytes were read; what was read is in the digest of the working set.
_HOW_IT_READ = ("load_history", "kept")
# Ids are made one after another, so one entry more in the working copy gives all later ones other ids.
_ENTRY_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4})?\b")


@dataclass(frozen=True, slots=True)
class TurnDifference:
    """The first node of a turn that did something else.

    Attributes:
        turn: number. node: the node, or what is missing.
        before, now: what it decided then and now, in words.
    """

    turn: int
    node: str
    before: str
    now: str

    @property
    def verdict(self) -> str:
        return f"differs at {self.node}"


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome: how many turns were compared, and those that differ, oldest first."""

    turns: int
    differences: tuple[TurnDifference, ...]

    @property
    def sentence(self) -> str:
        return f"{len(self.differences)} of {self.turns} turns changed"

    def verdicts(self, turns: Sequence[TurnTrace]) -> dict[int, str]:
        """Return what a report says of each turn."""
        differing = {difference.turn: difference.verdict for difference in self.differences}
        return {trace.turn: differing.get(trace.turn, IDENTICAL) for trace in turns}

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as plain values."""
        return {
            "turns": self.turns,
            "changed": len(self.differences),
            "differences": [
                {"turn": d.turn, "node": d.node, "before": d.before, "now": d.now} for d in self.differences
            ],
        }


def read_baseline(folder: Path, session_id: str) -> list[TurnTrace]:
    """Return the traces of an earlier output of the same recorded session.

    Args:
        folder: output of one replay, or the folder of several (one below it for each transcript).

    Raises:
        NotFound: there is no output of that session.
    """
    inside = [folder, *sorted(child for child in folder.iterdir() if child.is_dir())] if folder.is_dir() else []
    for candidate in inside:
        if not (candidate / "traces" / "turns.parquet").is_file():
            continue
        turns = TraceReader(candidate / "traces").turns()
        if turns and (candidate.name == session_id or session_id in (candidate / "summary.json").read_text()):
            return turns
    raise NotFound(f"no replay of session {session_id} in {folder}; run `turngraph replay ... --out {folder}` first")


def compare(before: Sequence[TurnTrace], now: Sequence[TurnTrace]) -> Checked:
    """Compare two replays turn by turn and node by node; durations do not count."""
    earlier = {trace.turn: trace for trace in before}
    later = {trace.turn: trace for trace in now}
    numbers = sorted(earlier.keys() | later.keys())
    found = (_difference(number, earlier.get(number), later.get(number)) for number in numbers)
    return Checked(len(numbers), tuple(difference for difference in found if difference is not None))


def _difference(turn: int, before: TurnTrace | None, now: TurnTrace | None) -> TurnDifference | None:
    if before is None or now is None:
        there, gone = ("the turn ran", "no such turn")
        return TurnDifference(turn, "turn", there if before else gone, there if now else gone)
    for old, new in zip_longest(_inner_first(before), _inner_first(now)):
        if old is None or new is None or _outcome(old, before) != _outcome(new, now):
            return TurnDifference(turn, (new or old).node, _words(old, before), _words(new, now))
    if _prompt(before) != _prompt(now):
        return TurnDifference(turn, "prompt", _size(before), _size(now))
    return None


def _inner_first(trace: TurnTrace) -> list[NodeRun]:
    """Return the runs in the order in which they ended: the nodes of a subgraph before the node around it."""
    runs: list[NodeRun] = []
    around: NodeRun | None = None
    for run in trace.nodes:
        if around is not None and not run.node.startswith(f"{around.node}:"):
            runs.append(around)
            around = None
        if any(other.node.startswith(f"{run.node}:") for other in trace.nodes):
            around = run
        else:
            runs.append(run)
    return [*runs, around] if around else runs


def _outcome(run: NodeRun, trace: TurnTrace) -> tuple[Any, ...]:
    return run.node, run.digest, run.route, _ENTRY_ID.sub("", run.why or ""), run.error, _decided(run, trace)


def _decided(run: NodeRun, trace: TurnTrace) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        (d.what, _ENTRY_ID.sub("", d.why), len(d.entry_ids))
        for ordinal, d in trace.decisions
        if ordinal == run.ordinal and (d.node, d.what) != _HOW_IT_READ
    )


def _words(run: NodeRun | None, trace: TurnTrace) -> str:
    if run is None:
        return "did not run"
    said = [_say(d) for ordinal, d in trace.decisions if ordinal == run.ordinal]
    route = [f"chose {run.route}: {run.why}"] if run.route and run.why else []
    size = [f"{run.messages_out} messages, {run.tokens_out} tokens"] if run.tokens_out is not None else []
    return "; ".join([*said, *route, *size]) or "decided nothing"


def _say(decision: Decision) -> str:
    return f"{decision.what}: {decision.why}"


def _prompt(trace: TurnTrace) -> tuple[Any, ...]:
    return tuple((s.kind, s.role, s.tokens, text_digest(s)) for s in trace.segments)


def _size(trace: TurnTrace) -> str:
    facts: Mapping[str, Any] = trace.facts
    return f"{len(trace.segments)} parts, {facts.get('prompt_tokens')} tokens"
