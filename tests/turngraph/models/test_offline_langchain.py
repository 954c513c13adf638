"""The offline model through langchain-core's own interface."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from turngraph.models.offline_langchain import OfflineChat


@tool
def memory_search(query: str) -> str:
    """Search notes."""
    return json.dumps({"results": [], "searched": {"files": 2}, "asked": query})


def test_a_tool_loop_of_langchain_ends_with_an_answer() -> None:
    chat = OfflineChat().bind_tools([memory_search])
    messages = [SystemMessage("You are kind."), HumanMessage("Wo ist mein Fahrrad?")]
    called = chat.invoke(messages)
    (call,) = called.tool_calls
    assert call["args"] == {"query": "Wo ist mein Fahrrad?"}
    result = ToolMessage(memory_search.invoke(call["args"]), tool_call_id=call["id"], name="memory_search")
    answered = chat.invoke([*messages, called, result])
    assert answered.content == "In meinen Notizen habe ich dazu nichts gefunden; durchsuchte Dateien: 2."
    assert answered.usage_metadata is not None
    assert answered.usage_metadata["total_tokens"] > 0


def test_what_is_streamed_adds_up_to_what_is_invoked() -> None:
    chat = OfflineChat().bind_tools([memory_search])
    for question in ("bike?", "Where is my bike?"):
        whole: Any = chat.invoke(question)
        pieces = list(chat.stream(question))
        joined: Any = pieces[0]
        for piece in pieces[1:]:
            joined += piece
        assert isinstance(joined, AIMessageChunk)
        assert (joined.content, joined.tool_calls) == (whole.content, whole.tool_calls)
    assert len(list(OfflineChat().stream("bike?"))) > 5
