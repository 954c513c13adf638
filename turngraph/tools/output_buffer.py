"""Output of a command in bounded memory: its beginning and its end, with what was dropped between them counted.

Source: spec/tools.md section 5.4.
"""

from __future__ import annotations

import re

from turngraph.tools.line_limits import decode_marked, mask_invalid

KEPT_BYTES = 5 * 1024 * 1024
# Escape sequences of terminals (CSI, OSC and other strings, two-character ones), then stray control characters.
_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


class OutputBuffer:
    """Keeps the first and the last half of ``limit`` bytes of what is added."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        """Take the next piece of output."""
        self.total_bytes += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Twice the size before anything moves: a command that writes single bytes must not cost a copy for each.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def dropped_bytes(self) -> int:
        """Bytes of the middle that are not kept."""
        return self.total_bytes - len(self._head) - min(len(self._tail), self._half)

    @property
    def data(self) -> bytes:
        """What is kept; a line of its own stands where bytes were dropped."""
        tail = bytes(self._tail[-self._half :])
        if not self.dropped_bytes:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[%d bytes dropped here]\n" % self.dropped_bytes + tail

    def end(self, size: int) -> bytes:
        """Return the last bytes, at most ``size``: for a look at running output."""
        tail = bytes(self._tail[-size:])
        return tail if len(tail) == size else bytes(self._head[-(size - len(tail)) :]) + tail


def plain_text(data: bytes) -> tuple[str, int]:
    """Decode output and remove terminal control sequences; also returns the number of bytes that were no UTF-8.

    >>> plain_text(b"\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07ok\\n")
    ('red ok\\n', 0)
    """
    # Bytes that are no UTF-8 are masked first: marked ones must not pass for text of their own.
    text, invalid = mask_invalid(decode_marked(data))
    return _CONTROL.sub("", text), invalid
