"""What is asked of a growing history is answered as if it were asked of all its messages anew."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodes.guard_tools import Window, govern
from nodes.history.provider_policy import resolve_policy
from nodes.sanitize import Sanitized, prepare_request
from tests.builders import assistant, call, result, user
from turngraph.history import Fold, History, as_history, digest_of, places, replaced
from turngraph.messages import Message, text_block
from turngraph.tokens import EstimateCounter, total

ALLOWED = frozenset({"read", "exec"})
POLICIES = [
    resolve_policy("anthropic", "anthropic-messages", "claude-opus-4-6"),
    resolve_policy("openai", "openai-responses", "gpt-5"),
    resolve_policy("google", "google-generative-ai", "gemini-3-pro"),
    resolve_policy("mistral", "mistral-conversations", "mistral-large"),
]


def counted(seen: list[str]) -> Fold[int]:
    def step(known: int, messages: Any, _start: int) -> int:
        for message in messages:
            seen.append(message.text)
            known += 1
        return known

    return Fold(0, step)


def test_only_what_came_since_is_looked_at() -> None:
    seen: list[str] = []
    ask = counted(seen)
    history = as_history([user("a"), user("b")])
    assert (ask(history), ask(history), seen) == (2, 2, ["a", "b"])
    grown = history.plus(user("c")).plus(user("d"), user("e"))
    assert (ask(grown), seen[2:]) == (5, ["c", "d", "e"])
    assert ask(history.plus(user("other"))) == 3
    assert ask(history) == 2


def test_a_plain_tuple_is_looked_at_whole() -> None:
    seen: list[str] = []
    ask = counted(seen)
    messages = (user("a"), user("b"))
    assert (ask(messages), ask(messages), len(seen)) == (2, 2, 4)


def test_a_named_question_is_the_same_question_when_it_is_made_anew() -> None:
    asked: list[Message] = []

    def holds(message: Message) -> bool:
        asked.append(message)
        return True

    history = as_history([user("a")])
    for _ in range(3):
        assert places(holds, "everywhere")(history) == (0,)
    assert len(asked) == 1


def test_a_copy_is_a_plain_tuple_of_the_same_messages() -> None:
    history = as_history([user("a"), user("b")])
    assert type(copy.copy(history)) is tuple
    assert [message.raw for message in pickle.loads(pickle.dumps(history))] == [message.raw for message in history]


def test_what_a_change_made_of_the_beginning_is_taken_up_when_it_does_the_same_there() -> None:
    history = as_history([user("a"), user("b")])
    big = user("A")
    seen: list[str] = []
    ask = counted(seen)
    ask(replaced(history, {0: big, 1: None}, "change"))
    grown = history.plus(user("c"), user("d"))
    again = replaced(grown, {0: big, 1: None, 2: user("C")}, "change")
    assert [message.text for message in again] == ["A", "C", "d"]
    assert (ask(again), seen) == (3, ["A", "C", "d"])
    other = replaced(grown, {0: big, 2: None}, "change")
    assert [message.text for message in other] == ["A", "b", "d"]


def blocks(*more: dict[str, Any]) -> Message:
    return Message({"role": "assistant", "content": list(more), "stopReason": "stop", "timestamp": 5})


THOUGHT = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2lnbmVk"}
PIECES: list[Sequence[Message]] = [
    (user("hello"),),
    (user("look at [media attached: media/x.png]"),),
    (user([{"type": "image", "data": "", "mimeType": "image/png"}, text_block("see")]),),
    (assistant("fine"),),
    (assistant(""),),
    (blocks(THOUGHT, text_block("said")),),
    (blocks({"type": "thinking", "thinking": "unsigned"}, text_block("said")),),
    (assistant(call("t1", "read", path="a")), result("t1", "text")),
    (assistant(call("t1", "read", path="b")), result("t1", "again")),
    (assistant(call("call_2|fc_2", "exec", command="ls")), result("call_2|fc_2", "x" * 30_000)),
    (
        assistant(call("t3", "read", path="c"), call("t4", "exec", command="pwd")),
        result("t4", "late"),
        result("t3", "early"),
    ),
    (assistant(call("t5", "unknown_tool")),),
    (result("t9", "nobody asked"),),
    (assistant(call("t6", "read", path="d")).evolve(stopReason="error", errorMessage="broke"),),
    (Message({"role": "compactionSummary", "summary": "before", "tokensBefore": 9, "timestamp": 1772000000000}),),
    (Message({"role": "bashExecution", "command": "ls", "output": "a", "timestamp": 3}),),
    (Message({"role": "custom", "content": "noted", "customType": "x", "timestamp": 4}),),
    (Message({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "inside"}]}),),
]
PARTS = st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), min_size=1, max_size=4)


def fresh(messages: Sequence[Message]) -> list[Message]:
    """The same messages, none of which is known."""
    return [Message(copy.deepcopy(dict(message.raw)), message.origin, message.derived) for message in messages]


def told(done: Sanitized) -> Any:
    decisions = [(d.node, d.what, d.why, d.count_before, d.count_after, d.data) for d in done.decisions]
    return [dict(message.raw) for message in done.messages], decisions


@given(parts=PARTS, policy=st.sampled_from(POLICIES), allowed=st.sampled_from([None, ALLOWED]))
def test_a_growing_history_is_prepared_and_governed_as_a_new_one(parts: Any, policy: Any, allowed: Any) -> None:
    window, counter = Window(20_000, 2_000), EstimateCounter()
    history = as_history([])
    for part in parts:
        history = history.plus(*fresh([message for piece in part for message in piece]))
        anew = tuple(fresh(history))
        assert told(prepare_request(history, policy, 7, allowed)) == told(prepare_request(anew, policy, 7, allowed))
        mine, theirs = govern(history, window, counter), govern(anew, window, counter)
        assert [m.raw for m in mine.messages] == [m.raw for m in theirs.messages]
        assert (mine.route, mine.check) == (theirs.route, theirs.check)
        assert total(counter, history) == total(counter, anew)
        assert digest_of(history) == digest_of(anew)


def test_the_empty_history_has_answers() -> None:
    assert (total(EstimateCounter(), History()), places(lambda _: True)(History())) == (0, ())
