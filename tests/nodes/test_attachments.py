"""Attachments: markers in front of the text, facts beside it, and the newest images as blocks."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nodes.attachments import attach_images, entry_media, store_images, take_in
from stores.media import MediaFact, MediaStore
from tests.builders import assistant, call, result, user
from turngraph.images import Picture
from turngraph.inbound import Attachment
from turngraph.media_markers import IMAGE_REMOVED, MARKER, without_markers
from turngraph.messages import Message

LIMIT = 5 * 1024 * 1024
A, B, C = "a" * 64, "b" * 64, "c" * 64


def png(color: str = "red") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (3, 3), color).save(out, "PNG")
    return out.getvalue()


def fact(digest: str, kind: str = "image/png") -> MediaFact:
    return MediaFact(f"media/{digest}.png", kind, 1, digest, "a.png")


def named(digest: str, entry: str) -> Message:
    return user(f"[media attached: media/{digest}.png (image/png) | a.png]\nlook", entry=entry)


def load(path: str) -> Picture:
    return Picture(path.encode(), "image/png", 1, 1)


def kinds(message: Message) -> list[str]:
    return [str(block["type"]) for block in message.blocks]


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def test_a_message_without_files_is_its_text(store: MediaStore) -> None:
    taken = take_in("hello", (), store.put, LIMIT)
    assert (taken.text, taken.media, taken.decisions) == ("hello", (), ())


def test_one_file_has_one_marker_before_the_text(store: MediaStore) -> None:
    taken = take_in("what is this?", (Attachment(png(), "cat|.png"),), store.put, LIMIT)
    path = taken.media[0].path
    assert taken.text == f"[media attached: {path} (image/png) | cat.png]\nwhat is this?"
    assert store.load(path) == png()


def test_several_files_are_counted_and_stand_in_their_order(store: MediaStore) -> None:
    taken = take_in(
        "", (Attachment(png(), "1.png"), Attachment(b"\x00"), Attachment(b"text", "n.txt")), store.put, LIMIT
    )
    paths = [item.path for item in taken.media]
    assert taken.text.split("\n") == [
        "[media attached: 3 files]",
        f"[media attached 1/3: {paths[0]} (image/png) | 1.png]",
        f"[media attached 2/3: {paths[1]}]",
        f"[media attached 3/3: {paths[2]} (text/plain) | n.txt]",
        "[User sent media without caption]",
    ]


def test_refused_and_lost_files_do_not_end_the_turn(store: MediaStore) -> None:
    files = (Attachment(b"x" * 2_000_000, "big.bin"), Attachment(None, "lost.jpg"), Attachment(b"ok", "n.txt"))
    taken = take_in("hi", files, store.put, 1_048_576)
    assert taken.text.split("\n") == [
        "[media refused: big.bin, 1.9 MB, limit 1 MB]",
        "[media missing: lost.jpg]",
        f"[media attached: {taken.media[0].path} (text/plain) | n.txt]",
        "hi",
    ]
    assert [decision.what for decision in taken.decisions] == ["skipped", "dropped"]
    assert "limit 1 MB" in taken.decisions[0].why


def test_a_full_disk_does_not_end_the_turn() -> None:
    def full(*_: object) -> MediaFact:
        raise OSError(28, "No space left on device")

    taken = take_in("hi", (Attachment(b"x", "a.txt"),), full, LIMIT)
    assert taken.text == "[media missing: a.txt]\nhi"
    assert "No space left" in taken.decisions[0].why


def test_the_transcript_line_stays_below_20_kb_whatever_comes(store: MediaStore) -> None:
    files = tuple(Attachment(f"{n}".encode(), "👩‍👩‍👧" * 100 + ".txt") for n in range(200))
    taken = take_in("x", files, store.put, LIMIT)
    entry = {"message": {"content": [{"text": taken.text}]}, "turngraph": {"media": [item.raw for item in taken.media]}}
    assert len(json.dumps(entry, ensure_ascii=False).encode()) < 20_000
    assert f"[media refused: {200 - len(taken.media)} more files, too many for one message]" in taken.text
    assert len(taken.decisions) == 1


@given(st.text(max_size=200))
def test_a_name_never_breaks_out_of_its_marker(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    store = MediaStore(tmp_path_factory.mktemp("media"))
    taken = take_in("", (Attachment(b"x", name),), store.put, LIMIT)
    first, last = taken.text.split("\n")
    assert MARKER.fullmatch(first)
    assert MARKER.fullmatch(last)
    assert without_markers(taken.text) == ""


def test_images_of_a_result_go_to_the_store_and_leave_a_marker(store: MediaStore) -> None:
    data = base64.b64encode(png()).decode()
    message = result("t1", "text").evolve(
        content=[{"type": "text", "text": "a.png"}, {"type": "image", "data": data, "mimeType": "image/png"}]
    )
    stored = store_images(message, store.put, LIMIT)
    path = stored.media[0].path
    assert stored.message.text == f"a.png\n[image: {path} (image/png)]"
    assert data not in json.dumps(stored.message.raw)
    assert entry_media({"turngraph": {"media": [item.raw for item in stored.media]}}) == stored.media
    shown = attach_images(
        [Message(stored.message.raw, user("x", entry="e").origin)],
        {"e": stored.media},
        lambda p: store.picture(p, 99),
        4,
    )
    assert shown.messages[0].blocks[-1] == {"type": "image", "data": data, "mimeType": "image/png"}


def test_an_image_above_the_limit_is_refused_in_a_result_as_well(store: MediaStore) -> None:
    message = user([{"type": "image", "data": base64.b64encode(png()).decode(), "mimeType": "image/png"}])
    stored = store_images(message, store.put, 10)
    assert stored.message.text.startswith("[media refused: image/png, ")
    assert [decision.what for decision in stored.decisions] == ["skipped"]
    broken = user([{"type": "image", "data": "!!", "mimeType": "image/png"}])
    assert store_images(broken, store.put, LIMIT).message.text == "[media missing: image/png]"


def test_a_message_without_images_stays_the_same_object(store: MediaStore) -> None:
    message = user("hi")
    assert store_images(message, store.put, LIMIT).message is message
    assert attach_images([message], {}, load, 4).messages[0] is message


def test_the_newest_images_come_back_behind_their_text() -> None:
    messages = [named(A, "e1"), assistant("seen"), named(B, "e2"), assistant("seen"), named(C, "e3")]
    facts = {"e1": [fact(A)], "e2": [fact(B)], "e3": [fact(C)]}
    shown = attach_images(messages, facts, load, 2)
    assert [kinds(message) for message in shown.messages] == [
        ["text"],
        ["text"],
        ["text", "image"],
        ["text"],
        ["text", "image"],
    ]
    assert shown.messages[0] is messages[0]
    assert shown.messages[4].origin == messages[4].origin
    choice = shown.decisions[0]
    assert (choice.count_before, choice.count_after) == (3, 2)


def test_an_image_whose_marker_is_gone_and_a_file_that_is_no_image_stay_away() -> None:
    facts = {"e1": [fact(A)], "e2": [fact(B, "application/pdf")]}
    messages = [user("[media reference removed - already processed by model]", entry="e1"), named(B, "e2")]
    assert attach_images(messages, facts, load, 4).messages == tuple(messages)


def test_blocks_of_a_foreign_transcript_follow_the_same_rule() -> None:
    image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    old = result("t1", "x").evolve(content=[image, {"type": "text", "text": "a"}])
    messages = [assistant(call("t1", "read", path="a"), stop="toolUse"), old, named(B, "e2")]
    shown = attach_images(messages, {"e2": [fact(B)]}, load, 1)
    assert shown.messages[1].blocks[0] == {"type": "text", "text": IMAGE_REMOVED}
    assert shown.messages[1].raw["toolCallId"] == "t1"
    assert kinds(shown.messages[2]) == ["text", "image"]
    assert attach_images(messages, {"e2": [fact(B)]}, load, 2).messages[1] is old


def test_a_model_without_images_gets_markers_only() -> None:
    foreign = user([{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}])
    shown = attach_images([foreign, named(A, "e1")], {"e1": [fact(A)]}, load, 4, takes_images=False)
    assert kinds(shown.messages[0]) == ["text"]
    assert kinds(shown.messages[1]) == ["text"]
    assert "the model takes none" in shown.decisions[0].why


def test_a_stored_image_that_is_gone_keeps_its_marker(store: MediaStore) -> None:
    message = named(A, "e1")
    shown = attach_images([message], {"e1": [fact(A)]}, lambda path: store.picture(path, 10), 4)
    assert shown.messages[0] is message
    assert [decision.what for decision in shown.decisions] == ["kept", "failed"]


@pytest.mark.parametrize(("count", "newest"), [(3, 4), (3, 3), (3, 1), (3, 0)])
def test_several_images_of_one_message(count: int, newest: int) -> None:
    digests = (A, B, C)[:count]
    message = user("\n".join(f"[image: media/{digest}.png (image/png)]" for digest in digests), entry="e")
    shown = attach_images([message], {"e": [fact(digest) for digest in digests]}, load, newest)
    sent = [base64.b64decode(block["data"]).decode() for block in shown.messages[0].blocks if block["type"] == "image"]
    assert sent == [f"media/{digest}.png" for digest in digests[max(0, count - newest) :]]


def test_foreign_markers_are_recognised() -> None:
    text = "[media attached: /tmp/in/photo.jpg (image/jpeg) | photo.jpg]\n[Image: source: /tmp/x.png]\nWhat is it?"
    assert without_markers(text) == "What is it?"
    assert without_markers("a [brackets] b\n\nc") == "a [brackets] b\n\nc"
