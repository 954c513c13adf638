"""Token counting: tiktoken from packaged data, and a script-aware estimate where it is not available.

Every token-based policy takes a :class:`Counter`; nothing here ever reaches the network.
Source: design.md "What binds", spec/context.md 5.4, spec/compaction.md 2.1, spec/stack.md 6.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import blake2b, sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from turngraph.history import Fold, History
from turngraph.messages import TOOL_CALL_TYPES, Message, block_text, compact_json
from turngraph.text import weighted_chars

if TYPE_CHECKING:
    import tiktoken

IMAGE_TOKENS = 2000  # 8,000 characters in every role: spec/compaction.md 2.1, newer release
MESSAGE_OVERHEAD_TOKENS = 4  # role and separators of one message in chat formats
CHARS_PER_TOKEN = 4

_O200K_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
# The split pattern that the o200k rank file was built for, one alternative a line.
_O200K_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_CACHED_TEXTS = 100_000


class Counter(Protocol):
    """Counts tokens; ``name`` says how, for reports."""

    @property
    def name(self) -> str: ...

    def text(self, text: str) -> int:
        """Count the tokens of ``text``."""
        ...

    def message(self, message: Message) -> int:
        """Count the tokens of a message with its tool calls and images."""
        ...


def total(counter: Counter, messages: Iterable[Message]) -> int:
    """Sum the tokens of ``messages``."""
    if not isinstance(messages, History):
        return sum(map(counter.message, messages))
    return Fold(0, lambda tokens, more, _start: tokens + sum(map(counter.message, more)), counter.name)(messages)


def spoken_texts(raw: Mapping[str, Any]) -> tuple[list[str], int]:
    """Return the texts of a message that a model reads, and its number of images.

    Covers text, thinking, tool-call names with their arguments as compact JSON, shell output and summaries;
    the details of a tool result are never sent and do not count.
    Source: spec/compaction.md 2.1.
    """
    role = raw.get("role")
    if role == "bashExecution":
        return [str(raw.get("command", "")), str(raw.get("output", ""))], 0
    if role in ("branchSummary", "compactionSummary"):
        return [str(raw.get("summary", ""))], 0
    content = raw.get("content")
    if isinstance(content, str):
        return [content], 0
    texts: list[str] = []
    images = 0
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text":
            texts.append(block_text(block))
        elif kind == "image":
            images += 1
        elif kind == "thinking":
            thinking = block.get("thinking")
            texts.append(thinking if isinstance(thinking, str) else "")
        elif kind in TOOL_CALL_TYPES:
            texts.append(f"{block.get('name', '')}{compact_json(block.get('arguments', block.get('input', {})))}")
    return texts, images


class EstimateCounter:
    """The estimate used where tiktoken is not available: weighted characters divided by four.

    With ``weighted=False`` every character counts one, as the original's older release did; only the shared
    vectors ask for that.
    """

    def __init__(self, *, weighted: bool = True, image_tokens: int = IMAGE_TOKENS) -> None:
        self._measure: Callable[[str], int] = weighted_chars if weighted else len
        self._image_chars = image_tokens * CHARS_PER_TOKEN
        self.name = "estimate (weighted characters / 4)" if weighted else "characters / 4"

    def text(self, text: str) -> int:
        return -(-self._measure(text) // CHARS_PER_TOKEN)

    def message(self, message: Message) -> int:
        texts, images = spoken_texts(message.raw)
        chars = sum(self._measure(text) for text in texts) + images * self._image_chars
        return -(-chars // CHARS_PER_TOKEN)


class TiktokenCounter:
    """Counts with tiktoken's o200k encoding; counts are cached by message and by content hash."""

    name = "tiktoken o200k_base"

    def __init__(self) -> None:
        self._texts: dict[bytes, int] = {}

    def text(self, text: str) -> int:
        if not text:
            return 0
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        count = self._texts.get(key)
        if count is None:
            count = len(o200k().encode_ordinary(text))
            if len(self._texts) >= _CACHED_TEXTS:
                self._texts.clear()
            self._texts[key] = count
        return count

    def message(self, message: Message) -> int:
        return message.fact("o200k", self._count)

    def _count(self, message: Message) -> int:
        texts, images = spoken_texts(message.raw)
        return MESSAGE_OVERHEAD_TOKENS + images * IMAGE_TOKENS + sum(self.text(text) for text in texts)


@cache
def o200k() -> tiktoken.Encoding:
    """Load the packaged o200k encoding (about half a second, once a process).

    Raises:
        ImportError: tiktoken is not installed.
        ValueError: the packaged rank file is damaged.
    """
    import tiktoken

    raw = gzip.decompress(files("turngraph").joinpath("data/o200k_base.tiktoken.gz").read_bytes())
    if sha256(raw).hexdigest() != _O200K_SHA256:
        raise ValueError("the packaged o200k_base rank file is damaged; reinstall turngraph")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}
    return tiktoken.Encoding(
        name="o200k_base",
        pat_str=_O200K_PATTERN,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
    )


@cache
def default_counter() -> Counter:
    """Return the counter of this process: tiktoken, else the estimate."""
    try:
        o200k()
    except (ImportError, ValueError, OSError):
        return EstimateCounter()
    return TiktokenCounter()
