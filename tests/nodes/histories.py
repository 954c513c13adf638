"""Hypothesis strategies for broken histories: pairs torn apart, ids used twice, foreign blocks, every script."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from nodes.history.provider_policy import TranscriptPolicy, resolve_policy
from nodes.history.validators import Provider
from turngraph.decisions import Origin
from turngraph.messages import Message

NOW_MS = 1_772_000_000_000.0
POLICIES: dict[Provider, TranscriptPolicy] = {
    "anthropic": resolve_policy("anthropic", "anthropic-messages", "claude-sonnet-4-5"),
    "openai-chat": resolve_policy("openai", "openai-completions", "gpt-4.1"),
    "openai-responses": resolve_policy("openai", "openai-responses", "gpt-5"),
    "gemini": resolve_policy("google", "google-generative-ai", "gemini-2.5-pro"),
    "mistral": resolve_policy("mistral", "openai-completions", "mistral-large"),
}

_SNIPPETS = (
    "hello",
    "日本語のログ",
    "错误 失败",
    "مرحبا بالعالم",
    "👩‍👩‍👧 family",
    "e\u0301\u0301 combining",
    "x" * 300,
    "line\n" * 40,
    "Error: boom",
    "",
    " \n",
    "\u2028",
    "NO_REPLY",
)
texts = st.sampled_from(_SNIPPETS) | st.text(max_size=20)
call_ids = st.sampled_from(
    ("c1", "c2", "call_1|fc_1", "     functions.read:37", "exec1774786568428215", "调用_1", "", "c 3")
)
_names = st.sampled_from(("read", "exec", " read ", "has space", "x" * 65, "", "读取", "functions.read"))
_arguments = st.sampled_from(
    ({"path": "a"}, {}, {"q": "日本"}, "{}", "not json", None, False, {"attachments": [{"content": "s"}]})
)
_signatures = st.sampled_from(("sig", "", '{"id":"rs_1","type":"reasoning"}', "aGVsbG8="))

_text_block = st.builds(lambda text: {"type": "text", "text": text}, texts)
_foreign = st.sampled_from(
    (
        {"type": "input_text", "text": "foreign words"},
        {"type": "mystery", "x": 1},
        {"type": "text"},
        {"type": "text", "text": None},
        "a bare text",
        None,
        7,
        {},
    )
)
_image = st.sampled_from(
    (
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "image", "data": "***", "mimeType": "image/png"},
    )
)
_thinking = st.builds(
    lambda text, signature: {"type": "thinking", "thinking": text, "thinkingSignature": signature}, texts, _signatures
)
_redacted = st.sampled_from(({"type": "redacted_thinking", "data": "zz"}, {"type": "redacted_thinking", "data": ""}))


def _call(kind: str, call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    key = "input" if kind == "toolUse" else "arguments"
    return {"type": kind, "id": call_id, "name": name, key: arguments, "thoughtSignature": "nope!"}


_calls = st.builds(_call, st.sampled_from(("toolCall", "toolUse", "functionCall")), call_ids, _names, _arguments)
_results_in_user = st.builds(lambda call_id: {"type": "toolResult", "toolUseId": call_id, "content": "late"}, call_ids)

_user_content = texts | st.lists(_text_block | _foreign | _image | _results_in_user, max_size=3)
_answer_content = (
    texts | st.none() | st.lists(_text_block | _calls | _thinking | _redacted | _foreign | _image, max_size=4)
)
_result_content = texts | st.none() | st.lists(_text_block | _foreign | _image, max_size=3)
_stop = st.sampled_from(("stop", "toolUse", "error", "aborted", "length"))
_usage = st.sampled_from(
    (None, {}, {"input": 5, "output": 1}, {"prompt_tokens": 3}, {"input": -1, "cost": {"input": 0.1}})
)


def _user(content: Any, foreign_session: bool) -> dict[str, Any]:
    raw = {"role": "user", "content": content}
    return raw | ({"provenance": {"kind": "inter_session", "sourceTool": "t"}} if foreign_session else {})


def _result(key: str, call_id: str, name: str, content: Any) -> dict[str, Any]:
    return {"role": "toolResult", key: call_id, "toolName": name, "content": content, "details": {"a": 1}}


_raws = st.one_of(
    st.builds(_user, _user_content, st.booleans()),
    st.builds(
        lambda content, stop, usage: {"role": "assistant", "content": content, "stopReason": stop, "usage": usage},
        _answer_content,
        _stop,
        _usage,
    ),
    st.builds(
        _result,
        st.sampled_from(("toolCallId", "toolUseId", "tool_call_id")),
        call_ids,
        st.sampled_from(("read", "", " exec ")),
        _result_content,
    ),
)
_session_raws = st.sampled_from(
    (
        {"role": "compactionSummary", "summary": "what was", "timestamp": 50},
        {"role": "branchSummary", "summary": "a branch"},
        {"role": "bashExecution", "command": "ls", "output": "a\nb", "exitCode": 1},
        {"role": "bashExecution", "command": "x", "output": "", "excludeFromContext": True},
        {"role": "custom", "customType": "note", "content": "a note"},
        {"role": "custom", "customType": "note", "content": [{"type": "text", "text": "blocks"}]},
        {"role": "system", "content": "not a session role"},
    )
)


def _history(raws: list[Any]) -> tuple[Message, ...]:
    return tuple(
        Message({"timestamp": index, **raw}, Origin("entry", entry_id=f"e{index}")) for index, raw in enumerate(raws)
    )


model_histories = st.lists(_raws, max_size=12).map(_history)
session_histories = st.lists(_raws | _session_raws, max_size=12).map(_history)
