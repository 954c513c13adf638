"""The replay model and its tools: they give what a transcript recorded (spec/seeing.md section 4)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from turngraph.clock import FixedClock, from_ms
from turngraph.messages import Message
from turngraph.models.model import Delta, Exhausted, Finished, ModelEvent, ModelFacts, ModelRequest


class RecordedModel:
    """Plays the recorded assistant messages of one turn, in order.

    Args:
        answers: the assistant messages of the turn, oldest first.
        facts: what the recorded model was, with the context window of the replay.
        clock: moved on to the time of each answer.
        watch: told of each request that is answered, and of its answer, before the clock moves on.
    """

    def __init__(
        self,
        answers: Sequence[Message],
        facts: ModelFacts,
        *,
        clock: FixedClock | None = None,
        watch: Callable[[ModelRequest, Message], None] | None = None,
    ) -> None:
        self._answers = list(answers)
        self._facts = facts
        self._clock = clock
        self._watch = watch

    @property
    def remaining(self) -> int:
        """Number of answers that were not asked for yet."""
        return len(self._answers)

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if not self._answers:
            yield Exhausted("the record of this turn ends here")
            return
        message = self._answers.pop(0)
        if self._watch is not None:
            self._watch(request, message)
        if self._clock is not None and message.timestamp_ms is not None:
            self._clock.at = max(self._clock.at, from_ms(message.timestamp_ms))
        if message.text:
            yield Delta(text=message.text)
        yield Finished(message)


def recorded_results(messages: Sequence[Message]) -> Mapping[str, list[Message]]:
    """Return the recorded tool results of a turn by call id, in the order of the record."""
    results: dict[str, list[Message]] = {}
    for message in messages:
        if message.role == "toolResult":
            results.setdefault(message.tool_call_id, []).append(message)
    return results


def plain_facts(raw: Mapping[str, Any], context_window: int) -> ModelFacts:
    """Return the facts of the model that gave a recorded assistant message."""

    def text(key: str, default: str) -> str:
        value = raw.get(key)
        return value if isinstance(value, str) and value else default

    api = raw.get("api")
    return ModelFacts(
        provider=text("provider", "recorded"),
        model_id=text("model", "unknown"),
        api=api if isinstance(api, str) else None,
        context_window=context_window,
    )
