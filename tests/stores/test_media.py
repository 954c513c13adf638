"""The media store: each file once under its hash, whole or not at all."""

from __future__ import annotations

import io
import os
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from stores.media import MediaFact, MediaStore, referenced_media
from turngraph.errors import NotFound
from turngraph.media_types import media_type


def png(width: int = 4, height: int = 4) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def store(tmp_path: Path) -> MediaStore:
    return MediaStore(tmp_path / "sessions/media")


def test_a_file_is_stored_under_its_hash_with_its_type_by_content(store: MediaStore) -> None:
    data = png()
    digest = sha256(data).hexdigest()
    fact = store.put(data, "cat].txt", "text/plain")
    assert fact == MediaFact(f"media/{digest}.png", "image/png", len(data), digest, "cat.txt")
    assert fact.raw["path"] == fact.path
    assert store.load(fact.path) == data
    assert [file.name for file in store.folder.iterdir()] == [f"{digest}.png"]


@pytest.mark.parametrize(
    ("data", "said", "kind", "ending"),
    [
        (b"\x00\x01", None, None, "bin"),
        (b"", None, None, "bin"),
        (b"\x00\x01", "audio/ogg", "audio/ogg", "ogg"),
        (b"\x00\x01", "no type|]", None, "bin"),
        (b"%PDF-1.7", None, "application/pdf", "pdf"),
        ("日本語".encode(), None, "text/plain", "txt"),
        (b"a,b", "text/csv", "text/csv", "bin"),
    ],
)
def test_types(data: bytes, said: str | None, kind: str | None, ending: str, store: MediaStore) -> None:
    fact = store.put(data, media_type=said)
    assert (fact.type, fact.path.rsplit(".", 1)[1]) == (kind, ending)


def test_the_same_bytes_are_written_once(store: MediaStore) -> None:
    first = store.put(b"abc", "a.txt")
    inode = store.file(first.path).stat().st_ino
    assert store.put(b"abc", "b.txt").path == first.path
    assert store.file(first.path).stat().st_ino == inode


def test_a_half_written_file_of_a_crash_is_written_again(store: MediaStore) -> None:
    fact = store.put(b"abcdef")
    store.file(fact.path).write_bytes(b"abc")
    store.put(b"abcdef")
    assert store.load(fact.path) == b"abcdef"


def test_a_failed_write_leaves_nothing(store: MediaStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.put(b"abc")
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("path", ["media/../../x.png", "x", f"media/{'a' * 64}", f"media/{'A' * 64}.png"])
def test_other_paths_are_not_read(path: str, store: MediaStore) -> None:
    with pytest.raises(NotFound):
        store.load(path)


def test_a_picture_is_made_smaller_and_remembered(store: MediaStore) -> None:
    fact = store.put(png(300, 100))
    picture = store.picture(fact.path, 30)
    assert (picture.width, picture.height, picture.type) == (30, 10, "image/png")
    assert store.picture(fact.path, 30) is picture
    with pytest.raises(ValueError, match="cannot be opened"):
        store.picture(store.put(b"text").path, 30)


def test_what_nothing_names_is_listed(store: MediaStore, tmp_path: Path) -> None:
    named, archived, lost = (store.put(data) for data in (b"named", b"archived", b"lost"))
    (store.folder / ".x.tmp").write_bytes(b"half")
    (store.folder / "README").write_bytes(b"not ours")
    live = tmp_path / "sessions/a.jsonl"
    live.write_text("x" * ((1 << 20) - 30) + f'{{"path":"{named.path}"}}\n')
    old = tmp_path / "sessions/b.jsonl.reset.2026-01-01T00-00-00.000Z"
    old.write_text(f"[media attached: {archived.path} (text/plain)]")
    referenced = referenced_media([live, old, tmp_path / "gone.jsonl"])
    assert referenced == {named.path, archived.path}
    assert [file.path.name for file in store.unreferenced(referenced)] == [".x.tmp", lost.path.removeprefix("media/")]
    assert MediaStore(tmp_path / "none").unreferenced(()) == ()


def test_facts_survive_the_transcript_and_foreign_ones_are_ignored(store: MediaStore) -> None:
    fact = store.put(b"abc", "n")
    assert MediaFact.from_raw(fact.raw) == fact
    assert MediaFact.from_raw({"path": "/etc/passwd"}) is None
    assert MediaFact.from_raw({}) is None


@given(st.binary(max_size=64))
def test_what_is_stored_is_what_is_loaded(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    store = MediaStore(tmp_path_factory.mktemp("media"))
    fact = store.put(data)
    assert store.load(fact.path) == data
    assert fact.sha256 == sha256(data).hexdigest()


@given(st.text(alphabet="ab語👩é\n", min_size=1, max_size=30))
def test_text_is_known_as_text_wherever_the_probe_ends(text: str) -> None:
    assert media_type(text.encode() * (20_000 // len(text) + 1)) == "text/plain"
