"""``turngraph export``: traces as OpenTelemetry spans, to a file or to an OTLP address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turngraph.cli.options import AgentOption, HomeOption, JsonOption, find_home, print_json
from turngraph.errors import NotFound


def export(
    session: Annotated[str | None, typer.Argument(help="Session key; else all sessions.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File of spans, one JSON object a line.")] = None,
    endpoint: Annotated[
        str | None, typer.Option("--otlp", help="OTLP address, such as http://127.0.0.1:4318/v1/traces.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Newest turns only.")] = None,
    home: HomeOption = None,
    agent: AgentOption = None,
    traces: Annotated[
        Path | None, typer.Option("--traces", help="Read the output folder of a replay in place of the home.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Export traced turns as OpenTelemetry spans; texts of the conversation are not part of them.

    Example: turngraph export main --out spans.jsonl
    """
    if (out is None) == (endpoint is None):
        raise typer.BadParameter("give one of --out FILE and --otlp ADDRESS")
    try:
        import opentelemetry.sdk.trace  # noqa: F401

        from turngraph.viewer.otel import send_spans, write_spans
    except ImportError as error:
        raise NotFound('spans need OpenTelemetry: pip install "turngraph[otel]"') from error
    from turngraph.viewer.sources import TurnSource

    source = TurnSource.of_folder(traces) if traces else TurnSource.of_home(find_home(home), agent)
    key = source.key(session) if session else None
    found = source.reader.turns(session_key=key, limit=limit)
    if not found:
        raise NotFound(f"no traced turn in {source.reader.root}")
    count = write_spans(found, out) if out else send_spans(found, endpoint or "")
    if json:
        print_json({"turns": len(found), "spans": count, "to": str(out or endpoint)})
    else:
        print(f"{count} spans of {len(found)} turns to {out or endpoint}")
