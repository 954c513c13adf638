"""Each provider's validator refuses what the provider refuses."""

from __future__ import annotations

import pytest

from nodes.history.validators import PROVIDERS, Provider, problems
from tests.builders import assistant, call, result, summary, thinking, user
from turngraph.messages import Message

REASONING = '{"id":"rs_1","type":"reasoning"}'
GOOD = (user("a"), assistant("b", call("abcdefgh1"), stop="toolUse"), result("abcdefgh1"), assistant("c"), user("d"))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_sound_history_is_accepted(provider: Provider) -> None:
    assert problems(GOOD, provider, complete=True) == ()


@pytest.mark.parametrize(
    ("provider", "history", "words"),
    [
        ("anthropic", (assistant("first"), user("x")), "begins with"),
        ("anthropic", (user("a"), user("b")), "in a row"),
        ("openai-chat", (result("c1"), user("b")), "begins with toolResult"),
        ("openai-chat", (user("a"), assistant(call("c1")), user("b")), "without a result"),
        ("openai-chat", (user("a"), assistant(call("c1")), result("c1"), result("c1")), "no call"),
        ("openai-chat", (user("a"), assistant(call("x" * 41)), result("x" * 41)), "id that the provider"),
        ("openai-chat", (user("a"), assistant(call("c1", "has space")), result("c1")), "tool name"),
        ("openai-chat", (summary("s"), user("a")), "not a model role"),
        ("openai-chat", (user(" "),), "empty user"),
        ("openai-chat", (user("a"), assistant()), "without content"),
        ("openai-responses", (user("a"), assistant(call("c|fc_1")), result("c|fc_1")), "reasoning item that is gone"),
        ("openai-responses", (user("a"), assistant("b", thinking("t", REASONING))), "nothing follows"),
        ("anthropic", (user("a"), assistant(thinking("t"), "b")), "without a signature"),
        ("anthropic", (user("a"), assistant("b", " ")), "blank text"),
        ("anthropic", (user([{"type": "image", "data": "***", "mimeType": "image/png"}]),), "not base64"),
        ("anthropic", (user([{"type": "mystery"}]),), "does not know"),
        ("gemini", (user("a"), assistant({"type": "text", "text": "b", "thoughtSignature": "no!"})), "not base64"),
        ("mistral", (user("a"), assistant(call("toolong123")), result("toolong123")), "id that the provider"),
        ("mistral", (user("a"), assistant(call("abcdefgh1")), result("abcdefgh1"), user("b")), "right after"),
        (
            "gemini",
            (user("a"), assistant(call("c1")), result("c1"), assistant(call("c1")), result("c1")),
            "used before",
        ),
    ],
)
def test_what_a_provider_refuses_is_named(provider: Provider, history: tuple[Message, ...], words: str) -> None:
    found = problems(history, provider)
    assert any(words in problem for problem in found), found


def test_a_request_must_not_end_with_an_answer() -> None:
    assert problems((user("a"), assistant("b")), "anthropic", complete=True) == (
        "message 1: the request ends with an answer",
    )


def test_a_problem_never_holds_what_was_said() -> None:
    assert "secret" not in "".join(problems((assistant("secret"), assistant("secret")), "gemini"))
