"""attachments: how files come into a conversation, and which images of it the model sees again.

A message holds a marker for each file, its transcript entry the facts, the media store the bytes.
Source: spec/tools.md section 8, design decision 8, known-faults 2.5.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nodes.history.images import prune_processed
from nodes.history.step import as_tuple
from stores.media import MediaFact
from turngraph.decisions import Decision
from turngraph.errors import NotFound
from turngraph.history import places
from turngraph.images import Picture
from turngraph.inbound import Attachment
from turngraph.media_markers import (
    IMAGE_REMOVED,
    NO_CAPTION,
    attached_marker,
    clean_name,
    count_marker,
    image_marker,
)
from turngraph.media_types import IMAGE_TYPES
from turngraph.messages import Message, compact_json, text_block

if TYPE_CHECKING:
    from nodes.state import TurnContext

Put = Callable[[bytes, str | None, str | None], MediaFact]
Load = Callable[[str], Picture]

# Markers and facts of one message; a transcript line stays below 20 kB (spec/tools.md 8.3).
MAX_MARKED_BYTES = 12_000
MIB = 1 << 20
_NO_IMAGES = "[image left out - this model takes no images]"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """A message with its files stored.

    Attributes:
        text: markers, then the text; what goes to the model and into the transcript.
        media: facts for the transcript entry, in the order of arrival.
        decisions: what was refused or lost.
    """

    text: str
    media: tuple[MediaFact, ...] = ()
    decisions: tuple[Decision, ...] = ()


def take_in(text: str, attachments: Sequence[Attachment], put: Put, limit_bytes: int) -> TakenIn:
    """Store the files of an inbound message and announce them in front of its text.

    A file that is too large, lost on the way or refused by the disk leaves a marker and a decision; the turn goes on.

    Args:
        text: what the user wrote, without a trigger; may be empty.
        attachments: files in the order of arrival.
        put: stores bytes (:meth:`stores.media.MediaStore.put`).
        limit_bytes: largest file.
    """
    if not attachments:
        return TakenIn(text)
    arrived: list[MediaFact | str] = []
    decisions: list[Decision] = []
    room = MAX_MARKED_BYTES
    for index, attachment in enumerate(attachments):
        outcome = _stored(attachment, put, limit_bytes) if room > 0 else _too_many(len(attachments) - index)
        if isinstance(outcome, Decision):
            decisions.append(outcome)
            arrived.append(str(outcome.data["marker"]))
        else:
            arrived.append(outcome)
        if room <= 0:
            break
        room -= _marked_bytes(outcome)
    media = tuple(item for item in arrived if isinstance(item, MediaFact))
    lines = [count_marker(len(media))] if len(media) > 1 else []
    number = 0
    for item in arrived:
        if isinstance(item, MediaFact):
            number += 1
            lines.append(attached_marker(item.path, item.type, item.name, number, len(media)))
        else:
            lines.append(item)
    return TakenIn("\n".join([*lines, text if text.strip() else NO_CAPTION]), media, tuple(decisions))


def _stored(attachment: Attachment, put: Put, limit_bytes: int) -> MediaFact | Decision:
    name = clean_name(attachment.name) or "unnamed file"
    if attachment.data is None:
        return _left_out("dropped", f"[media missing: {name}]", f"{name} did not arrive")
    size = len(attachment.data)
    if size > limit_bytes:
        sizes = f"{_megabytes(size)}, limit {_megabytes(limit_bytes)}"
        return _left_out("skipped", f"[media refused: {name}, {sizes}]", f"{name} has {sizes} (mediaMaxMb)")
    try:
        return put(attachment.data, attachment.name, attachment.media_type)
    except OSError as error:
        why = f"{name} could not be stored: {error.strerror or type(error).__name__}"
        return _left_out("failed", f"[media missing: {name}]", why)


def _too_many(count: int) -> Decision:
    why = f"{count} more files are too many: the markers of one message may take {MAX_MARKED_BYTES} bytes"
    return _left_out("skipped", f"[media refused: {count} more files, too many for one message]", why)


def _left_out(what: Any, marker: str, why: str) -> Decision:
    return Decision("attachments", what, why, data={"marker": marker})


def _marked_bytes(outcome: MediaFact | Decision) -> int:
    if isinstance(outcome, Decision):
        return len(compact_json(outcome.data["marker"]).encode())
    # The marker says about what the fact says.
    return 2 * len(compact_json(outcome.raw).encode())


def _megabytes(size: int) -> str:
    megabytes = size / MIB
    return f"{megabytes:.1f}".removesuffix(".0") + " MB" if megabytes >= 0.05 else f"{size} bytes"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as a transcript holds it: no image bytes in it.

    ``message`` is the same object when it had none.
    """

    message: Message
    media: tuple[MediaFact, ...] = ()
    decisions: tuple[Decision, ...] = ()


