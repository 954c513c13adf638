"""Markers that stand in a message for a file: how they are written and how they are recognised.

Source: spec/tools.md section 8, spec/context.md section 4.4.
"""

from __future__ import annotations

import re

from turngraph.text import head, well_formed

NAME_MAX_CHARS = 120
NO_CAPTION = "[User sent media without caption]"
REFERENCE_REMOVED = "[media reference removed - already processed by model]"
IMAGE_REMOVED = "[image data removed - already processed by model]"

STORED_PATH = re.compile(r"media/(?P<sha256>[0-9a-f]{64})\.(?P<ending>[a-z0-9]{1,8})")
# Our own markers and those of OpenClaw transcripts, as far as they stand for a file that the model may have seen.
REFERENCE = re.compile(
    r"\[media attached(?: \d+/\d+)?: (?!\d+ files\])[^\]\n]+\]"
    r"|\[Image: source: [^\]\n]+\]"
    r"|\[image: media/[0-9a-f]{64}\.[a-z0-9]+[^\]\n]*\]"
)
# All of them: also a count, a file that never came in, and the word for a missing caption.
MARKER = re.compile(REFERENCE.pattern + r"|\[media (?:attached|refused|missing): [^\]\n]*\]|" + re.escape(NO_CAPTION))
_UNSAFE_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\[\]|]")


def clean_name(name: str | None) -> str | None:
    """Return a file name that cannot break out of a marker, at most 120 characters; ``None`` when nothing is left."""
    cleaned = well_formed(_UNSAFE_IN_NAMES.sub("", name or "").strip())
    return head(cleaned, NAME_MAX_CHARS) or None


def attached_marker(path: str, media_type: str | None, name: str | None, number: int = 1, count: int = 1) -> str:
    """Write the marker of a stored file; of several, with its number.

    >>> attached_marker("media/ab.png", "image/png", "cat.png")
    '[media attached: media/ab.png (image/png) | cat.png]'
    >>> attached_marker("media/ab.bin", None, None, 2, 3)
    '[media attached 2/3: media/ab.bin]'
    """
    place = f" {number}/{count}" if count > 1 else ""
    kind = f" ({media_type})" if media_type else ""
    return f"[media attached{place}: {path}{kind}{f' | {name}' if name else ''}]"


def count_marker(count: int) -> str:
    """Write the line that announces ``count`` files."""
    return f"[media attached: {count} files]"


def image_marker(path: str, media_type: str) -> str:
    """Write what stands for an image inside a tool result."""
    return f"[image: {path} ({media_type})]"


def without_markers(text: str) -> str:
    """Return ``text`` without any media marker and without the lines that held nothing else."""
    lines = []
    for line in text.split("\n"):
        bare = MARKER.sub("", line)
        if bare.strip() or bare == line:
            lines.append(bare)
    return "\n".join(lines).strip()


def stored_paths(text: str) -> tuple[str, ...]:
    """Return the stored files that ``text`` names, in order, each once."""
    return tuple(dict.fromkeys(match.group(0) for match in STORED_PATH.finditer(text)))
