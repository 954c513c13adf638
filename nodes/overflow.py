"""overflow: tell a prompt that was too long from other failures, and choose the next way out.

A turn has a bounded number of ways out. The error's kind decides first, its text second; what a user wrote is never
looked at.
Source: spec/compaction.md 2.8, 6.1 and 6.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nodes.compaction.usage import normalise_usage, prompt_tokens
from nodes.state import Attempts
from turngraph.decisions import Decision, What
from turngraph.errors import ModelError
from turngraph.messages import Message
from turngraph.truncation import live_limits, result_chars

if TYPE_CHECKING:
    from turngraph.config import AgentSettings

MAX_OVERFLOWS = 3
MAX_TIMEOUT_COMPACTIONS = 2
TIMEOUT_PRESSURE_RATIO = 0.65  # of the window: a time-out above it is blamed on the size of the prompt

_NOT_SIZE = re.compile(
    r"\btpm\b|tokens per minute|rate[ _-]?limit|too many requests|^throttling|^service unavailable"
    r"|quota|billing|insufficient (?:credit|balance|fund)|credit balance"
    r"|reasoning is (?:mandatory|required)|reasoning .*(?:cannot be disabled|is required)"
    r"|context window .{0,40}(?:too small|minimum is)",
    re.IGNORECASE,
)
_SIZE = re.compile(
    r"request_too_large|request exceeds the maximum size|context length exceeded|maximum context length"
    r"|prompt (?:is )?too long|exceeds model context window|model token limit"
    r"|request size exceeds.*context (?:window|length)|context overflow:|exceed context limit"
    r"|exceeds the model's maximum context|max_tokens.*exceed.*context|input length.*exceed.*context|413.*too large"
    r"|context_window_exceeded|context[ _]length[ _]exceeded|context_overflow"
    r"|input is too long for requested model|exceeds the context window|input token count.*exceeds the maximum"
    r"|maximum prompt length is \d|reduce the length of the messages|exceeds the limit of \d"
    r"|exceeds the available context size|greater than the context length|context window exceeds limit"
    r"|too large for model with \d+ maximum context length|too many tokens|token limit exceeded"
    r"|^413(?: status code)? \(no body\)"
    r"|prompt has [\d,]+ tokens,? but the configured context size is|invalid_argument.*maximum number of tokens"
    r"|input exceeds.*maximum number of tokens|context window.*r[au]n out of (?:room|space)"
    r"|r[au]n out of (?:room|space).*context window|input \([\d,]+ tokens\) is longer than the model's context length"
    r"|input length [\d,]+ tokens exceeds the model limit|tokens in request more than max tokens allowed"
    r"|prompt exceeds max length|total tokens.{0,40} exceed.*limit|ollama error: context length exceeded"
    r"|exceeds maximum allowed input length of [\d,]+|range of input length should be"
    r"|上下文过长|上下文超出|上下文长度超|超出最大上下文|请压缩上下文|上下文窗口已满|超出上下文|输入过长|长度超过(?:模型)?(?:上限|限制)",
    re.IGNORECASE | re.DOTALL,
)
_LOOKS_LIKE_SIZE = re.compile(
    r"context.*overflow|context window.*(?:too large|too long|exceed|over|limit|max|requested|sent|tokens)"
    r"|prompt(?! template).*(?:too large|too long|exceed|over|limit|max)"
    r"|(?:request|input).*(?:context|window|length|token).*(?:too large|too long|exceed|over|limit|max)",
    re.IGNORECASE | re.DOTALL,
)
_COMPACTION = re.compile(r"summarization failed|auto-compaction|compaction", re.IGNORECASE)
_OBSERVED = re.compile(
    r"prompt is too long:\s*([\d,]+) tokens|requested (?:about )?([\d,]+) tokens|resulted in ([\d,]+) tokens"
    r"|requested:\s*([\d,]+)|input token count \(([\d,]+)\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OverflowText:
    """What an error text says about the size of the prompt.

    Attributes:
        is_overflow: it says that the prompt was too long.
        is_likely: it says so, or in loose words.
        is_compaction_failure: a compaction failed over it.
        observed_tokens: the size that it names.
    """

    is_overflow: bool
    is_likely: bool
    is_compaction_failure: bool
    observed_tokens: int | None


def read_overflow_text(text: str) -> OverflowText:
    """Classify the text of a provider's error; exclusions (rate limit, billing, too small) come first."""
    excluded = not text.strip() or _NOT_SIZE.search(text) is not None
    is_overflow = not excluded and _SIZE.search(text) is not None
    is_likely = is_overflow or (not excluded and _LOOKS_LIKE_SIZE.search(text) is not None)
    about_compaction = _COMPACTION.search(text) is not None
    failed = about_compaction and (is_likely or "context overflow" in text.lower())
    return OverflowText(is_overflow, is_likely, failed, observed_tokens(text))


def observed_tokens(text: str) -> int | None:
    """Return the size of the prompt that an error text names."""
    match = _OBSERVED.search(text)
    number = next((group for group in match.groups() if group), "") if match else ""
    return int(number.replace(",", "")) or None if number.replace(",", "") else None


