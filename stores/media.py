"""The media folder of an agent: files that messages refer to, each stored once under its hash.

Source: spec/tools.md section 8, design decision 8.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from turngraph.errors import NotFound
from turngraph.images import Picture, fit_image
from turngraph.media_markers import STORED_PATH, clean_name
from turngraph.media_types import UNKNOWN_TYPE, ending, media_type

_STORED_NAME = re.compile(r"[0-9a-f]{64}\.[a-z0-9]{1,8}")
_BLOCK_BYTES = 1 << 20
_PATH_BYTES = 160  # more than a stored path: how much two blocks of a scan share


@dataclass(frozen=True, slots=True)
class MediaFact:
    """What a transcript keeps of a stored file.

    Attributes:
        path: ``media/<sha256>.<ext>``, relative to the sessions folder.
        type: media type, found from the content; ``None`` when it is not known.
        bytes: size.
        sha256: of the content.
        name: file name as the sender gave it, cleaned; ``None`` when there was none.
    """

    path: str
    type: str | None
    bytes: int
    sha256: str
    name: str | None = None

    @property
    def raw(self) -> dict[str, Any]:
        """The fact as a transcript entry holds it, without what is not known."""
        fields = {"path": self.path, "type": self.type, "bytes": self.bytes, "sha256": self.sha256, "name": self.name}
        return {key: value for key, value in fields.items() if value is not None}

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any]) -> MediaFact | None:
        """Read a fact of a transcript entry; ``None`` when it is none of ours."""
        path = raw.get("path")
        match = STORED_PATH.fullmatch(path) if isinstance(path, str) else None
        if match is None:
            return None
        size, kind, name = raw.get("bytes"), raw.get("type"), raw.get("name")
        return cls(
            match.group(0),
            kind if isinstance(kind, str) else None,
            size if isinstance(size, int) else 0,
            match["sha256"],
            name if isinstance(name, str) else None,
        )


@dataclass(frozen=True, slots=True)
class UnreferencedFile:
    """A stored file that no transcript names."""

    path: Path
    bytes: int
    modified: datetime


class MediaStore:
    """Stored files under ``folder``, which is made when the first one comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A picture is wanted again before every model call of a turn; its hash says that it is still the same.
        self._pictures: dict[tuple[str, int], Picture] = {}

    def put(self, data: bytes, name: str | None = None, media_type: str | None = None) -> MediaFact:
        """Store ``data`` under its hash, once; a second call with the same bytes writes nothing.

        Args:
            data: the content.
            name: file name as the sender gave it.
            media_type: type as the channel said; used only when the content does not tell.

        Raises:
            OSError: the disk refuses.
        """
        kind = _type_of(data, media_type)
        digest = sha256(data).hexdigest()
        stored = f"{digest}.{ending(kind or '')}"
        self._write_once(stored, data)
        return MediaFact(f"media/{stored}", kind, len(data), digest, clean_name(name))

    def load(self, path: str) -> bytes:
        """Read a stored file by its path in a transcript.

        Raises:
            NotFound: there is no such file here, or the path is no stored path.
        """
        try:
            return self.file(path).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{path} is not in the media folder; the message keeps its marker.") from None

    def picture(self, path: str, max_dimension_px: int) -> Picture:
        """Return a stored image as it is sent: no side longer than ``max_dimension_px``.

        Raises:
            NotFound: there is no such file here.
            ValueError: it is no image that can be opened.
        """
        key = (path, max_dimension_px)
        if key not in self._pictures:
            self._pictures[key] = fit_image(self.load(path), max_dimension_px)
        return self._pictures[key]

    def file(self, path: str) -> Path:
        """Return where a stored file lies, by its path in a transcript.

        Raises:
            NotFound: the path is no stored path.
        """
        if not STORED_PATH.fullmatch(path):
            raise NotFound(f"{path[:100]!r} is no path of a stored file (media/<sha256>.<ext>).")
        return self.folder / path.removeprefix("media/")

    def unreferenced(self, referenced: Iterable[str]) -> tuple[UnreferencedFile, ...]:
        """List stored files, and temporary ones, that are not among the ``referenced`` stored paths."""
        named = {path.removeprefix("media/") for path in referenced}
        found = []
        with suppress(FileNotFoundError):
            for file in sorted(self.folder.iterdir()):
                ours = _STORED_NAME.fullmatch(file.name) or file.name.endswith(".tmp")
                if ours and file.name not in named and file.is_file() and not file.is_symlink():
                    facts = file.stat()
                    found.append(UnreferencedFile(file, facts.st_size, datetime.fromtimestamp(facts.st_mtime, UTC)))
        return tuple(found)

    def _write_once(self, name: str, data: bytes) -> None:
        target = self.folder / name
        if target.is_file() and target.stat().st_size == len(data):
            # Its age counts from the last use: maintenance must not sweep what a message is about to name.
            os.utime(target)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            _sync_folder(self.folder)
        finally:
            temporary.unlink(missing_ok=True)


def referenced_media(files: Iterable[Path]) -> frozenset[str]:
    """Return every stored path that the text of ``files`` (transcripts and archives) names; reads in blocks."""
    found: set[str] = set()
    for path in files:
        rest = ""
        with suppress(FileNotFoundError), path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                text = rest + block.decode("ascii", "replace")
                found.update(match.group(0) for match in STORED_PATH.finditer(text))
                rest = text[-_PATH_BYTES:]
    return frozenset(found)


def _type_of(data: bytes, said: str | None) -> str | None:
    found = media_type(data)
    if found != UNKNOWN_TYPE:
        # The content shows that a file is text, the channel which kind of text.
        return said if said and found == "text/plain" and said.startswith("text/") else found
    return said if said and re.fullmatch(r"[\w.+-]{1,60}/[\w.+-]{1,60}", said) else None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
