"""Image bytes: how large a picture is, and a smaller one where it is too large to send.

Pillow is imported when a picture is really opened.
Source: spec/context.md section 4.2, spec/tools.md section 2.4.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from turngraph.media_types import media_type

_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "PNG", "image/webp": "WEBP"}
_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
# A picture that claims more pixels than this is not decoded: its bytes may be few, its memory is not.
MAX_PIXELS = 50_000_000


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that can be sent: its bytes, its media type, and its size in pixels."""

    data: bytes
    type: str
    width: int
    height: int


def fit_image(data: bytes, max_dimension_px: int) -> Picture:
    """Return the image with no side longer than ``max_dimension_px``; the same bytes when it fits.

    A moving GIF that is too large becomes its first frame as PNG.

    Raises:
        ValueError: the bytes are no image that can be opened, or it has too many pixels.
    """
    from PIL import Image, UnidentifiedImageError

    name = media_type(data)
    try:
        with Image.open(io.BytesIO(data)) as image:
            width, height = image.size
            if max(width, height) <= max_dimension_px:
                return Picture(data, name, width, height)
            if width * height > MAX_PIXELS:
                raise ValueError(f"the image has {width} x {height} pixels, more than {MAX_PIXELS} in all")
            return _smaller(image, name, max_dimension_px)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError("the image is damaged and cannot be opened") from error


def _smaller(image: Any, name: str, max_dimension_px: int) -> Picture:
    from PIL import ImageOps

    kind = _FORMATS.get(name, "PNG")
    width, height = image.size
    scale = max_dimension_px / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    image.draft("RGB" if kind == "JPEG" else None, size)  # lets the JPEG decoder skip detail
    frame = image.convert("RGB") if kind == "JPEG" else image.convert("RGBA")
    # A camera says in EXIF which side is up; the smaller copy has no EXIF, so its pixels must be turned.
    smaller = ImageOps.exif_transpose(frame.resize(size))
    out = io.BytesIO()
    smaller.save(out, kind)
    return Picture(out.getvalue(), _TYPES[kind], *smaller.size)
