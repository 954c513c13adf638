"""The turn graph: what happens to one inbound message, node by node (design.md, One turn)."""

from __future__ import annotations

from functools import cache
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.agent_loop import build_agent_loop
from graphs.choice import Choice
from graphs.observed import observed
from nodes.budget import budget
from nodes.command import command
from nodes.compact import compact
from nodes.guard_tools import guard_tools
from nodes.limit_history import limit_history
from nodes.load_bootstrap import load_bootstrap
from nodes.load_history import load_history
from nodes.memory_flush import memory_flush
from nodes.persist import persist
from nodes.prompt import prompt_with
from nodes.prune import prune
from nodes.resolve_session import resolve_session
from nodes.sanitize import sanitize
from nodes.shrink import shrink
from nodes.state import TurnContext, TurnState

TurnGraph = CompiledStateGraph[TurnState, TurnContext, TurnState, TurnState]

# A fuse only: the loop is bounded by maxModelCalls, recovery by Attempts (spec/spike.md section 1).
RECURSION_LIMIT = 5000


@cache
def turn_graph() -> TurnGraph:
    """Return the turn graph of this process, compiled once; everything that varies is in its context."""
    return build_turn_graph()


def build_turn_graph() -> TurnGraph:
    """Compile the turn graph."""
    graph: Any = StateGraph(TurnState, context_schema=TurnContext)
    nodes: tuple[Any, ...] = (
        *(resolve_session, command, load_bootstrap, load_history, sanitize, limit_history, guard_tools, prune),
        *(budget, memory_flush, compact, prompt_with(build_agent_loop()), shrink, persist),
    )
    for node in nodes:
        graph.add_node(node.__name__, observed(node, schema=TurnState))
    route = Choice("route")
    graph.add_edge(START, "resolve_session")
    graph.add_conditional_edges(
        "resolve_session", route, {"turn": "load_bootstrap", "command": "command", "compact now": "load_history"}
    )
    graph.add_edge("command", "persist")
    graph.add_edge("load_bootstrap", "load_history")
    graph.add_edge("load_history", "sanitize")
    graph.add_edge("sanitize", "limit_history")
    graph.add_edge("limit_history", "guard_tools")
    graph.add_edge("guard_tools", "prune")
    graph.add_edge("prune", "budget")
    graph.add_conditional_edges(
        "budget", route, {"flush due": "memory_flush", "compact due": "compact", "fits": "prompt"}
    )
    graph.add_edge("memory_flush", "budget")
    graph.add_conditional_edges(
        "compact",
        route,
        {"compacted": "load_history", "not compacted": "prompt", "shrink due": "shrink", "answered": "persist"},
    )
    graph.add_conditional_edges(
        "prompt", route, {"answered": "persist", "compact due": "compact", "shrink due": "shrink"}
    )
    graph.add_edge("shrink", "load_history")
    graph.add_edge("persist", END)
    return graph.compile(name="turn")  # type: ignore[no-any-return]
