"""Models that play a file, by name: ``scripted:FILE`` for tests, ``replay:TRANSCRIPT`` for a recorded session.

A script holds one answer a line, as JSON: a text, or a raw assistant message (or parts of one). Of a transcript its
assistant messages are played, in the order of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.models.model import Model, ModelFacts
from turngraph.models.scripted import ScriptedModel

SCRIPTED, REPLAY = "scripted", "replay"
PLAYERS = frozenset({SCRIPTED, REPLAY})


def played_model(kind: str, file: str) -> Model:
    """Make the model that plays ``file``; it stands at the first answer.

    Args:
        kind: ``scripted`` or ``replay``.

    Raises:
        ModelError: the file cannot be read or holds nothing to play (kind "missing").
    """
    path = Path(file).expanduser()
    facts = ModelFacts(kind, path.name)
    answers = list(_scripted(path) if kind == SCRIPTED else _recorded(path))
    if not answers:
        wanted = "one JSON text or message a line" if kind == SCRIPTED else "assistant messages of a transcript"
        raise ModelError(f"{path} holds no answer to play; model {kind!r} wants {wanted}", kind="missing")
    return ScriptedModel(answers, facts=facts)


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path} cannot be played: {error.strerror}; give a readable file", kind="missing") from error
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError:
                yield number, None


def _scripted(path: Path) -> Iterator[Any]:
    for number, answer in _lines(path):
        if not isinstance(answer, str | dict):
            raise ModelError(f"{path}, line {number}: an answer is a JSON text or object", kind="missing")
        yield answer


def _recorded(path: Path) -> Iterator[Message]:
    """Yield the assistant messages; broken lines and other entries of the transcript are passed over."""
    for _, entry in _lines(path):
        message = entry.get("message") if isinstance(entry, dict) and entry.get("type") == "message" else None
        if isinstance(message, dict) and message.get("role") == "assistant":
            yield Message(message)
