"""One call of a plugin's function: within its time limit, with its answer checked, and without harm to the caller."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TIMEOUT_S = 15.0  # spec/settings.md section 8
HOOK_TIMEOUT_S = {
    "agent_end": 30.0,
    "before_compaction": 30.0,
    "after_compaction": 30.0,
    "write_summary": 300.0,
    "gateway_stop": 5.0,
}

Answer = TypeVar("Answer")


class CallFailed(Exception):
    """A plugin's function that gave no usable answer; the text completes "plugin x ..." and holds no user data."""

    def __init__(self, fault: str, *, only_warn: bool = False) -> None:
        self.only_warn = only_warn
        super().__init__(fault)


@dataclass(frozen=True, slots=True)
class Handler:
    """One plugin's function for one hook.

    Attributes:
        plugin: id of the plugin.
        call: its function; ``arguments`` are the fields of the event it takes.
        priority: higher runs first.
        timeout_s: limit of the plugin's own; ``None`` for the hook's.
    """

    plugin: str
    call: Callable[..., Any]
    arguments: tuple[str, ...]
    priority: int = 0
    timeout_s: float | None = None

    def run(self, event: Mapping[str, Any]) -> Any:
        """Call the function with the fields it asks for; one that this event has no value for is ``None``."""
        return self.call(**{name: event.get(name) for name in self.arguments})


async def ask(hook: str, handler: Handler, event: Mapping[str, Any], wanted: type[Answer]) -> Answer | None:
    """Return the answer of one plugin to an awaited hook; with ``wanted`` ``object`` whatever it says is ignored.

    Raises:
        CallFailed: it raised, took too long, or answered with another type.
    """
    limit_s = handler.timeout_s or HOOK_TIMEOUT_S.get(hook, TIMEOUT_S)
    try:
        if inspect.iscoroutinefunction(handler.call):
            answer = await asyncio.wait_for(handler.run(event), limit_s)
        else:
            answer = await asyncio.wait_for(_in_thread(handler, event), limit_s)
    except TimeoutError as error:
        raise CallFailed(f"took longer than {limit_s:g} s") from error
    except Exception as error:  # whatever a plugin raises, it does not end the turn
        raise CallFailed(_fault(error)) from error
    return _checked(answer, wanted)


def ask_now(handler: Handler, event: Mapping[str, Any], wanted: type[Answer]) -> Answer | None:
    """Return the answer of one plugin to a message hook.

    Raises:
        CallFailed: it raised, answered with another type, or with a coroutine that nobody awaits.
    """
    try:
        answer = handler.run(event)
    except Exception as error:  # whatever a plugin raises, the message is still written
        raise CallFailed(_fault(error)) from error
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise CallFailed("answered with a coroutine, which is ignored: make it a plain def", only_warn=True)
    return _checked(answer, wanted)


def _checked(answer: Any, wanted: type[Answer]) -> Answer | None:
    if wanted is object or answer is None:
        return None
    if not isinstance(answer, wanted):
        raise CallFailed(f"answered with {type(answer).__name__} where {wanted.__name__} or None is expected")
    return answer


def _fault(error: Exception) -> str:
    """Name the error and its place; its text may hold what a user wrote."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace else "an unknown line"
    return f"raised {type(error).__name__} at {place}"


def _in_thread(handler: Handler, event: Mapping[str, Any]) -> asyncio.Future[Any]:
    """Run a plain function beside the event loop, so that a time limit can hold.

    A daemon thread and not the loop's pool: a function that never ends must not hold up the end of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(method: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            method(value)

    def work() -> None:
        outcome: tuple[Callable[[Any], None], Any]
        try:
            outcome = (future.set_result, context.run(handler.run, event))
        except Exception as error:  # handed to whoever awaits the future
            outcome = (future.set_exception, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=work, name=f"plugin {handler.plugin}", daemon=True).start()
    return future
