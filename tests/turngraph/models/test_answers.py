"""Answers of langchain models as transcript messages: calls, stop reasons, usage."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

from turngraph.models.answers import assistant_message


def taken(message: AIMessage) -> dict[str, Any]:
    made = assistant_message(message, timestamp_ms=5, provider="openai", model="m", api="openai-completions")
    return dict(made.raw)


def chunk(args: str) -> AIMessageChunk:
    piece: Any = {"name": "write", "args": args, "id": "c1", "index": 0, "type": "tool_call_chunk"}
    return AIMessageChunk(content="", tool_call_chunks=[piece])


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("tool_calls", "toolUse"),
        ("content_filter", "error"),
        ("SAFETY", "error"),
        ("refusal", "error"),
        ("something new", "stop"),
    ],
)
def test_finish_reasons_become_stop_reasons(reason: str, stop: str) -> None:
    raw = taken(AIMessage(content="x", response_metadata={"finish_reason": reason}))
    assert raw["stopReason"] == stop
    assert ("errorMessage" in raw) == (stop == "error")


def test_arguments_that_were_cut_off_are_not_closed_into_valid_ones() -> None:
    cut = chunk('{"path": "a", "content": "hal')
    assert cut.tool_calls[0]["args"] == {"path": "a", "content": "hal"}  # what langchain makes of it
    assert taken(cut)["content"][0]["arguments"] == '{"path": "a", "content": "hal'


def test_whole_arguments_of_a_stream_are_read_and_empty_ones_are_an_empty_object() -> None:
    assert taken(chunk('{"path": ') + chunk('"日本語"}'))["content"][0]["arguments"] == {"path": "日本語"}
    assert taken(chunk(""))["content"][0]["arguments"] == {}


def test_an_invalid_call_is_kept() -> None:
    bad: Any = {"name": "read", "args": "{nope", "id": "c1", "error": "no JSON", "type": "invalid_tool_call"}
    block = {"type": "toolCall", "id": "c1", "name": "read", "arguments": "{nope"}
    assert taken(AIMessage(content="", invalid_tool_calls=[bad]))["content"] == [block]


def test_an_answer_that_ran_out_of_room_is_cut_though_it_calls_a_tool() -> None:
    call: Any = {"name": "read", "args": {}, "id": "c1", "type": "tool_call"}
    raw = taken(AIMessage(content="", tool_calls=[call], response_metadata={"finish_reason": "length"}))
    assert raw["stopReason"] == "length"


@pytest.mark.parametrize(
    ("details", "read", "write"),
    [
        ({}, 0, 0),
        ({"cache_read": 30, "cache_creation": 20}, 30, 20),
        ({"cache_read": 30, "cache_creation": 0, "ephemeral_5m_input_tokens": 20}, 30, 20),
    ],
)
def test_input_is_what_the_cache_neither_gave_nor_took(details: Any, read: int, write: int) -> None:
    usage: Any = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": details}
    assert taken(AIMessage(content="x", usage_metadata=usage))["usage"] == {
        "input": 100 - read - write,
        "output": 7,
        "cacheRead": read,
        "cacheWrite": write,
        "totalTokens": 107,
    }


def test_texts_of_a_stream_are_one_text() -> None:
    parts: list[Any] = ["Hel", {"type": "text", "text": "lo", "index": 0}, {"type": "text", "text": ""}]
    assert taken(AIMessage(content=parts))["content"] == [{"type": "text", "text": "Hello"}]
