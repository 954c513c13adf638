"""What a replay keeps of every model call: the request as it was sent, and the answer that was recorded.

Source: spec/seeing.md sections 5.2, 6.3 and 7.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from turngraph.history import Fold
from turngraph.messages import Message, compact_json
from turngraph.models.model import ModelRequest
from turngraph.replay.cost import Part
from turngraph.tokens import Counter


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One model call of a replay.

    Attributes:
        turn: number of the user turn, from 1.
        at: when the request was sent.
        request: the whole working set as the model saw it.
        answer: what the record answers.
        notes: memory files of the working copy at that moment, path to text.
    """

    turn: int
    at: datetime
    request: ModelRequest
    answer: Message
    notes: Mapping[str, str] = field(default_factory=dict)

    def without_facts(self) -> ModelCall:
        """Return the call without what its history knows of itself, which may take more space than the history."""
        return replace(self, request=replace(self.request, messages=tuple(self.request.messages)))


def request_parts(request: ModelRequest, counter: Counter) -> Sequence[Part]:
    """Return the parts of a request in the order in which a prompt cache compares them: tools, system, messages."""
    tools = (
        compact_json({"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)})
        for tool in request.tools
    )

    def part(message: Message) -> Part:
        return Part(message.digest, counter.message(message), message.text)

    def add(parts: tuple[Part, ...], messages: Iterable[Message], _start: int) -> tuple[Part, ...]:
        return (*parts, *(message.fact(key, part) for message in messages))

    key = ("part", counter.name)
    head = tuple(Part(text, counter.text(text), text) for text in (*tools, request.system) if text)
    messages: Fold[tuple[Part, ...]] = Fold((), add, key)
    return head + messages(request.messages)


class Notes:
    """The memory files of a workspace, read again only when one of them changed."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._texts: Mapping[str, str] = {}

    def now(self) -> Mapping[str, str]:
        """Return the texts by path, relative to the workspace; the same mapping while nothing changes."""
        paths = [self._workspace / "MEMORY.md", *sorted((self._workspace / "memory").glob("**/*.md"))]
        stamps = {path: (stat.st_mtime_ns, stat.st_size) for path in paths if path.is_file() for stat in [path.stat()]}
        if stamps != self._stamps:
            self._stamps = stamps
            self._texts = {
                str(path.relative_to(self._workspace)): path.read_text(encoding="utf-8", errors="replace")
                for path in stamps
            }
        return self._texts
