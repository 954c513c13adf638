"""The state of the agent loop: model and tools in turn until the model has nothing left to call.

The loop is a subgraph with a schema of its own: it takes no reduced field in, so that what a reducer adds is not
added twice on the way out (spec/spike.md section 1).
"""

from __future__ import annotations

import operator
from typing import Annotated

from typing_extensions import TypedDict

from nodes.state import Attempts, ContextNote, Reply, Route, Section, SessionFacts
from turngraph.decisions import Decision
from turngraph.errors import ModelError
from turngraph.inbound import Inbound
from turngraph.messages import Message, ToolCall
from turngraph.models.model import ModelRequest


class LoopInput(TypedDict, total=False):
    """What the prompt node hands to the loop."""

    inbound: Inbound
    session: SessionFacts
    system: tuple[Section, ...]
    messages: tuple[Message, ...]
    notes: tuple[ContextNote, ...]
    user_entry_id: str | None
    attempts: Attempts


class LoopOutput(TypedDict, total=False):
    """What comes back: the loop's own decisions only."""

    messages: tuple[Message, ...]
    route: Route
    why: str
    reply: Reply | None
    failure: ModelError | None
    decisions: Annotated[tuple[Decision, ...], operator.add]


class LoopState(LoopInput, LoopOutput, total=False):
    """Everything inside the loop.

    Keys of its own:
        request: what is sent next. calls: tool calls of the last answer that still have to run.
        model_calls: calls made so far. step: where the loop goes next.
    """

    request: ModelRequest | None
    calls: tuple[ToolCall, ...]
    model_calls: int
    step: str
