"""The offline model: answers from memory by calling the memory tools and quoting what they give.

It needs no key and no network, and it is deterministic: the same messages and tools give the same answer.
Source: spec/tools.md section 10.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from turngraph.extractive import extractive_facts, extractive_summary
from turngraph.media_markers import without_markers
from turngraph.messages import ZERO_USAGE, Message, block_text, compact_json, text_block
from turngraph.models.model import Delta, Finished, ModelEvent, ModelFacts, ModelRequest
from turngraph.models.offline_language import SENTENCES, language
from turngraph.models.recall import Ask, Terms, next_step, plain_terms
from turngraph.tokens import Counter, default_counter, total

HEARTBEAT_OK = "HEARTBEAT_OK"
NO_REPLY = "NO_REPLY"
FACTS = ModelFacts("offline", "offline", api="offline", context_window=200_000, images=False)

_DAY_FILE = re.compile(r"memory/\d{4}-\d{2}-\d{2}\.md")
# What stands in front of a question that a channel or a schedule wrapped: "[cron:id name]", "[Telegram Ann 10:00]".
_PREFIX = re.compile(r"^\s*(?:\[[^\]\n]{1,200}\]\s*)+")
# Blocks that travel with the newest message and are no part of what was asked.
_NOTE_BEGINNINGS = ("Current time:", "System:", "System (untrusted):", "[Bootstrap truncation warning]")
_NOTE_PARTS = ("<untrusted-text>", "<relevant-memories>")

_HEARTBEAT_FILE = re.compile(r"^## (?P<path>(?:\S*/)?HEARTBEAT\.md)\n+(?P<text>.*?)(?=^## \S+\.md$|\Z)", re.M | re.S)
# Sections that may follow the last workspace file in the prompt.
_NEXT_SECTION = re.compile(
    r"^## (?:Cut Files|Current Date & Time|Silent Replies|Heartbeats|Authorized Senders|Messaging|"
    r"Group Chat Context|Subagent Context|Runtime)$",
    re.M,
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_NO_TASK = re.compile(r"#+(?:\s|$)|`{3}|~{3}|[-*+]?\s*(?:\[[ xX]?\])?\s*$|(?:[-*+]|\d+[.)])\s+\[[xX]\]")
_CONVERSATION = re.compile(r"<conversation>\n?(.*?)\n?</conversation>", re.S)
_SPEAKER = re.compile(r"^\[(User|Assistant)[^\]\n]*\]: ", re.M)


@dataclass(frozen=True, slots=True)
class Draft:
    """An answer before it becomes a message: text, or calls with their arguments."""

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


class OfflineModel:
    """The offline model behind our seam.

    Args:
        counter: counts the reported usage; the default counter when there is none.
        terms: the terms of a text, as keyword search has them.
    """

    def __init__(self, counter: Counter | None = None, terms: Terms = plain_terms) -> None:
        self._counter = counter
        self._terms = terms

    @property
    def facts(self) -> ModelFacts:
        return FACTS

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        message = answer(request, self._counter or default_counter(), self._terms)
        for word in re.findall(r"\s*\S+\s*", message.text):
            yield Delta(text=word)
        yield Finished(message)


def answer(request: ModelRequest, counter: Counter, terms: Terms = plain_terms) -> Message:
    """Return the assistant message that answers ``request``."""
    draft = _draft(request, terms)
    content: list[dict[str, Any]] = [text_block(draft.text)] if draft.text else []
    seed = sha256(json.dumps([message.raw for message in request.messages], default=str).encode()).hexdigest()
    for index, (name, arguments) in enumerate(draft.calls):
        content.append(
            {"type": "toolCall", "id": f"offline{seed[:16]}{index}", "name": name, "arguments": dict(arguments)}
        )
    raw = {
        "role": "assistant",
        "content": content,
        "api": FACTS.api,
        "provider": FACTS.provider,
        "model": FACTS.model_id,
        "stopReason": "toolUse" if draft.calls else "stop",
        # The time of the newest message: a clock would make two runs differ.
        "timestamp": max((message.timestamp_ms or 0 for message in request.messages), default=0),
    }
    return Message(raw | {"usage": _usage(request, Message(raw), counter)})


def _draft(request: ModelRequest, terms: Terms) -> Draft:
    asked, before, behind = _split(request.messages)
    match request.purpose:
        case "slug":
            return Draft()
        case "summary":
            return Draft(extractive_summary(_conversation(request.messages)))
        case "flush":
            return _flush(asked, before, behind, request)
        case "heartbeat":
            return Draft(_heartbeat(request.system))
        case "greeting":
            return Draft(SENTENCES[language(_question(asked))].greeting)
    question = _question(asked)
    results = [message for message in behind if message.role == "toolResult"]
    step = next_step(question, results, {tool.name for tool in request.tools}, terms)
    return Draft(calls=step.calls) if isinstance(step, Ask) else Draft(step)


def _split(messages: Sequence[Message]) -> tuple[Message | None, Sequence[Message], Sequence[Message]]:
    """Return the newest user message, what stands before it, and what stands behind it."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return messages[index], messages[:index], messages[index + 1 :]
    return None, messages, ()


