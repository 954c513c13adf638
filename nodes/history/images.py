"""Image blocks of a history: sound ones in a size that providers take, and none that the model has long seen.

Source: spec/context.md 4.2 (image rule) and 4.4, spec/tools.md 8.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any

from nodes.history.step import Rule, Step, as_tuple, decide
from turngraph.history import places, replaced
from turngraph.images import fit_image
from turngraph.media_markers import IMAGE_REMOVED, REFERENCE, REFERENCE_REMOVED
from turngraph.media_types import media_type
from turngraph.messages import Block, Message, text_block

LABEL = "session:history"
MAX_DIMENSION_PX = 1200
MAX_BYTES = 5 * 1024 * 1024
KEPT_TURNS = 3


def sound_images(max_dimension_px: int = MAX_DIMENSION_PX) -> Rule:
    """Make the rule that replaces unusable images by a text and scales the large ones down."""

    def apply(message: Message) -> Message:
        content = message.raw.get("content")
        if not isinstance(content, list):
            return message
        for block in content:
            if _is_image(block):
                break
        else:
            return message
        blocks = [_sound(block, max_dimension_px) if _is_image(block) else block for block in content]
        same = all(new is old for new, old in zip(blocks, content, strict=True))
        return message if same else message.evolve(content=blocks)

    return Rule(apply, frozenset({"user", "assistant", "toolResult"}), "messages with images put right")


def _is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "image" and "source" not in block


def _sound(block: Block, max_dimension_px: int) -> Block:
    data = block.get("data")
    if not isinstance(data, str) or not data.strip():
        return text_block(f"[{LABEL}] omitted empty image payload")
    try:
        payload = base64.b64decode(re.sub(r"\s+", "", data), validate=True)
    except (binascii.Error, ValueError):
        return text_block(f"[{LABEL}] omitted image payload: invalid base64")
    kind = media_type(payload)
    if not kind.startswith("image/"):
        return block  # not a picture that we know; the provider may
    try:
        picture = fit_image(payload, max_dimension_px)
    except ValueError as error:
        return text_block(f"[{LABEL}] omitted image payload: {error}")
    if len(picture.data) > MAX_BYTES:
        return text_block(f"[{LABEL}] omitted image payload: {len(picture.data)} bytes, limit {MAX_BYTES}")
    if picture.data is payload:
        return block if kind == block.get("mimeType") else {**block, "mimeType": kind}
    return {**block, "data": base64.b64encode(picture.data).decode(), "mimeType": picture.type}


def prune_processed(messages: Sequence[Message], kept_turns: int = KEPT_TURNS) -> Step:
    """Replace images and references to media that the model has seen; the newest completed turns stay as they are.

    A turn begins at a user message and is completed once an answer stands behind it.
    """
    cut = _first_kept(messages, kept_turns)
    if cut == 0:
        return Step(as_tuple(messages))
    changes: dict[int, Message | None] = {
        place: _without_media(messages[place]) for place in _WITH_MEDIA(messages) if place < cut
    }
    if not changes:
        return Step(as_tuple(messages))
    why = f"{len(changes)} earlier messages without the images the model has seen"
    touched = [messages[place] for place in changes]
    return Step(
        replaced(messages, changes, "processed"), (decide("cleared", why, touched, len(messages), len(messages)),)
    )


def _first_kept(messages: Sequence[Message], kept_turns: int) -> int:
    answered = False
    completed = 0
    for index in range(len(messages) - 1, -1, -1):
        role = messages[index].raw.get("role")
        if role == "assistant":
            answered = True
        elif role == "user" and answered:
            completed += 1
            answered = False
            if completed == kept_turns:
                return index
    return 0


def _without_media(message: Message) -> Message:
    return message.fact("processed", _processed)


_WITH_MEDIA = places(lambda message: _without_media(message) is not message)


def _processed(message: Message) -> Message:
    if message.raw.get("role") not in ("user", "toolResult"):
        return message
    content = message.raw.get("content")
    if isinstance(content, str):
        text = _without_references(content)
        return message if text == content else message.evolve(content=text)
    if not isinstance(content, list):
        return message
    blocks = [_seen(block) for block in content]
    same = all(new is old for new, old in zip(blocks, content, strict=True))
    return message if same else message.evolve(content=blocks)


def _seen(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "image":
        return text_block(IMAGE_REMOVED)
    text = block.get("text")
    if block.get("type") == "text" and isinstance(text, str) and "[" in text:
        replaced = _without_references(text)
        return block if replaced == text else {**block, "text": replaced}
    return block


def _without_references(text: str) -> str:
    # That nothing but files was sent stays true when the files are gone.
    return REFERENCE.sub(REFERENCE_REMOVED, text)