def store_images(message: Message, put: Put, limit_bytes: int) -> Stored:
    """Put a text block with a marker in the place of every image block, and its bytes into the media store."""
    content = message.content
    if not isinstance(content, list) or not any(_is_image(block) for block in content):
        return Stored(message)
    blocks: list[Any] = []
    media: list[MediaFact] = []
    decisions: list[Decision] = []
    for block in content:
        if not _is_image(block):
            blocks.append(block)
            continue
        outcome = _stored(
            Attachment(_image_bytes(block), block.get("mimeType"), block.get("mimeType")), put, limit_bytes
        )
        if isinstance(outcome, Decision):
            decisions.append(outcome)
            blocks.append(text_block(str(outcome.data["marker"])))
        else:
            fact = MediaFact(outcome.path, outcome.type, outcome.bytes, outcome.sha256)
            media.append(fact)
            blocks.append(text_block(image_marker(fact.path, fact.type or "image")))
    return Stored(message.evolve(content=blocks), tuple(media), tuple(decisions))


@dataclass(frozen=True, slots=True)
class Shown:
    """The working set with the images that are sent, and the choice."""

    messages: tuple[Message, ...]
    decisions: tuple[Decision, ...] = ()


def attach_images(
    messages: Sequence[Message],
    facts: Mapping[str, Sequence[MediaFact]],
    load: Load,
    newest: int,
    *,
    takes_images: bool = True,
) -> Shown:
    """Send the newest images as blocks; everything older stays a marker.

    Stored images come back as blocks behind the text of their message, as long as that text still names them (a
    history rule that removed the marker has removed the image). Blocks that a foreign transcript holds count as well.

    Args:
        messages: the working set, oldest first.
        facts: stored files by transcript entry id.
        load: gives a stored image (:meth:`stores.media.MediaStore.picture`).
        newest: how many images are sent.
        takes_images: whether the model takes image blocks at all.
    """
    found = [_images_of(message, facts) for message in messages]
    count = sum(map(len, found))
    if count == 0:
        return Shown(tuple(messages))
    left = min(newest, count) if takes_images else 0
    shown: list[Message] = []
    decisions: list[Decision] = []
    loaded = 0
    for message, images in zip(reversed(messages), reversed(found), strict=True):
        kept = images[max(0, len(images) - left) :] if left else []
        left -= len(kept)
        if not images:
            shown.append(message)
            continue
        blocks, lost = _loaded([image for image in kept if isinstance(image, MediaFact)], load, message)
        decisions += lost
        loaded += len(kept) - len(lost)
        gone = {id(image) for image in images if not isinstance(image, MediaFact)} - {id(image) for image in kept}
        shown.append(_with_images(message, blocks, gone, IMAGE_REMOVED if takes_images else _NO_IMAGES))
    why = f"{loaded} of {count} images sent, the newest {newest} may be (media.imagesInContext)"
    if not takes_images:
        why = f"0 of {count} images sent: the model takes none"
    choice = Decision("attachments", "kept", why, count_before=count, count_after=loaded)
    return Shown(tuple(reversed(shown)), (choice, *decisions))


