"""Whether a provider would accept a history: its rules as checks, written apart from the repairs.

Used by tests, by ``turngraph doctor`` and by the loopback server that stands in for a provider.
Source: the providers' message APIs as of 2026; spec/context.md 4, known-faults 3.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nodes.history.content import is_blank, says_something
from nodes.history.thinking import is_base64, is_replayable, is_signed
from nodes.history.to_model import MODEL_ROLES
from turngraph.messages import TEXT_TYPES, THINKING_TYPES, TOOL_CALL_TYPES, Message
from turngraph.text import js_trim

Provider = Literal["anthropic", "openai-chat", "openai-responses", "gemini", "mistral"]
PROVIDERS: tuple[Provider, ...] = ("anthropic", "openai-chat", "openai-responses", "gemini", "mistral")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_IMAGE_BYTES = 5 * 1024 * 1024
_USER_TYPES = TEXT_TYPES | {"image"}
_ANSWER_TYPES = TEXT_TYPES | THINKING_TYPES | TOOL_CALL_TYPES | {"image"}


@dataclass(frozen=True, slots=True)
class ProviderRules:
    """What one provider insists on.

    Attributes:
        call_id: form of tool-call ids.
        alternates: user and assistant turns take turns, and the user's comes first.
        results_before_user: a user message must not follow a tool result.
        refuses_blank: blank text blocks are an error.
        signed_thinking: thinking blocks need a signature.
        paired_reasoning: reasoning items and their calls come together.
        base64_signatures: thought signatures must be base64.
    """

    call_id: re.Pattern[str]
    alternates: bool = True
    results_before_user: bool = False
    refuses_blank: bool = False
    signed_thinking: bool = False
    paired_reasoning: bool = False
    base64_signatures: bool = False


RULES: Mapping[Provider, ProviderRules] = {
    "anthropic": ProviderRules(re.compile(r"[A-Za-z0-9_-]{1,64}"), refuses_blank=True, signed_thinking=True),
    "openai-chat": ProviderRules(re.compile(r"[^\s]{1,40}"), alternates=False),
    "openai-responses": ProviderRules(
        re.compile(r"[^|\s]{1,64}(?:\|fc_[^|\s]{1,61})?"), alternates=False, paired_reasoning=True
    ),
    "gemini": ProviderRules(re.compile(r"[A-Za-z0-9_.:-]{1,64}"), base64_signatures=True),
    "mistral": ProviderRules(re.compile(r"[A-Za-z0-9]{9}"), results_before_user=True),
}


def problems(messages: Sequence[Message], provider: Provider, *, complete: bool = False) -> tuple[str, ...]:
    """Return what ``provider`` would refuse in a history, oldest first; empty when it is acceptable.

    Args:
        messages: oldest first, in model roles.
        provider: whose rules.
        complete: whether this is a whole request, which must end with the user or a tool result.

    Each problem names the position of the message, never its text.
    """
    rules = RULES[provider]
    found = [*_order(messages, rules), *_pairs(messages)]
    for index, message in enumerate(messages):
        found += [(index, problem) for problem in _content(message, rules)]
    if complete and messages and messages[-1].role == "assistant":
        found.append((len(messages) - 1, "the request ends with an answer"))
    return tuple(f"message {index}: {problem}" for index, problem in sorted(found, key=lambda item: item[0]))


def _order(messages: Sequence[Message], rules: ProviderRules) -> Iterator[tuple[int, str]]:
    previous = ""
    for index, message in enumerate(messages):
        role = message.role
        if role not in MODEL_ROLES:
            yield index, f"role {role or '(none)'} is not a model role"
        elif not previous and role != "user" and (rules.alternates or role == "toolResult"):
            yield index, f"the history begins with {role}"
        elif rules.alternates and role == previous and role != "toolResult":
            yield index, f"two {role} messages in a row"
        elif rules.results_before_user and previous == "toolResult" and role == "user":
            yield index, "a user message right after a tool result"
        previous = role


def _pairs(messages: Sequence[Message]) -> Iterator[tuple[int, str]]:
    waiting: list[str] = []
    answered_by = -1
    used: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "toolResult":
            call_id = message.tool_call_id
            if not call_id:
                yield index, "a tool result without the id of its call"
            elif call_id not in waiting:
                yield index, "a tool result that no call of the answer before it asked for"
            else:
                waiting.remove(call_id)
            continue
        if waiting:
            yield answered_by, f"{len(waiting)} tool calls without a result right behind them"
        waiting = [call.id for call in message.tool_calls]
        answered_by = index
        for call_id in waiting:
            if call_id in used:
                yield index, "a tool-call id that was used before"
            used.add(call_id)
    if waiting:
        yield answered_by, f"{len(waiting)} tool calls without a result right behind them"


def _content(message: Message, rules: ProviderRules) -> Iterator[str]:
    role, content = message.role, message.content
    if isinstance(content, str):
        if role != "user":
            yield f"{role} content is a text, not a list of blocks"
        elif not js_trim(content):
            yield "an empty user message"
        return
    if not isinstance(content, list):
        yield f"{role} content is neither text nor a list"
        return
    if role == "assistant":
        yield from _answer(message, content, rules)
    elif not any(isinstance(block, dict) and not is_blank(block) for block in content):
        yield f"an empty {role} message"
    known = _ANSWER_TYPES if role == "assistant" else _USER_TYPES
    for block in content:
        yield from _block(block, known, rules)
    if role == "toolResult" and not message.tool_name:
        yield "a tool result without the name of its tool"


def _block(block: Any, known: frozenset[str], rules: ProviderRules) -> Iterator[str]:
    if not isinstance(block, dict) or block.get("type") not in known:
        yield "a block of a kind that the provider does not know"
    elif block["type"] == "text" and not isinstance(block.get("text"), str):
        yield "a text block without text"
    elif block["type"] == "text" and rules.refuses_blank and is_blank(block):
        yield "a blank text block"
    elif block["type"] == "image":
        yield from _image(block)
    elif block["type"] in THINKING_TYPES and rules.signed_thinking and not is_signed(block):
        yield "thinking without a signature"
    if isinstance(block, dict) and rules.base64_signatures:
        for key in ("thought_signature", "thoughtSignature"):
            if key in block and not (isinstance(block[key], str) and is_base64(block[key])):
                yield "a thought signature that is not base64"


def _image(block: Mapping[str, Any]) -> Iterator[str]:
    data = block.get("data")
    try:
        size = len(base64.b64decode(re.sub(r"\s+", "", data), validate=True)) if isinstance(data, str) else 0
    except (binascii.Error, ValueError):
        yield "an image that is not base64"
        return
    if not size:
        yield "an image without data"
    elif size > _MAX_IMAGE_BYTES:
        yield f"an image of {size} bytes, limit {_MAX_IMAGE_BYTES}"


def _answer(message: Message, content: list[Any], rules: ProviderRules) -> Iterator[str]:
    thinks = any(isinstance(block, dict) and block.get("type") in THINKING_TYPES for block in content)
    if not says_something(message) and not (thinks and rules.signed_thinking):
        yield "an answer without content"
    reasoned = False
    for block in content:
        if is_replayable(block):
            reasoned = True
        elif isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES:
            yield from _call(block, rules, reasoned=reasoned)
    if rules.paired_reasoning and content and is_replayable(content[-1]):
        yield "a reasoning item that nothing follows"


def _call(block: Mapping[str, Any], rules: ProviderRules, *, reasoned: bool) -> Iterator[str]:
    call_id, name = block.get("id"), block.get("name")
    if not isinstance(call_id, str) or not rules.call_id.fullmatch(call_id):
        yield "a tool-call id that the provider does not take"
    elif rules.paired_reasoning and "|fc_" in call_id and not reasoned:
        yield "a call that refers to a reasoning item that is gone"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield "a tool name that the provider does not take"
    if not isinstance(block.get("arguments", block.get("input")), dict):
        yield "tool arguments that are not an object"
