"""What each provider gets beside the plain messages."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from tests.builders import assistant, call, result, thinking, user
from turngraph.messages import Message
from turngraph.models.model import ModelFacts, ModelRequest
from turngraph.models.request_shape import (
    CACHE_MARK,
    IMAGES_ABOVE,
    call_arguments,
    lift_images,
    mark_cache,
    name_results,
)

IMAGE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


def request(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(system=fields.pop("system", ""), messages=messages, **fields)


def marks(messages: list[BaseMessage]) -> list[tuple[int, str]]:
    return [
        (index, str(part.get("text")))
        for index, message in enumerate(messages)
        for part in (message.content if isinstance(message.content, list) else [])
        if isinstance(part, dict) and part.get("cache_control") == CACHE_MARK
    ]


def test_the_stable_prefix_and_the_last_user_turn_are_marked_for_the_cache() -> None:
    sent: list[BaseMessage] = [SystemMessage("stable|today"), HumanMessage("one"), AIMessage("a"), HumanMessage("two")]
    marked = mark_cache(sent, request(system="stable|today", stable_system_chars=7))
    assert marks(marked) == [(0, "stable|"), (3, "two")]
    assert marked[0].content[1] == {"type": "text", "text": "today"}
    assert sent[3].content == "two"


def test_in_a_tool_loop_the_results_are_marked_too() -> None:
    sent: list[BaseMessage] = [HumanMessage("one"), AIMessage("a"), ToolMessage("r", tool_call_id="t1")]
    assert marks(mark_cache(sent, request())) == [(0, "one"), (2, "r")]


def test_images_of_tool_results_move_behind_the_last_result() -> None:
    first = ToolMessage([{"type": "text", "text": "a picture"}, IMAGE], tool_call_id="t1")
    bare = ToolMessage([IMAGE], tool_call_id="t2")
    lifted = lift_images([AIMessage("x"), first, bare, HumanMessage("well?")])
    assert [message.type for message in lifted] == ["ai", "tool", "tool", "human"]
    assert lifted[1].content == [{"type": "text", "text": "a picture"}]
    assert lifted[2].content == "(an image, see below)"
    above, question = {"type": "text", "text": IMAGES_ABOVE}, {"type": "text", "text": "well?"}
    assert lifted[3].content == [above, IMAGE, IMAGE, question]
    assert lift_images([AIMessage("x"), bare])[-1].content == [above, IMAGE]


@pytest.mark.parametrize("text", ["NaN", '{"a": NaN}', "12", '{"a": 1}', "日本語"])
def test_gemini_reads_no_tool_result_as_json(text: str) -> None:
    from langchain_core.utils.json import parse_partial_json

    good, bad = name_results(
        [ToolMessage(text, tool_call_id="t1"), ToolMessage(text, tool_call_id="t2", status="error")]
    )
    assert parse_partial_json(str(good.content)) == {"output": text}
    assert parse_partial_json(str(bad.content)) == {"error": text}


def facts(provider: str, model: str, api: str, **more: Any) -> ModelFacts:
    return ModelFacts(provider, model, api, reasoning=True, **more)


OLD_CLAUDE = facts("anthropic", "claude-sonnet-4-5", "anthropic-messages")
NEW_CLAUDE = facts("anthropic", "claude-opus-5", "anthropic-messages")
GPT = facts("openai", "gpt-5", "openai-completions")
GEMINI_2 = facts("google_genai", "gemini-2.5-pro", "google-generative-ai")
GEMINI_3 = facts("google_genai", "gemini-3.5-flash", "google-generative-ai")
OLLAMA = facts("ollama", "qwen3", "ollama", context_window=32_768)


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (OLD_CLAUDE, {"max_tokens": 20_000, "thinking": {"type": "enabled", "budget_tokens": 8192}}),
        (NEW_CLAUDE, {"max_tokens": 20_000, "reasoning_effort": "medium"}),
        (GPT, {"max_tokens": 20_000, "reasoning_effort": "medium"}),
        (GEMINI_2, {"max_output_tokens": 20_000, "thinking_budget": 8192, "include_thoughts": True}),
        (GEMINI_3, {"max_output_tokens": 20_000, "thinking_level": "high", "include_thoughts": True}),
        (OLLAMA, {"options": {"num_ctx": 32_768, "num_predict": 20_000}, "reasoning": True}),
    ],
    ids=lambda value: value.model_id if isinstance(value, ModelFacts) else "",
)
def test_thinking_and_length_by_the_names_of_each_provider(model: ModelFacts, arguments: dict[str, Any]) -> None:
    assert call_arguments(model, request(user("hi"), max_output_tokens=20_000, thinking="medium")) == arguments


@pytest.mark.parametrize("model", [OLD_CLAUDE, NEW_CLAUDE, GPT, GEMINI_2, GEMINI_3], ids=lambda m: m.model_id)
def test_thinking_that_is_off_sends_nothing_about_it(model: ModelFacts) -> None:
    assert set(call_arguments(model, request(user("hi"), max_output_tokens=9))) <= {"max_tokens", "max_output_tokens"}


def test_a_tool_loop_that_began_without_thinking_goes_on_without() -> None:
    begun = (user("hi"), assistant(call("t1")), result("t1"))
    assert "thinking" not in call_arguments(OLD_CLAUDE, request(*begun, max_output_tokens=20_000, thinking="low"))
    begun = (user("hi"), assistant(thinking("hm", "sig"), call("t1")), result("t1"))
    assert "thinking" in call_arguments(OLD_CLAUDE, request(*begun, max_output_tokens=20_000, thinking="low"))


def test_a_budget_that_finds_no_room_in_the_answer_is_left_out() -> None:
    assert call_arguments(OLD_CLAUDE, request(user("hi"), max_output_tokens=2_000, thinking="high")) == {
        "max_tokens": 2_000
    }


def test_anthropic_is_told_a_longest_answer_even_when_nobody_asked() -> None:
    small = ModelFacts("anthropic", "claude-opus-5", "anthropic-messages", 16_000, 128_000)
    assert call_arguments(small, request(user("hi"))) == {"max_tokens": 2_000}
