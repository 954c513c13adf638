"""The agent loop: assemble the request, call the model, run its tools, and again."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from graphs.choice import Choice
from graphs.observed import observed
from nodes.assemble import assemble
from nodes.call_model import model
from nodes.loop_state import LoopInput, LoopOutput, LoopState
from nodes.run_tools import tools
from nodes.state import TurnContext


def build_agent_loop() -> CompiledStateGraph[Any, TurnContext, Any, Any]:
    """Compile the loop that the prompt node runs."""
    graph: Any = StateGraph(LoopState, context_schema=TurnContext, input_schema=LoopInput, output_schema=LoopOutput)
    for node in (assemble, model, tools):
        graph.add_node(node.__name__, observed(node, schema=LoopState, prefix="prompt:"))
    next_step = Choice("step")
    graph.add_edge(START, "assemble")
    graph.add_conditional_edges("assemble", next_step, {"request": "model", "does not fit": END})
    graph.add_conditional_edges(
        "model", next_step, {"calls tools": "tools", "queued messages": "assemble", "done": END}
    )
    graph.add_conditional_edges("tools", next_step, {"results": "assemble"})
    return graph.compile(name="agent_loop")  # type: ignore[no-any-return]
