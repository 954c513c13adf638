"""Traces as OpenTelemetry spans with the GenAI conventions: a span a turn, below it one a node, decisions as events.

Needs the extra ``otel``. Ids follow from the trace, so that exporting twice gives the same spans.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turngraph.decisions import Decision, NodeRun, TurnTrace
from turngraph.errors import StoreError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

USAGE = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cacheRead": "gen_ai.usage.cache_read.input_tokens",
    "cacheWrite": "gen_ai.usage.cache_creation.input_tokens",
}
MODEL_NODE = "prompt:model"
TOOL_NODE = "prompt:tools"


def spans(traces: Sequence[TurnTrace]) -> Iterator[ReadableSpan]:
    """Yield the spans of turns, each turn before its nodes."""
    for trace in traces:
        yield _turn_span(trace)
        for run in trace.nodes:
            yield _node_span(run, trace)


def write_spans(traces: Sequence[TurnTrace], path: Path) -> int:
    """Write the spans to a file, one JSON object a line; return how many.

    Raises:
        OSError: the file cannot be written.
    """
    lines = [json.dumps(json.loads(span.to_json()), ensure_ascii=False) for span in spans(traces)]
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(path)
    return len(lines)


def send_spans(traces: Sequence[TurnTrace], endpoint: str) -> int:
    """Send the spans to an OTLP address over HTTP; return how many.

    Raises:
        StoreError: the address did not take them.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    made = list(spans(traces))
    exporter = OTLPSpanExporter(endpoint=endpoint)
    try:
        outcome = exporter.export(made)
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    if outcome is not SpanExportResult.SUCCESS:
        raise StoreError(f"{endpoint} did not take the spans; is a collector listening there?")
    return len(made)


def _turn_span(trace: TurnTrace) -> ReadableSpan:
    facts = trace.facts
    provider, _, model = str(facts.get("model") or ":").partition(":")
    usage = dict(facts.get("reported_usage") or {})
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.agent.id": trace.agent_id,
        "gen_ai.conversation.id": trace.session_id,
        **{USAGE[name]: int(value) for name, value in usage.items() if name in USAGE},
        "turngraph.session_key": trace.session_key,
        "turngraph.turn": trace.turn,
        "turngraph.trigger": facts.get("trigger"),
        "turngraph.prompt_tokens": facts.get("prompt_tokens"),
        "turngraph.window_tokens": facts.get("window_tokens"),
        "turngraph.compactions": facts.get("compactions"),
        "turngraph.flushes": facts.get("flushes"),
    }
    name = f"invoke_agent {trace.agent_id}"
    return _span(name, trace, None, trace.started, trace.ended, attributes, (), facts.get("error"))


def _node_span(run: NodeRun, trace: TurnTrace) -> ReadableSpan:
    operation = {MODEL_NODE: "chat", TOOL_NODE: "execute_tool"}.get(run.node)
    provider, _, model = str(trace.facts.get("model") or ":").partition(":")
    attributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider if operation == "chat" else None,
        "gen_ai.request.model": model if operation == "chat" else None,
        "turngraph.node": run.node,
        "turngraph.route": run.route,
        "turngraph.why": run.why or None,
        "turngraph.messages_in": run.messages_in,
        "turngraph.messages_out": run.messages_out,
        "turngraph.tokens_in": run.tokens_in,
        "turngraph.tokens_out": run.tokens_out,
        "turngraph.digest": run.digest,
    }
    decisions = tuple(decision for ordinal, decision in trace.decisions if ordinal == run.ordinal)
    ended = run.started + timedelta(milliseconds=run.duration_ms)
    name = f"chat {model}" if operation == "chat" else run.node
    return _span(name, trace, run, run.started, ended, attributes, decisions, run.error)


def _span(
    name: str,
    trace: TurnTrace,
    run: NodeRun | None,
    started: datetime,
    ended: datetime,
    attributes: dict[str, Any],
    decisions: Sequence[Decision],
    error: Any,
) -> ReadableSpan:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanKind, Status, StatusCode

    events = [
        Event(
            f"turngraph.decision.{decision.what}",
            {"turngraph.node": decision.node, "turngraph.why": decision.why},
            timestamp=_nanoseconds(started),
        )
        for decision in decisions
    ]
    failed = Status(StatusCode.ERROR, str(error).partition(":")[0]) if error else Status(StatusCode.UNSET)
    return ReadableSpan(
        name=name,
        context=_context(trace, run),
        parent=None if run is None else _context(trace, None),
        attributes={key: value for key, value in attributes.items() if value is not None},
        events=events,
        kind=SpanKind.CLIENT if run is not None and run.node == MODEL_NODE else SpanKind.INTERNAL,
        status=failed,
        start_time=_nanoseconds(started),
        end_time=_nanoseconds(ended),
    )


def _context(trace: TurnTrace, run: NodeRun | None) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    digest = sha256(trace.trace_id.encode()).digest()
    seed = f"{trace.trace_id}:{'turn' if run is None else run.ordinal}"
    return SpanContext(
        int.from_bytes(digest[:16], "big"),
        int.from_bytes(sha256(seed.encode()).digest()[:8], "big"),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )


def _nanoseconds(moment: datetime) -> int:
    return int((moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000
