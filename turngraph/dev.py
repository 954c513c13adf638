"""The graph that ``langgraph dev`` serves: its context is plain JSON, and each run builds the real one from it.

Run: ``langgraph dev --allow-blocking`` (langgraph-cli 0.4): without that flag the server refuses any call that reads a
file from the event loop, and the nodes read their few files where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from graphs.turn import TurnGraph, turn_graph


@dataclass
class DevContext:
    """What a client of the dev server can name.

    Attributes:
        home: home folder, else ``TURNGRAPH_HOME`` or ``~/.turngraph``.
        session_key: session to run in, else the one the text belongs to.
        model: model name, else as the settings say.
    """

    home: str | None = None
    session_key: str | None = None
    model: str | None = None


class DevState(TypedDict, total=False):
    """A text in; the reply and what was decided out."""

    text: str
    reply: str
    decisions: list[str]


def turn_with(graph: TurnGraph) -> Callable[[DevState, Runtime[DevContext]], Coroutine[Any, Any, DevState]]:
    """Return the node around the turn graph, which is drawn as its subgraph."""

    async def turn(state: DevState, runtime: Runtime[DevContext]) -> DevState:
        from turngraph.api import open_home

        wanted = runtime.context or DevContext()
        agent = open_home(wanted.home).agent(model=wanted.model)
        result = await agent.turn(state["text"], graph=graph, session_key=wanted.session_key)
        lines = [f"{decision.node}: {decision.why}" for _, decision in result.trace.decisions]
        return {"reply": result.text, "decisions": lines}

    return turn


def make() -> Any:
    """Return the compiled graph; cheap, since the dev server asks for it with each request."""
    graph: Any = StateGraph(DevState, context_schema=DevContext)
    graph.add_node("turn", turn_with(turn_graph()))
    graph.add_edge(START, "turn")
    graph.add_edge("turn", END)
    return graph.compile(name="turngraph")
