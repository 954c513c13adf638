"""Images that are sent: the same bytes when they fit, otherwise smaller and the right way up."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from turngraph.images import MAX_PIXELS, fit_image


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_that_fits_keeps_its_bytes(kind: str) -> None:
    data = saved(Image.new("RGB", (10, 20)), kind)
    picture = fit_image(data, 20)
    assert picture.data is data
    assert (picture.width, picture.height, picture.type) == (10, 20, f"image/{kind.lower()}")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_colour_mode_can_be_made_smaller(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    picture = fit_image(saved(Image.new(mode, (300, 100)), kind), 30)
    assert (picture.width, picture.height) == (30, 10)
    assert Image.open(io.BytesIO(picture.data)).size == (30, 10)


def test_a_photo_that_was_taken_upright_stays_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    picture = fit_image(saved(Image.new("RGB", (400, 200)), "JPEG", exif=exif), 100)
    assert (picture.width, picture.height) == (50, 100)


@pytest.mark.parametrize("data", [b"", b"text", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0"])
def test_what_cannot_be_opened_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be opened"):
        fit_image(data, 100)


def test_a_small_file_that_claims_many_pixels_is_not_decoded() -> None:
    data = saved(Image.new("1", (10_000, MAX_PIXELS // 10_000 + 1)), "PNG")
    with pytest.raises(ValueError, match="pixels, more than"):
        fit_image(data, 1200)
