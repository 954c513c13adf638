"""What a file is, by its first bytes: media types and the endings that stored files get."""

from __future__ import annotations

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
UNKNOWN_TYPE = "application/octet-stream"

# (offset, magic bytes, type); the first that fits decides.
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftyp", "video/mp4"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"BM", "image/bmp"),
    (0, b"\x7fELF", "application/x-executable"),
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
)
_ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/heic": "heic",
    "image/bmp": "bmp",
    "audio/wav": "wav",
    "audio/mp4": "m4a",
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/flac": "flac",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "application/pdf": "pdf",
    "application/zip": "zip",
    "application/gzip": "gz",
    "text/plain": "txt",
}
_PROBE_BYTES = 8192  # spec/tools.md section 2.5: where a NUL byte makes a file binary
_UTF8_MAX_BYTES = 4


def media_type(data: bytes) -> str:
    """Name the type of a file by its beginning; text is ``text/plain``, the rest ``application/octet-stream``.

    >>> media_type(b"GIF89a..."), media_type("日本語".encode()), media_type(b"\\x00\\x01")
    ('image/gif', 'text/plain', 'application/octet-stream')
    """
    for offset, magic, name in _MAGIC:
        if data.startswith(magic, offset) and (offset != 8 or data.startswith(b"RIFF")):
            return name
    return "text/plain" if data and is_text(data) else UNKNOWN_TYPE


def is_binary(data: bytes) -> bool:
    """Tell whether there is a NUL byte among the first 8 KiB."""
    return b"\x00" in data[:_PROBE_BYTES]


def is_text(data: bytes) -> bool:
    """Tell whether the beginning of a file is UTF-8 without NUL bytes."""
    probe = data[:_PROBE_BYTES]
    if b"\x00" in probe:
        return False
    try:
        probe.decode("utf-8")
    except UnicodeDecodeError as error:
        # A character that the probe cuts in two is no fault of the file.
        return len(data) > len(probe) and error.start > len(probe) - _UTF8_MAX_BYTES
    return True


def ending(name: str) -> str:
    """Return the file ending, without a dot, for a media type; ``bin`` when it is not known."""
    return _ENDINGS.get(name, "bin")
