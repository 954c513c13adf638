"""Messages to langchain-core and back: nothing is lost, and each provider gets what it takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import assistant, call, result, thinking, user
from turngraph.messages import Message
from turngraph.models.content_parts import GEMINI_CALL_SIGNATURES, IMAGE_LEFT_OUT, parts_in
from turngraph.models.langchain_messages import from_langchain, to_langchain
from turngraph.models.model import ModelFacts
from turngraph.text import well_formed

ANTHROPIC = ModelFacts("anthropic", "claude-sonnet-4-5", "anthropic-messages")
GEMINI = ModelFacts("google_genai", "gemini-2.5-flash", "google-generative-ai")
OPENAI = ModelFacts("openai", "gpt-4o", "openai-completions")
EVERY = [None, ANTHROPIC, GEMINI, OPENAI]
SIGNATURE = "c2lnbmVk"
PICTURE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(st.text(max_size=5), json_values, max_size=3)
blocks = st.one_of(
    st.builds(lambda t, more: {"unknown": more, "type": "text", "text": t}, st.text(max_size=12), json_values),
    st.builds(lambda t, s: thinking(t, s), st.text(max_size=8), st.none() | st.just(SIGNATURE)),
    st.just(dict(PICTURE)),
    st.builds(lambda o: {**o, "type": "someday"}, objects),
)
calls = st.builds(lambda a, n: {**call(f"c{n}", "read"), "arguments": a, "later": 1}, objects, st.integers(0, 99))
messages = st.one_of(
    st.builds(lambda c, more: user(c, more=more), st.lists(blocks, max_size=3) | st.text(max_size=9), json_values),
    st.builds(lambda c: assistant(*c), st.lists(blocks | calls, max_size=4)),
    st.builds(lambda c, e: result("c1", c, error=e), st.lists(blocks, max_size=3), st.booleans()),
)


@given(st.lists(messages, max_size=4), st.sampled_from(EVERY))
def test_the_way_there_and_back_loses_nothing(history: list[Message], facts: ModelFacts | None) -> None:
    back = from_langchain(to_langchain(history, facts), timestamp_ms=0)
    assert [message.raw for message in back] == [message.raw for message in history]


@given(st.lists(messages, max_size=4), st.sampled_from(EVERY))
def test_what_is_sent_can_be_written_as_utf_8(history: list[Message], facts: ModelFacts | None) -> None:
    import json

    for message in to_langchain(history, facts):
        json.dumps([message.content, getattr(message, "tool_calls", [])], ensure_ascii=False).encode()


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    sent = to_langchain([user("a\ud83db"), assistant(call("t1", "read", path="\udc00"))], OPENAI)
    assert sent[0].content == "a\ufffdb"
    assert sent[1].tool_calls[0]["args"] == {"path": "\ufffd"}  # type: ignore[attr-defined]
    assert well_formed("日本語 👩‍👩‍👧 العربية") == "日本語 👩‍👩‍👧 العربية"


def contents(message: Message, facts: ModelFacts | None) -> Any:
    return to_langchain([message], facts)[0].content


def test_anthropic_gets_its_own_thinking_with_the_signature_and_calls_in_their_place() -> None:
    message = assistant(thinking("hm", SIGNATURE), "I look.", call("t1", "read", path="a"), "Done.")
    assert contents(message, ANTHROPIC) == [
        {"type": "thinking", "thinking": "hm", "signature": SIGNATURE},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
        {"type": "text", "text": "Done."},
    ]


def test_redacted_thinking_goes_back_as_it_came() -> None:
    block = {"type": "thinking", "thinking": "", "thinkingSignature": "opaque", "redacted": True}
    sent = [{"type": "redacted_thinking", "data": "opaque"}, {"type": "text", "text": "x"}]
    assert contents(assistant(block, "x"), ANTHROPIC) == sent
    assert parts_in(sent) == [block, {"type": "text", "text": "x"}]


@pytest.mark.parametrize("facts", [None, GEMINI, OPENAI])
def test_thinking_of_another_provider_is_not_sent(facts: ModelFacts | None) -> None:
    assert contents(assistant(thinking("hm", SIGNATURE), "Yes."), facts) == "Yes."


def test_gemini_gets_back_the_signatures_of_thoughts_texts_and_calls() -> None:
    message = assistant(
        thinking("hm", SIGNATURE),
        {"type": "text", "text": "I look.", "textSignature": SIGNATURE},
        {**call("t1", "read", path="a"), "thoughtSignature": SIGNATURE},
        provider="google_genai",
    )
    sent = to_langchain([message], GEMINI)[0]
    assert sent.content == [
        {"type": "thinking", "thinking": "hm", "signature": SIGNATURE},
        {"type": "text", "text": "I look.", "extras": {"signature": SIGNATURE}},
    ]
    assert sent.additional_kwargs[GEMINI_CALL_SIGNATURES] == {"t1": SIGNATURE}
    assert parts_in(sent.content) == list(message.blocks[:2])


def test_an_image_is_sent_or_named_as_left_out() -> None:
    message = user([{"type": "text", "text": "look"}, PICTURE])
    assert contents(message, OPENAI)[1] == {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    blind = ModelFacts("openai", "o3-mini", "openai-completions", images=False)
    assert contents(message, blind)[1] == {"type": "text", "text": IMAGE_LEFT_OUT}


def test_a_role_that_no_model_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="'bashExecution'"):
        to_langchain([Message({"role": "bashExecution", "command": "ls"})])
