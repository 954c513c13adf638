"""Replay files into an output folder: a working copy, the trace data set, and a summary."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from stores.traces import write_run
from turngraph.clock import SystemClock
from turngraph.config import AgentSettings
from turngraph.models.model import Model
from turngraph.replay.cache_prefix import Prefix, common_prefixes, stability
from turngraph.replay.calls import ModelCall
from turngraph.replay.cost import Payoff, prices_of
from turngraph.replay.driver import ReplayedTurn, replay_session
from turngraph.replay.measures import measures, survival_of
from turngraph.replay.pruning import payoffs
from turngraph.replay.source import RecordedSession, read_session
from turngraph.replay.summary import pruning_summary, summarise, turn_row, write_turns
from turngraph.replay.survival import Survival
from turngraph.tokens import default_counter

Progress = Callable[[RecordedSession, ReplayedTurn], None]


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One replayed transcript; ``folder`` holds its output, if any was wanted.

    ``measures`` are the figures of a sweep, ``survival`` what became of the evidence, ``prefixes`` what each request
    shares with the one before it.
    """

    session: RecordedSession
    turns: tuple[ReplayedTurn, ...]
    summary: Mapping[str, Any]
    folder: Path | None
    measures: Mapping[str, Any]
    survival: Survival
    prefixes: tuple[Prefix, ...] = ()


def replay_file(
    path: Path,
    settings: AgentSettings,
    *,
    out: Path | None,
    session_key: str = "agent:main:main",
    window_tokens: int = 200_000,
    workspace: Path | None = None,
    progress: Progress | None = None,
    summariser: Model | None = None,
    live_memory: bool = False,
) -> ReplayRun:
    """Replay one transcript; output appears under its final name only when it is complete.

    Args:
        path: the transcript; read, never written.
        settings: settings of the agent.
        out: folder for the output, ``None`` for none; an earlier output there is replaced.
        session_key: key under which the turns run.
        window_tokens: context window.
        workspace: folder whose files the working copy starts with; else its workspace is empty.
        progress: told of each turn.
        summariser, live_memory: see :class:`turngraph.replay.driver.Replay`.

    Raises:
        NotFound: the transcript holds no user turn.
    """
    session = read_session(path, SystemClock())
    parent = out.parent if out else None
    if parent:
        parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".replay-", dir=parent))
    try:
        if workspace is not None:
            shutil.copytree(workspace, work / "home" / "workspace")
        turns = replay_session(
            session,
            work / "home",
            settings,
            session_key=session_key,
            window_tokens=window_tokens,
            progress=(lambda turn: progress(session, turn)) if progress else None,
            summariser=summariser,
            live_memory=live_memory,
        )
        survival = survival_of(session, turns)
        calls = [call for turn in turns for call in turn.calls]
        prefixes = common_prefixes(calls, [turn.trace for turn in turns], default_counter())
        weighed = _payoffs(turns, calls, prefixes, settings)
        turns = [with_pruning(turn, weighed) for turn in turns]
        summary = {**summarise(turns), "cachePrefix": stability(prefixes), "pruning": pruning_summary(weighed)}
        run = ReplayRun(session, tuple(turns), summary, out, measures(turns, survival), survival, prefixes)
        if out is not None:
            _write_output(work, run)
            if out.exists():
                shutil.rmtree(out)
            work.rename(out)
        return run
    finally:
        if work.exists():
            shutil.rmtree(work)


def _payoffs(
    turns: Sequence[ReplayedTurn], calls: Sequence[ModelCall], prefixes: Sequence[Prefix], settings: AgentSettings
) -> tuple[Payoff, ...]:
    traces = [turn.trace for turn in turns]
    model = next((str(trace.facts["model"]) for trace in traces if trace.facts.get("model")), "")
    return payoffs(calls, prefixes, traces, prices_of(model, settings.models, settings.cost), default_counter())


def with_pruning(turn: ReplayedTurn, weighed: Sequence[Payoff]) -> ReplayedTurn:
    """Return the turn with what its prunings cost and saved among the facts of its trace."""
    own = [one.as_json() for one in weighed if one.turn == turn.trace.turn]
    return replace(turn, trace=replace(turn.trace, facts={**turn.trace.facts, "pruning": own})) if own else turn


def _write_output(work: Path, run: ReplayRun) -> None:
    write_run([turn.trace for turn in run.turns], work / "traces")
    facts = {
        "transcript": run.session.path.name,
        "sessionId": run.session.session_id,
        **run.summary,
        "measures": run.measures,
        "survival": run.survival.as_json(),
    }
    (work / "summary.json").write_bytes(orjson.dumps(facts, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    write_turns([turn_row(turn) for turn in run.turns], work / "turns.parquet")