def show_images(messages: Sequence[Message], context: TurnContext) -> tuple[tuple[Message, ...], tuple[Decision, ...]]:
    """Attach the newest images of the turn's transcript, as far as the history rule keeps them in sight."""
    settings, media = context.settings, context.media
    if not _WITH_IMAGES(messages):
        return as_tuple(messages), ()
    in_sight = prune_processed(messages)
    shown = attach_images(
        in_sight.messages,
        _facts_of(in_sight.messages, context),
        lambda path: media.picture(path, settings.image_max_dimension_px),
        settings.media.images_in_context,
        takes_images=context.model.facts.images,
    )
    return shown.messages, (*in_sight.decisions, *shown.decisions)


def entry_media(raw: Mapping[str, Any]) -> tuple[MediaFact, ...]:
    """Return the media facts of a transcript entry."""
    own = raw.get("turngraph")
    listed = own.get("media") if isinstance(own, dict) else None
    found = (MediaFact.from_raw(item) for item in listed or () if isinstance(item, dict))
    return tuple(fact for fact in found if fact is not None)


def _facts_of(messages: Iterable[Message], context: TurnContext) -> dict[str, tuple[MediaFact, ...]]:
    facts: dict[str, tuple[MediaFact, ...]] = {}
    for message in messages:
        # Only a message that names a stored file can have facts; looking up the others could read the whole file.
        if message.entry_id and message.fact("may name a file", _may_name_a_file):
            try:
                entry = context.opened.entry(message.entry_id)
            except NotFound:
                continue
            if media := entry_media(entry.raw):
                facts[message.entry_id] = media
    return facts


def _may_have_images(message: Message) -> bool:
    return _may_name_a_file(message) or bool(_image_blocks(message))


_WITH_IMAGES = places(lambda message: message.fact("may have images", _may_have_images))


def _may_name_a_file(message: Message) -> bool:
    return message.role in ("user", "toolResult") and "media/" in message.text


def _image_blocks(message: Message) -> tuple[Mapping[str, Any], ...]:
    if message.role not in ("user", "toolResult"):
        return ()
    return tuple(block for block in message.blocks if _is_image(block))


def _images_of(message: Message, facts: Mapping[str, Sequence[MediaFact]]) -> list[MediaFact | Mapping[str, Any]]:
    images: list[MediaFact | Mapping[str, Any]] = list(message.fact("image blocks", _image_blocks))
    stored = facts.get(message.entry_id or "", ())
    if stored:
        text = message.text
        images += [fact for fact in stored if fact.type in IMAGE_TYPES and fact.path in text]
    return images


def _loaded(kept: Sequence[MediaFact], load: Load, message: Message) -> tuple[list[dict[str, Any]], list[Decision]]:
    blocks: list[dict[str, Any]] = []
    lost: list[Decision] = []
    for fact in kept:
        try:
            picture = load(fact.path)
        except (NotFound, OSError, ValueError) as error:
            why = f"{fact.path} cannot be sent, its marker stands alone: {type(error).__name__}"
            lost.append(Decision("attachments", "failed", why, entry_ids=(message.entry_id or "",)))
            continue
        data = base64.b64encode(picture.data).decode("ascii")
        blocks.append({"type": "image", "data": data, "mimeType": picture.type})
    return blocks, lost


def _with_images(message: Message, added: Sequence[dict[str, Any]], gone: set[int], marker: str) -> Message:
    if not added and not gone:
        return message
    blocks = [text_block(marker) if id(block) in gone else block for block in message.blocks]
    return message.evolve(content=[*blocks, *added])


def _is_image(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _image_bytes(block: Mapping[str, Any]) -> bytes | None:
    data = block.get("data")
    if not isinstance(data, str) or not data:
        return None
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
