"""fit: make the prompt of a summary call fit the summariser, and count what had to be left out (known-faults 5.1)."""

from __future__ import annotations

from dataclasses import dataclass

from nodes.compaction.instructions import SYSTEM
from turngraph.text import head, tail
from turngraph.tokens import Counter

MARGIN_TOKENS = 64  # message overhead of providers
ANSWER_SHARE = 4  # an answer takes at most a quarter of the summariser's window
_LEFT_OUT = "\n\n[... {chars} characters of this part left out: larger than the summariser's window ...]\n\n"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt within its room; ``left_out_chars`` of its middle are missing, and a line in the gap says so."""

    text: str
    left_out_chars: int = 0


def answer_tokens(wanted_tokens: int, window_tokens: int) -> int:
    """Return the longest answer to ask for."""
    return max(1, min(wanted_tokens, window_tokens // ANSWER_SHARE))


def prompt_room_tokens(window_tokens: int, longest_answer_tokens: int, counter: Counter) -> int:
    """Return the room for the user text of a summary call."""
    return window_tokens - longest_answer_tokens - counter.text(SYSTEM) - MARGIN_TOKENS


def fit_prompt(text: str, room_tokens: int, counter: Counter) -> Fitted:
    """Cut the middle out of ``text`` until it takes at most ``room_tokens``; both ends stay."""
    tokens = counter.text(text)
    kept_chars = len(text)
    fitted = Fitted(text)
    while tokens > room_tokens and kept_chars > 0:
        kept_chars = min(kept_chars - 1, int(kept_chars * room_tokens / tokens * 0.95))
        start, end = head(text, kept_chars // 2), tail(text, kept_chars // 2)
        missing = len(text) - len(start) - len(end)
        fitted = Fitted(start + _LEFT_OUT.format(chars=missing) + end, missing)
        tokens = counter.text(fitted.text)
    return fitted
