"""The wrapper around every node: times it, checks its update, and keeps its decisions for the trace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

from nodes.state import TurnContext, TurnState
from turngraph.clock import monotonic_ms
from turngraph.decisions import NodeRun
from turngraph.history import digest_of
from turngraph.tokens import total

if TYPE_CHECKING:
    from langgraph.runtime import Runtime


class Node(Protocol):
    """A node as ``add_node`` wants it."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, state: TurnState, runtime: Runtime[TurnContext]) -> Coroutine[Any, Any, dict[str, Any]]: ...


def observed(
    node: Callable[..., Coroutine[Any, Any, dict[str, Any]]],
    *,
    schema: type,
    prefix: str = "",
) -> Node:
    """Wrap ``node`` so that each run becomes a :class:`NodeRun` in the collector, whatever happens.

    Args:
        node: an async node function.
        schema: the state it belongs to; an update with a key that the schema does not have raises ``KeyError``,
            where langgraph would drop it in silence.
        prefix: of the node's name in the trace, for nodes of a subgraph.

    A node around a subgraph passes on decisions that the subgraph's own nodes have already left in the collector:
    each decision object is kept once.
    Source: spec/spike.md section 1.
    """
    known = frozenset(schema.__annotations__) | frozenset(
        key for base in schema.__mro__ for key in getattr(base, "__annotations__", {})
    )
    known |= frozenset(getattr(schema, "__required_keys__", ())) | frozenset(getattr(schema, "__optional_keys__", ()))
    name = f"{prefix}{node.__name__}"

    @wraps(node)
    async def run(state: TurnState, runtime: Runtime[TurnContext]) -> dict[str, Any]:
        context = runtime.context
        started, start_ms = context.clock.now(), monotonic_ms()
        ordinal = len(context.collector.runs)
        context.collector.runs.append(NodeRun(ordinal, name, started, 0.0))  # keeps the place of an outer node
        context.collector.tell("node_start", {"type": "node_start", "node": name, "ordinal": ordinal})
        update: dict[str, Any] = {}
        error: str | None = None
        try:
            update = await node(state, runtime)
            unknown = set(update) - known
            if unknown:
                raise KeyError(f"node {name} returned keys that the state does not have: {', '.join(sorted(unknown))}")
            kept = {id(decision) for _, decision in context.collector.decisions}
            context.collector.decisions.extend((ordinal, d) for d in update.get("decisions", ()) if id(d) not in kept)
            return update
        except asyncio.CancelledError:
            error = "cancelled"
            raise
        except BaseException as failure:
            error = f"{type(failure).__name__}: {failure}"
            raise
        finally:
            node_run = _node_run(context, ordinal, name, state, update, error, start_ms)
            context.collector.runs[ordinal] = node_run
            context.collector.tell(
                "node_end",
                {"type": "node_end", "node": name, "ordinal": ordinal, "ms": node_run.duration_ms, "error": error},
            )

    return run


def _node_run(
    context: TurnContext,
    ordinal: int,
    name: str,
    state: Mapping[str, Any],
    update: Mapping[str, Any],
    error: str | None,
    start_ms: float,
) -> NodeRun:
    duration_ms = monotonic_ms() - start_ms
    before = state.get("messages")
    after = update.get("messages", before)
    return NodeRun(
        ordinal=ordinal,
        node=name,
        started=context.collector.runs[ordinal].started,
        duration_ms=duration_ms,
        messages_in=None if before is None else len(before),
        messages_out=None if after is None else len(after),
        tokens_in=None if before is None else total(context.counter, before),
        tokens_out=None if after is None else total(context.counter, after),
        digest=None if after is None else digest_of(after),
        route=update.get("route") or update.get("step"),
        why=update.get("why"),
        error=error,
    )
