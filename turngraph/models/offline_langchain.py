"""The offline model as a chat model of langchain-core, for programs that take one of those.

>>> from langchain_core.messages import HumanMessage
>>> OfflineChat().invoke([HumanMessage("Where is my bike?")]).content
'Memory cannot be searched here, so I cannot look this up.'
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage, ToolMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.messages import Message, text_block
from turngraph.models.model import ModelRequest, ToolSpec
from turngraph.models.offline import answer
from turngraph.tokens import default_counter


class OfflineChat(BaseChatModel):
    """Answers from memory through the memory tools that are bound to it."""

    @property
    def _llm_type(self) -> str:
        return "turngraph-offline"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools in any form that langchain-core knows."""
        del tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        answered = _answer(messages, kwargs)
        calls = [
            {"id": call.id, "name": call.name, "args": dict(call.arguments), "type": "tool_call"}
            for call in answered.tool_calls
        ]
        message = AIMessage(content=answered.text, tool_calls=calls, usage_metadata=_usage(answered))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        import json

        answered = _answer(messages, kwargs)
        for word in re.findall(r"\s*\S+\s*", answered.text):
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        calls = [
            tool_call_chunk(name=call.name, args=json.dumps(dict(call.arguments)), id=call.id, index=index)
            for index, call in enumerate(answered.tool_calls)
        ]
        last = AIMessageChunk(content="", tool_call_chunks=calls, usage_metadata=_usage(answered))
        yield ChatGenerationChunk(message=last)


def _answer(messages: Sequence[BaseMessage], options: dict[str, Any]) -> Message:
    system = "\n\n".join(str(message.text) for message in messages if isinstance(message, SystemMessage))
    specs = tuple(_spec(tool["function"]) for tool in options.get("tools") or ())
    spoken = tuple(_message(message) for message in messages if not isinstance(message, SystemMessage))
    return answer(ModelRequest(system, spoken, specs), default_counter())


def _spec(function: dict[str, Any]) -> ToolSpec:
    return ToolSpec(function["name"], function.get("description", ""), function.get("parameters", {}))


def _message(message: BaseMessage) -> Message:
    content: list[dict[str, Any]] = [text_block(str(message.text))]
    if isinstance(message, ToolMessage):
        raw: dict[str, Any] = {"role": "toolResult", "toolCallId": message.tool_call_id, "toolName": message.name or ""}
        return Message(raw | {"content": content, "isError": message.status == "error"})
    if isinstance(message, AIMessage):
        calls = [
            {"type": "toolCall", "id": call["id"], "name": call["name"], "arguments": call["args"]}
            for call in message.tool_calls
        ]
        return Message({"role": "assistant", "content": [*content, *calls]})
    return Message({"role": "user", "content": content})


def _usage(message: Message) -> UsageMetadata:
    usage = message.usage or {}
    return UsageMetadata(
        input_tokens=usage.get("input", 0),
        output_tokens=usage.get("output", 0),
        total_tokens=usage.get("totalTokens", 0),
    )