def _question(asked: Message | None) -> str:
    """Return what a user message asks, without media markers, prefixes and the notes that travel with it."""
    blocks = [block_text(block) for block in asked.blocks if block.get("type") == "text"] if asked else []
    spoken = [text for text in blocks if text.strip() and not _is_note(text)]
    question = _PREFIX.sub("", without_markers(spoken[-1] if spoken else "")).strip()
    return question.encode("utf-8", "replace").decode("utf-8")  # half a character cannot be an argument


def _is_note(text: str) -> bool:
    return text.lstrip().startswith(_NOTE_BEGINNINGS) or any(part in text for part in _NOTE_PARTS)


def _heartbeat(system: str) -> str:
    for path, number, line in open_items(system):
        return f"{line}\nSource: {path}#L{number}"
    return HEARTBEAT_OK


def open_items(system: str) -> list[tuple[str, int, str]]:
    """Return path, line number and text of every open task of HEARTBEAT.md in a system prompt.

    A task is a line that is no heading, comment, fence, empty list item or ticked box.
    """
    found = _HEARTBEAT_FILE.search(system)
    if found is None:
        return []
    text = found["text"]
    if end := _NEXT_SECTION.search(text):
        text = text[: end.start()]
    # A comment keeps its line ends, so that the lines below it keep their numbers.
    text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    lines = enumerate((line.strip() for line in text.split("\n")), 1)
    return [(found["path"], number, line) for number, line in lines if line and not _NO_TASK.match(line)]


def _flush(asked: Message | None, before: Sequence[Message], behind: Sequence[Message], request: ModelRequest) -> Draft:
    path = _DAY_FILE.search(asked.text if asked else "")
    can_write = any(tool.name == "write" for tool in request.tools)
    if not path or not can_write or any(message.role == "toolResult" for message in behind):
        return Draft(NO_REPLY)
    facts = extractive_facts(before)
    if not facts:
        return Draft(NO_REPLY)
    return Draft(calls=(("write", {"path": path[0], "content": f"{facts}\n"}),))


def _conversation(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that a summary prompt holds as text; the messages themselves when it holds none."""
    text = "\n".join(message.text for message in messages)
    held = "\n\n".join(_CONVERSATION.findall(text))
    parts = _SPEAKER.split(held)
    if len(parts) < 3:
        return messages
    return [
        Message({"role": role.lower(), "content": [text_block(_spoken(said))]})
        for role, said in zip(parts[1::2], parts[2::2], strict=True)
    ]


def _spoken(said: str) -> str:
    return re.split(r"^\[(?:Tool result|Assistant tool calls)\]: ", said, maxsplit=1, flags=re.M)[0].strip()


def _usage(request: ModelRequest, message: Message, counter: Counter) -> dict[str, Any]:
    schemas = (f"{tool.name}{tool.description}{compact_json(dict(tool.parameters))}" for tool in request.tools)
    given = counter.text(request.system) + sum(map(counter.text, schemas)) + total(counter, request.messages)
    said = counter.message(message)
    return {**ZERO_USAGE, "input": given, "output": said, "totalTokens": given + said}