def is_overflow(error: ModelError) -> bool:
    """Whether a failed call failed because its prompt was too long: by its kind, else by its text."""
    if error.kind in ("overflow", "rate", "quota", "auth", "missing", "network"):
        return error.kind == "overflow"
    return read_overflow_text(str(error)).is_likely


def is_overflow_answer(message: Message, window_tokens: int | None) -> bool:
    """Whether an assistant message shows an overflow: as an error, or silently by its usage.

    A provider that cuts the prompt without a word reports more input than the window, or stops for length without
    any output at 99 % of it.
    """
    if message.stop_reason == "error":
        text = message.raw.get("errorMessage")
        return isinstance(text, str) and read_overflow_text(text).is_overflow
    usage = normalise_usage(message.usage)
    prompt = prompt_tokens(usage)
    if usage is None or prompt is None or not window_tokens:
        return False
    if message.stop_reason == "stop":
        return prompt > window_tokens
    return message.stop_reason == "length" and not usage.get("output") and prompt >= 0.99 * window_tokens


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do after a failed call: the edge to take, with its reason; ``answered`` means to give up.

    Attributes:
        attempts: the counters to go on with.
        reply_text: what the user is told when there is nothing left to try.
    """

    route: Literal["compact due", "shrink due", "answered"]
    why: str
    attempts: Attempts
    reply_text: str = ""
    decisions: tuple[Decision, ...] = ()


def plan_recovery(
    error: ModelError,
    attempts: Attempts,
    *,
    messages: Sequence[Message],
    window_tokens: int,
    settings: AgentSettings,
) -> Recovery:
    """Choose what follows a model call that failed for good.

    An overflow is met at most three times: first by a compaction, then (once) by shortening oversized tool results,
    then by a compaction that keeps half as much. A time-out with a nearly full window is taken for an overflow that
    the provider did not report, at most twice.
    """
    off = settings.compaction.mode == "off"
    if is_overflow(error):
        seen = attempts.bump(
            overflows=attempts.overflows + 1,
            observed_tokens=observed_tokens(str(error)) or window_tokens + 1,
            compaction_trigger="overflow",
        )
        return next_recovery(seen, shrinkable=has_oversized_results(messages, window_tokens), off=off)
    pressure = last_prompt_tokens(messages) / window_tokens
    may_compact = not off and attempts.failed is None and attempts.timeouts < MAX_TIMEOUT_COMPACTIONS
    if error.kind == "timeout" and may_compact and pressure > TIMEOUT_PRESSURE_RATIO:
        why = f"the model timed out with {pressure:.0%} of the window used, limit {TIMEOUT_PRESSURE_RATIO:.0%}"
        tried = attempts.bump(timeouts=attempts.timeouts + 1, compaction_trigger="timeout_recovery")
        return Recovery("compact due", why, tried, decisions=(_decision("routed", why),))
    return Recovery("answered", f"the model call failed ({error.kind})", attempts, reply_text=str(error))


def next_recovery(attempts: Attempts, *, shrinkable: bool, off: bool) -> Recovery:
    """Choose the next way out of an overflow, given what was tried in this turn."""
    seen = f"overflow {attempts.overflows} of at most {MAX_OVERFLOWS}"
    may_compact = not off and attempts.failed is None
    if off or attempts.overflows > MAX_OVERFLOWS:
        why = "compaction.mode is off" if off else f"{attempts.overflows} overflows in this turn"
    elif shrinkable and not attempts.shrunk and (attempts.compactions > 0 or not may_compact):
        why = f"{seen}: a compaction did not help, and tool results are above the live cap"
        return Recovery("shrink due", why, attempts, decisions=(_decision("routed", why),))
    elif may_compact:
        why = f"{seen}: the provider refused about {attempts.observed_tokens} tokens"
        return Recovery("compact due", why, attempts, decisions=(_decision("routed", why),))
    else:
        why = f"{seen}: {attempts.failed or 'nothing is left to try'}"
    return Recovery("answered", why, attempts, give_up_text(why, off=off), (_decision("failed", why),))


def give_up_text(why: str, *, off: bool = False) -> str:
    """Return what the user is told when a prompt cannot be made to fit (known-faults 4.3)."""
    summarise = "another compaction.mode and /compact" if off else "/compact"
    return (
        f"Context overflow: the conversation no longer fits the model's context window ({why}). Nothing was lost. "
        f"Try {summarise} to summarise it, /new for a fresh session, a model with a larger window, or smaller "
        "workspace files."
    )


def has_oversized_results(messages: Sequence[Message], window_tokens: int) -> bool:
    """Whether a tool result is above what may be shown at this window (design decision 7)."""
    limits = live_limits(window_tokens)
    sizes = [result_chars(message) for message in messages if message.role == "toolResult"]
    return any(size > limits.per_result for size in sizes) or sum(sizes) > limits.aggregate


def last_prompt_tokens(messages: Sequence[Message]) -> int:
    """Return the prompt size that the last answer with a usage reported; 0 when none did."""
    reported = (prompt_tokens(normalise_usage(message.usage)) for message in reversed(messages))
    return next((tokens for tokens in reported if tokens), 0)


def _decision(what: What, why: str) -> Decision:
    return Decision(node="prompt", what=what, why=why)
