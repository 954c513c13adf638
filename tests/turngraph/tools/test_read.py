"""``read``: limits, the notice that goes on, images, and what is no text."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.turngraph.tools.calls import Call, text_of
from turngraph.tools.read import ReadTool, scan

READ = ReadTool()


def picture(width: int, height: int, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, kind)
    return out.getvalue()


def test_a_short_file_comes_whole_without_its_final_line_end(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_bytes("日本語\r\nsecond\n".encode())
    result = call(READ, path="a.md")
    assert text_of(result) == "日本語\r\nsecond"
    assert result.details == {
        "path": "a.md",
        "operation": "read",
        "startLine": 1,
        "endLine": 2,
        "totalLines": 2,
        "totalBytes": 18,
    }
    assert not result.is_error


def test_a_long_file_is_cut_at_2000_lines_and_says_how_to_go_on(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("".join(f"line {n}\n" for n in range(1, 3001)))
    result = call(READ, path="a.md")
    assert text_of(result).endswith("line 2000\n\n[lines 1-2000 of 3000; continue with offset=2001]")
    assert result.details["truncation"] == {
        "truncated": True,
        "truncatedBy": "lines",
        "totalLines": 3000,
        "totalBytes": 28_893,
        "outputLines": 2000,
        "outputBytes": 18_892,
        "firstLineExceedsLimit": False,
        "lastLinePartial": False,
        "maxLines": 2000,
        "maxBytes": 51_200,
    }
    rest = call(READ, path="a.md", offset=2001)
    assert text_of(rest).startswith("line 2001\n")
    assert text_of(rest).endswith("line 3000")
    assert "truncation" not in rest.details


def test_the_byte_limit_keeps_whole_lines_and_the_notice_inside(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("語" * 100 + "\n" + ("字" * 100 + "\n") * 400)
    text = text_of(call(READ, path="a.md"))
    assert len(text.encode()) <= 51_200
    assert "\n\n[lines 1-169 of 401; continue with offset=170]" in text


def test_a_limit_with_more_behind_it_says_so_and_a_limit_at_the_end_does_not(workspace: Path, call: Call) -> None:
    (workspace / "a.md").write_text("1\n2\n3\n4")
    assert text_of(call(READ, path="a.md", offset=2, limit=2)) == "2\n3\n\n[lines 2-3 of 4; continue with offset=4]"
    assert text_of(call(READ, path="a.md", offset=3, limit=2)) == "3\n4"


def test_a_single_line_above_the_byte_limit_is_shown_in_part(workspace: Path, call: Call) -> None:
    (workspace / "a.json").write_bytes(b"first\n" + "é".encode() * 40_000 + b"\nlast\n")
    assert text_of(call(READ, path="a.json")) == "first\n\n[lines 1-1 of 3; continue with offset=2]"
    result = call(READ, path="a.json", offset=2)
    assert text_of(result) == "é" * 2000 + "\n\n[line 2 is 80000 bytes long; use exec to look inside it]"
    assert result.details["truncation"]["firstLineExceedsLimit"] is True
    assert text_of(call(READ, path="a.json", offset=3)) == "last"


def test_empty_files_and_offsets_beyond_the_end(workspace: Path, call: Call) -> None:
    (workspace / "empty").touch()
    (workspace / "mark").write_bytes(b"\xef\xbb\xbf")
    (workspace / "two").write_text("1\n2\n")
    assert text_of(call(READ, path="empty")) == "(empty file)"
    assert text_of(call(READ, path="mark")) == "(empty file)"
    result = call(READ, path="two", offset=3)
    assert text_of(result) == "Offset 3 is beyond the end of two (2 lines)"
    assert (result.is_error, result.details) == (True, {"status": "error", "code": "BAD_ARGUMENT"})


def test_a_byte_order_mark_is_not_shown_and_bad_bytes_are_counted(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone \xff\xfe two\n\xef\xbf\xbd\n")
    result = call(READ, path="a.txt")
    assert text_of(result) == "one \ufffd\ufffd two\n\ufffd"
    assert result.details["invalidBytes"] == 2


def test_binary_files_are_refused_with_size_and_type(workspace: Path, call: Call) -> None:
    (workspace / "a.bin").write_bytes(b"PK\x03\x04" + b"\x00" * 100)
    result = call(READ, path="a.bin")
    assert text_of(result) == "Not a text file: a.bin (104 bytes, application/zip)"
    assert result.details["code"] == "BINARY"


def test_an_image_is_known_by_its_content_and_comes_as_a_block(workspace: Path, call: Call) -> None:
    data = picture(30, 20)
    (workspace / "photo.txt").write_bytes(data)
    text, image = call(READ, path="photo.txt").content
    assert text["text"] == f"photo.txt: image/png, 30 x 20 pixels, {len(data)} bytes"
    assert image == {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


@pytest.mark.parametrize(("kind", "sent"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/png")])
def test_a_large_image_is_made_smaller(kind: str, sent: str, workspace: Path, call: Call) -> None:
    (workspace / "a").write_bytes(picture(2400, 1200, kind))
    text, image = call(READ, path="a").content
    assert f"{sent}, 1200 x 600 pixels" in text["text"]
    assert Image.open(io.BytesIO(base64.b64decode(image["data"]))).size == (1200, 600)


def test_an_image_above_the_size_limit_or_a_damaged_one_is_an_error(workspace: Path, call: Call) -> None:
    (workspace / "a.png").write_bytes(picture(30, 20))
    assert call(ReadTool(media_max_bytes=10), path="a.png").details["code"] == "TOO_LARGE"
    (workspace / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    assert call(READ, path="b.png").details["code"] == "BINARY"


def test_an_error_names_the_path_as_given_and_nothing_of_the_machine(workspace: Path, call: Call) -> None:
    result = call(READ, path="@none.md")
    assert text_of(result).startswith("File not found: @none.md")
    assert str(workspace.parent) not in text_of(result)


def expected_lines(data: bytes) -> list[bytes]:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


@given(
    st.lists(st.sampled_from([b"\n", b"a", b"\r\n", "語".encode(), b"\xff", b"\xef\xbb\xbf"])),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(3, 9),
)
def test_a_scan_counts_and_keeps_what_splitting_the_whole_file_would(
    parts: list[bytes], offset: int, lines: int, block_bytes: int
) -> None:
    data = b"".join(parts)
    window = scan(io.BytesIO(data), offset, lines, block_bytes)
    wanted = expected_lines(data)
    assert window.total_bytes == len(data)
    assert window.total_lines == len(wanted)
    kept = b"".join(line + b"\n" for line in wanted[offset - 1 : offset - 1 + lines])
    assert kept in (window.data, window.data + b"\n")
    if offset <= len(wanted):
        assert window.first_line_bytes == len(wanted[offset - 1])


@settings(max_examples=40)
@given(text=st.text(alphabet=st.sampled_from("ab語👩\u200d\n\r\t é"), max_size=400), limit=st.integers(1, 7))
def test_reading_page_by_page_gives_the_file(text: str, limit: int, tmp_path_factory: Any) -> None:
    file = tmp_path_factory.mktemp("pages") / "file"
    file.write_bytes(text.encode())
    with file.open("rb") as opened:
        total = scan(opened, 1, 1).total_lines
    pages = []
    for offset in range(1, total + 1, limit):
        with file.open("rb") as opened:
            pages.append(scan(opened, offset, limit).data)
    assert b"".join(pages) == text.encode()
