"""silent: recognise the reply that means "nothing to say", whole, at the end of a text, and while it streams.

Source: spec/compaction.md section 1.6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from turngraph.text import js_trim

SILENT_TOKEN = "NO_REPLY"

_WHOLE = re.compile(rf"\s*{SILENT_TOKEN}\s*", re.IGNORECASE)
_AT_END = re.compile(rf"(?:^|\s+|\*+){SILENT_TOKEN}\s*$", re.IGNORECASE)
_FRAGMENT = re.compile(r"[A-Z_]{2,}")


def is_silent(text: str) -> bool:
    """Whether ``text`` is nothing but the silent token, in any case and with blanks around it."""
    return _WHOLE.fullmatch(text) is not None


def strip_silent(text: str) -> str:
    """Return ``text`` without a silent token at its end; a token glued to a word is text and stays."""
    return js_trim(_AT_END.sub("", text))


def may_become_silent(text: str) -> bool:
    """Whether a streamed beginning could still turn out to be the silent token.

    ``NO`` and whatever of the token holds an underscore count; ``N`` or ``No`` start ordinary words.
    """
    start = js_trim(text)
    if not _FRAGMENT.fullmatch(start) or not SILENT_TOKEN.startswith(start):
        return False
    return "_" in start or start == "NO"


@dataclass(slots=True)
class SilentGate:
    """Holds back the beginning of a streamed reply as long as it may be the silent token."""

    held: str = field(default="")
    open: bool = field(default=False)

    def pass_on(self, text: str) -> str:
        """Return what of the stream may be shown now that ``text`` has come in."""
        if self.open:
            return text
        self.held += text
        if not js_trim(self.held) or may_become_silent(self.held) or is_silent(self.held):
            return ""
        self.open = True
        shown, self.held = self.held, ""
        return shown

    def finish(self) -> str:
        """Return what is still held at the end of the stream: nothing when the reply was silent."""
        return "" if is_silent(self.held) else self.held
