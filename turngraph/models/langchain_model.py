"""Any langchain-core chat model behind our seam."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from turngraph.clock import Clock, SystemClock, to_ms
from turngraph.errors import ModelError
from turngraph.models.answers import assistant_message, finish_reason
from turngraph.models.langchain_messages import to_langchain
from turngraph.models.model import Delta, Finished, ModelEvent, ModelFacts, ModelRequest, ToolSpec
from turngraph.models.provider_errors import model_error
from turngraph.models.request_shape import Shape, call_arguments
from turngraph.text import well_formed

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage

# Protocols whose answers always end with a reason: without one the connection was cut, however quietly.
_TELLS_THE_END = frozenset({"openai-completions", "anthropic-messages", "google-generative-ai"})


class LangChainModel:
    """Answers with a langchain-core chat model; streams where the model streams.

    Args:
        chat: the chat model, ready to use.
        facts: what the pipeline must know of it.
        clock: time of the answers.
        shape: last change to the messages before the call (cache marks and the like).
        secrets: keys and tokens that no error may show.
    """

    def __init__(
        self,
        chat: BaseChatModel,
        facts: ModelFacts,
        *,
        clock: Clock | None = None,
        shape: Shape | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._chat = chat
        self._facts = facts
        self._clock = clock or SystemClock()
        self._shape = shape
        self._secrets = secrets

    @property
    def facts(self) -> ModelFacts:
        return self._facts

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer ``request``: deltas, then one :class:`Finished`.

        Raises:
            ModelError: the provider refused, could not be reached, or broke off.
        """
        answer: AIMessageChunk | None = None
        failure: ModelError | None = None
        try:
            async for chunk in self._chunks(request):
                delta = _delta(chunk)
                if delta is not None:
                    yield delta
                answer = chunk if answer is None else answer + chunk
        except ModelError:
            raise
        except Exception as error:
            failure = model_error(error, self._facts.name, self._secrets)
        if failure is not None:
            # Without its cause, whose text is the provider's and may repeat a key.
            raise failure
        self._check(answer)
        assert answer is not None
        yield Finished(
            assistant_message(
                answer,
                timestamp_ms=to_ms(self._clock.now()),
                provider=self._facts.provider,
                model=self._facts.model_id,
                api=self._facts.api,
            )
        )

    def _chunks(self, request: ModelRequest) -> AsyncIterator[AIMessageChunk]:
        from langchain_core.messages import SystemMessage

        messages: list[BaseMessage] = to_langchain(request.messages, self._facts)
        if request.system:
            messages.insert(0, SystemMessage(content=well_formed(request.system)))
        if self._shape:
            messages = self._shape(messages, request)
        runnable: Any = self._chat
        if request.tools:
            runnable = self._chat.bind_tools([_tool(spec) for spec in request.tools])
        chunks: AsyncIterator[AIMessageChunk] = runnable.astream(messages, **call_arguments(self._facts, request))
        return chunks

    def _check(self, answer: AIMessageChunk | None) -> None:
        if answer is None:
            raise ModelError(f"{self._facts.name} sent an empty answer", kind="server", retryable=True)
        if self._facts.api in _TELLS_THE_END and finish_reason(answer) is None:
            text = f"{self._facts.name} broke off its answer: it came without a finish reason"
            raise ModelError(text, kind="network", retryable=True)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": dict(spec.parameters)}
    return {"type": "function", "function": function}


def _delta(chunk: AIMessageChunk) -> Delta | None:
    if isinstance(chunk.content, str):
        return Delta(text=chunk.content) if chunk.content else None
    text = thinking = ""
    for part in chunk.content:
        if isinstance(part, str):
            text += part
        elif part.get("type") == "text":
            text += str(part.get("text") or "")
        elif part.get("type") == "thinking":
            thinking += str(part.get("thinking") or "")
    return Delta(text=text, thinking=thinking) if text or thinking else None
