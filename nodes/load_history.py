"""load_history: rebuild the working set from the active path of the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodes.state import TurnContext, TurnState
from turngraph.decisions import Decision
from turngraph.tokens import total

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


READ = {
    "tail": "opened from its end",
    "full": "opened whole",
    "new": "a new transcript",
    "kept": "kept from the last turn",
}


async def load_history(_state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
    """LangGraph node: what the transcript shows from its leaf back to the last compaction.

    Source: spec/sessions.md section 4.6, design.md "Cost grows with what is visible".
    """
    transcript = runtime.context.opened
    history = transcript.context()
    report = transcript.report
    folded = f", behind a summary of what came before {history.compaction.id}" if history.compaction else ""
    decisions = [
        Decision(
            node="load_history",
            what="kept",
            why=(
                f"{len(history.messages)} visible messages{folded}; "
                f"{READ[report.mode]}, {report.bytes_read} of {report.bytes_total} bytes read"
            ),
            count_after=len(history.messages),
            tokens_after=total(runtime.context.counter, history.messages),
        )
    ]
    if report.broken_lines:
        lines = ", ".join(str(number) for number in report.broken_lines[:10])
        decisions.append(
            Decision(
                node="load_history",
                what="repaired",
                why=f"{len(report.broken_lines)} broken lines were left out (lines {lines})",
                count_before=len(report.broken_lines),
            )
        )
    decisions.extend(Decision(node="load_history", what="repaired", why=repair) for repair in report.repairs)
    return {"messages": history.messages, "decisions": tuple(decisions)}
