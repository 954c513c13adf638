"""A model that says what it is told: for our tests and for those of users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from turngraph.messages import Message
from turngraph.models.model import Delta, Exhausted, Finished, ModelEvent, ModelFacts, ModelRequest

Answer = str | Mapping[str, Any] | list[dict[str, Any]] | Message | BaseException | Callable[[ModelRequest], Any]


class ScriptedModel:
    """Gives queued answers in order; ``requests`` keeps what it was asked.

    An answer is a text, a raw assistant message (or parts of one: ``content``, ``usage``, ``stopReason``), an
    exception to raise, or a function of the request that returns one of these. ``then`` answers when the queue is
    empty; without it the turn ends there.
    """

    def __init__(
        self, answers: Iterable[Answer] = (), *, then: Answer | None = None, facts: ModelFacts | None = None
    ) -> None:
        self._answers = list(answers)
        self._then = then
        self._facts = facts or ModelFacts(provider="scripted", model_id="scripted", context_window=200_000)
        self.requests: list[ModelRequest] = []

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    def enqueue(self, *answers: Answer) -> None:
        """Add answers to the end of the queue."""
        self._answers.extend(answers)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        answer = self._answers.pop(0) if self._answers else self._then
        if callable(answer):
            answer = answer(request)
        if answer is None:
            yield Exhausted("the script has no further answer")
            return
        if isinstance(answer, BaseException):
            raise answer
        message = _assistant(answer, self._facts)
        for word in _words(message.text):
            yield Delta(text=word)
        yield Finished(message)


def _assistant(answer: Any, facts: ModelFacts) -> Message:
    if isinstance(answer, Message):
        return answer
    parts: dict[str, Any] = {"content": answer} if isinstance(answer, (str, list)) else dict(answer)
    content = parts.get("content", [])
    if isinstance(content, str):
        parts["content"] = [{"type": "text", "text": content}]
    calls = any(block.get("type") == "toolCall" for block in parts["content"])
    defaults = {
        "role": "assistant",
        "api": facts.api or "scripted",
        "provider": facts.provider,
        "model": facts.model_id,
        "stopReason": "toolUse" if calls else "stop",
    }
    return Message(defaults | parts)


def _words(text: str) -> list[str]:
    words: list[str] = []
    start = 0
    for index, char in enumerate(text):
        if char == " ":
            words.append(text[start : index + 1])
            start = index + 1
    return words + ([text[start:]] if start < len(text) else [])
