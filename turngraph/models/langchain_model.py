"""Any langchain-core chat model behind our seam."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from turngraph.clock import Clock, SystemClock, to_ms
from turngraph.errors import ModelError
from turngraph.models.langchain_messages import assistant_message, to_langchain
from turngraph.models.model import Delta, Finished, ModelEvent, ModelFacts, ModelRequest
from turngraph.models.provider_errors import model_error

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage


class LangChainModel:
    """Answers with a langchain-core chat model; streams where the model streams.

    Args:
        chat: the chat model, ready to use.
        facts: what the pipeline must know of it.
        clock: time of the answers.
        shape: last change to the messages and keyword arguments before the call (cache control and the like).
    """

    def __init__(
        self,
        chat: BaseChatModel,
        facts: ModelFacts,
        *,
        clock: Clock | None = None,
        shape: Callable[[list[BaseMessage], ModelRequest], list[BaseMessage]] | None = None,
    ) -> None:
        self._chat = chat
        self._facts = facts
        self._clock = clock or SystemClock()
        self._shape = shape

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        from langchain_core.messages import SystemMessage

        messages: list[BaseMessage] = to_langchain(request.messages)
        if request.system:
            messages.insert(0, SystemMessage(content=request.system))
        if self._shape:
            messages = self._shape(messages, request)
        answer: AIMessageChunk | None = None
        try:
            runnable: Any = self._chat
            if request.tools:
                runnable = self._chat.bind_tools([_tool(spec) for spec in request.tools])
            arguments = {"max_tokens": request.max_output_tokens} if request.max_output_tokens else {}
            async for chunk in runnable.astream(messages, **arguments):
                delta = _delta(chunk)
                if delta is not None:
                    yield delta
                answer = chunk if answer is None else answer + chunk
        except ModelError:
            raise
        except Exception as error:
            raise model_error(error, self._facts.name) from error
        if answer is None:
            raise ModelError(f"{self._facts.name} sent an empty answer", kind="server", retryable=True)
        yield Finished(
            assistant_message(
                answer,
                timestamp_ms=to_ms(self._clock.now()),
                provider=self._facts.provider,
                model=self._facts.model_id,
                api=self._facts.api,
            )
        )


def _tool(spec: Any) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _delta(chunk: AIMessageChunk) -> Delta | None:
    if isinstance(chunk.content, str):
        return Delta(text=chunk.content) if chunk.content else None
    text = "".join(
        part if isinstance(part, str) else str(part.get("text", ""))
        for part in chunk.content
        if isinstance(part, str) or part.get("type") == "text"
    )
    thinking = "".join(
        str(part.get("thinking", ""))
        for part in chunk.content
        if isinstance(part, dict) and part.get("type") == "thinking"
    )
    return Delta(text=text, thinking=thinking) if text or thinking else None
