"""Replay tools: they give the recorded result of a call and touch nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turngraph.messages import Message, text_block
from turngraph.models.model import ToolSpec
from turngraph.models.recorded import recorded_results
from turngraph.tools.tool import Tool, ToolContext, ToolResult

NO_RECORD_TEXT = "No result was recorded for this call."


@dataclass(slots=True)
class RecordedTool:
    """Answers calls of one name from the record, by call id.

    ``unmatched`` holds the ids of calls for which the record has nothing; the replay is counterfactual from there.
    """

    spec: ToolSpec
    results: Mapping[str, list[Message]]
    unmatched: list[str] = field(default_factory=list)

    def file_argument(self, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def execute(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        queue = self.results.get(context.call_id)
        if not queue:
            self.unmatched.append(context.call_id)
            return ToolResult([text_block(NO_RECORD_TEXT)], is_error=True)
        message = queue.pop(0)
        details = message.raw.get("details")
        return ToolResult(
            [dict(block) for block in message.blocks],
            details if isinstance(details, dict) else {},
            is_error=message.is_error,
        )


def recorded_tools(names: Iterable[str], results: Sequence[Message]) -> tuple[Tool, ...]:
    """Return a tool for each name, in the order of the names; ``results`` are those of the turn.

    A replay offers what the whole session calls in every turn, as a live agent does: tools that come and go would
    break the prompt cache at its first token.
    """
    by_call = recorded_results(results)
    return tuple(RecordedTool(recorded_spec(name), by_call) for name in sorted(set(names)))


def recorded_spec(name: str) -> ToolSpec:
    """Return what the model is told of a tool that only the record knows."""
    return ToolSpec(name, f"Recorded calls of {name}.", {"type": "object"})
