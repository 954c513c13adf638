"""Everything a turn report shows, as plain values: the page is drawn from this, and carries it as JSON.

Source: spec/seeing.md section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from graphs.drawing import Drawable
from turngraph.config import AgentSettings
from turngraph.decisions import Decision, NodeRun, TurnTrace
from turngraph.viewer.difference import TextChange, text_changes
from turngraph.viewer.money import money
from turngraph.viewer.path_taken import PathTaken, path_taken
from turngraph.viewer.prompt_parts import Prompt, prompt_parts
from turngraph.viewer.recall import searches, tool_results
from turngraph.viewer.texts import Texts
from turngraph.waterfall import Waterfall, waterfall

SCHEMA = "turngraph.turn-report/1"
STRIP_TURNS = 30
LISTED_PARTS = 450  # of a redacted page, which stays below 300 kB (spec/seeing.md 3.10)


@dataclass(frozen=True, slots=True)
class TurnPage:
    """One turn, ready to be drawn; ``data`` has every number of it.

    ``changes`` holds how texts changed, by ordinal of the node run and entry id.
    """

    trace: TurnTrace
    picture: Drawable
    path: PathTaken
    waterfall: Waterfall
    prompt: Prompt
    answer: str
    data: dict[str, Any]
    changes: Mapping[int, Mapping[str, TextChange]] = field(default_factory=dict)

    @property
    def folds_shared(self) -> bool:
        """Whether the parts that equal the request before stand as one line: of a long prompt without texts."""
        return self.data["redacted"] and len(self.prompt.parts) > LISTED_PARTS

    @property
    def decisions(self) -> Mapping[int, Sequence[Decision]]:
        """Decisions by the ordinal of their node run."""
        found: dict[int, list[Decision]] = {}
        for ordinal, decision in self.trace.decisions:
            found.setdefault(ordinal, []).append(decision)
        return found


@dataclass(frozen=True, slots=True)
class PageRules:
    """What a page shows of texts.

    Attributes:
        text_chars: longest text; 0 shows none.
        redact: digests and sizes in place of text.
        verdict: of a check against an earlier replay, if there was one.
    """

    text_chars: int = 6_000
    redact: bool = False
    verdict: str | None = None


def turn_page(
    trace: TurnTrace,
    earlier: Sequence[TurnTrace],
    picture: Drawable,
    texts: Texts,
    settings: AgentSettings,
    rules: PageRules,
) -> TurnPage:
    """Put the page of a turn together.

    Args:
        trace: the turn.
        earlier: turns of the session before it, oldest first; the last one is the request it is compared with.
        picture: the compiled graph.
        texts: where texts are found.
        settings: of the agent, for prices and the cache.
        rules: what is shown of texts.
    """
    previous = next((turn for turn in reversed(earlier) if turn.segments), None)
    shown = None if rules.redact else texts
    prompt = prompt_parts(trace.segments, previous.segments if previous else None, shown, text_chars=rules.text_chars)
    answer = _answer(trace, shown)
    path = path_taken(picture, trace.nodes)
    made = waterfall(trace)
    data = {
        "schema": SCHEMA,
        "redacted": rules.redact,
        "header": header(trace, rules.verdict),
        "path": _path(picture, path),
        "waterfall": made.as_json(),
        "nodes": [_node(run, trace) for run in trace.nodes],
        "prompt": _prompt(prompt),
        "searches": [] if rules.redact else searches(trace, prompt.parts, answer),
        "toolResults": tool_results(prompt.parts),
        "money": money(trace, previous, prompt, settings),
        "strip": [strip_row(turn) for turn in (*earlier[-STRIP_TURNS + 1 :], trace)],
    }
    if rules.redact:
        _redact(data)
    changes = text_changes(trace.decisions, prompt.parts, shown if rules.text_chars else None)
    return TurnPage(trace, picture, path, made, prompt, answer, data, changes)


def header(trace: TurnTrace, verdict: str | None) -> dict[str, Any]:
    """Return the head of a report."""
    facts = trace.facts
    return {
        "sessionKey": trace.session_key,
        "sessionId": trace.session_id,
        "agent": trace.agent_id,
        "turn": trace.turn,
        "traceId": trace.trace_id,
        "started": trace.started.isoformat(timespec="seconds"),
        "ended": trace.ended.isoformat(timespec="seconds"),
        "milliseconds": round(sum(run.duration_ms for run in trace.nodes if ":" not in run.node), 1),
        "verdict": verdict,
        **{
            name: facts.get(key)
            for name, key in (
                ("trigger", "trigger"),
                ("model", "model"),
                ("windowTokens", "window_tokens"),
                ("promptTokens", "prompt_tokens"),
                ("modelCalls", "model_calls"),
                ("counter", "counter"),
                ("settingsDigest", "settings_digest"),
                ("graphDigest", "graph_digest"),
                ("flowRunId", "flow_run_id"),
                ("reply", "reply"),
                ("compactions", "compactions"),
                ("flushes", "flushes"),
                ("overflows", "overflows"),
                ("error", "error"),
            )
        },
    }


def strip_row(trace: TurnTrace) -> dict[str, Any]:
    """Return one turn of the strip."""
    facts = trace.facts
    return {
        "turn": trace.turn,
        "trace": trace.trace_id,
        "tokens": int(facts.get("prompt_tokens") or 0),
        "compactions": int(facts.get("compactions") or 0),
        "flushes": int(facts.get("flushes") or 0),
        "error": bool(facts.get("error")),
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as plain values; what it does not say is left out."""
    plain: dict[str, Any] = {}
    for part in fields(decision):
        value = getattr(decision, part.name)
        if value is not None and value != () and value != {}:
            plain[part.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _node(run: NodeRun, trace: TurnTrace) -> dict[str, Any]:
    plain = {
        part.name: getattr(run, part.name)
        for part in fields(run)
        if part.name != "started" and getattr(run, part.name) is not None
    }
    decided = [decision_json(decision) for ordinal, decision in trace.decisions if ordinal == run.ordinal]
    return {
        **plain,
        "duration_ms": round(run.duration_ms, 3),
        "started": run.started.isoformat(),
        "decisions": decided,
    }


def _path(picture: Drawable, path: PathTaken) -> dict[str, Any]:
    return {
        "nodes": [{"name": name, "runs": path.runs[name]} for name in picture.nodes],
        "edges": [
            {"from": edge.source, "to": edge.target, "label": edge.label, "taken": path.edges[edge]}
            for edge in picture.edges
        ],
        "choices": [
            {"ordinal": choice.ordinal, "node": choice.node, "taken": choice.taken, "why": choice.why}
            for choice in path.choices
        ],
    }


def _prompt(prompt: Prompt) -> dict[str, Any]:
    columns = ["kind", "role", "name", "tokens", "chars", "sha256", "originKind", "originId", "derived"]
    kinds = sorted({part.segment.kind for part in prompt.parts})
    rows = []
    for part in prompt.parts:
        segment, origin = part.segment, part.segment.origin
        rows.append(
            [
                kinds.index(segment.kind),
                segment.role,
                segment.name,
                segment.tokens,
                part.chars,
                (segment.sha256 or "")[:16],
                origin.kind,
                origin.entry_id or origin.path or origin.name,
                int(segment.derived),
            ]
        )
    return {
        "tokens": prompt.tokens,
        "sharedSegments": prompt.shared,
        "sharedTokens": prompt.shared_tokens,
        "kinds": kinds,
        "columns": columns,
        "segments": rows,
    }


def _answer(trace: TurnTrace, texts: Texts | None) -> str:
    entry_id = next((s.origin.entry_id for s in trace.segments if s.kind == "current message"), None)
    return texts.answer(entry_id) if texts and entry_id else ""


def _redact(data: dict[str, Any]) -> None:
    for node in data["nodes"]:
        for decision in node["decisions"]:
            decision.pop("data", None)
