"""Errors of provider packages as one :class:`ModelError`: by type, status and code first, by text last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ValidationError

from turngraph.credentials import mask_credentials
from turngraph.errors import ModelError, ModelErrorKind

# Names of exception classes, found anywhere among the parents: those of langchain-core, of the providers' own
# packages, and of the HTTP libraries below them.
_TYPES: Mapping[str, ModelErrorKind] = {
    "ContextOverflowError": "overflow",
    "ModelAuthenticationError": "auth",
    "ModelPermissionDeniedError": "auth",
    "ModelInvalidRequestError": "bad_request",
    "ModelNotFoundError": "missing",
    "ModelRateLimitError": "rate",
    "ModelTimeoutError": "timeout",
    "ModelConnectionError": "network",
    "ModelAPIError": "server",
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate",
    "APITimeoutError": "timeout",
    "APIConnectionError": "network",
    "InternalServerError": "server",
    "TimeoutException": "timeout",
    "TransportError": "network",
    "ServerTimeoutError": "timeout",
    "ClientConnectionError": "network",
    "ClientPayloadError": "network",
}
# Codes that the bodies of errors carry, also inside a stream that began with status 200.
_CODES: Mapping[str, ModelErrorKind] = {
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "rate_limit_error": "rate",
    "rate_limit_exceeded": "rate",
    "overloaded_error": "server",
    "api_error": "server",
    "server_error": "server",
    "timeout_error": "server",
    "authentication_error": "auth",
    "invalid_api_key": "auth",
    "permission_error": "auth",
    "not_found_error": "missing",
    "model_not_found": "missing",
    "context_length_exceeded": "overflow",
    "request_too_large": "overflow",
}
_STATUSES: Mapping[int, ModelErrorKind] = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "auth",
    404: "missing",
    408: "network",
    413: "bad_request",
    422: "bad_request",
    429: "rate",
}
_RETRYABLE = frozenset({"rate", "server", "network"})
_USED_UP = re.compile(r"insufficient_quota|billing|credit balance|per ?day", re.IGNORECASE)
_NOTHING_CAME = re.compile(r"no generations? (?:chunks|found)|stream ended without", re.IGNORECASE)
_MAX_CHARS = 500


def model_error(error: BaseException, model: str, secrets: Collection[str] = ()) -> ModelError:
    """Turn whatever a provider package raised into a :class:`ModelError`.

    The message is the provider's, cut; ``secrets`` and whatever looks like a key are masked. An overflow that only
    the text tells is left to :func:`nodes.overflow.is_overflow`.
    """
    status = _status(error)
    kind = _kind(error, status)
    told = _told(error, secrets)
    text = f"{model}: {type(error).__name__}" + (f" {status}" if status else "") + f": {told}"
    return ModelError(text, kind=kind, retryable=kind in _RETRYABLE, retry_after_s=_retry_after_s(error))


def _kind(error: BaseException, status: int | None) -> ModelErrorKind:
    by_code = next((_CODES[code] for code in _codes(error) if code in _CODES), None)
    if by_code in ("quota", "overflow"):
        return by_code
    used_up = _USED_UP.search(str(error)) is not None  # an empty account is a bad request to some providers
    if status == 429 or by_code == "rate":
        return "quota" if used_up else "rate"
    if status in (400, 403) and used_up:
        return "quota"
    by_status = _STATUSES.get(status, "server" if status >= 500 else "other") if status is not None else None
    told = _by_type(error) or by_status or by_code
    return told or ("server" if _NOTHING_CAME.search(str(error)) or _has_unreadable_call(error) else "other")


def _has_unreadable_call(error: BaseException) -> bool:
    """Whether the package could not take in a tool call of the answer, such as one whose arguments are a list."""
    details = error.errors(include_input=False) if isinstance(error, ValidationError) else ()
    return any(part == "tool_calls" for detail in details for part in detail["loc"])


def _by_type(error: BaseException) -> ModelErrorKind | None:
    for cause in _causes(error):
        if isinstance(cause, (TimeoutError, asyncio.TimeoutError)):
            return "timeout"
        for parent in type(cause).__mro__:
            if parent.__name__ in _TYPES:
                return _TYPES[parent.__name__]
        if isinstance(cause, ConnectionError):
            return "network"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from, outermost first."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__


def _status(error: BaseException) -> int | None:
    for cause in _causes(error):
        for holder in (cause, getattr(cause, "response", None)):
            for name in ("status_code", "code", "status"):
                value: Any = getattr(holder, name, None)
                if isinstance(value, int) and 400 <= value <= 599:
                    return value
    return None


def _bodies(error: BaseException) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON bodies of an error, and the ``error`` object inside them."""
    for cause in _causes(error):
        for name in ("body", "details"):
            body = getattr(cause, name, None)
            if isinstance(body, Mapping):
                yield body
                inner = body.get("error")
                if isinstance(inner, Mapping):
                    yield inner


def _codes(error: BaseException) -> Iterator[str]:
    for body in _bodies(error):
        for key in ("code", "type"):
            value = body.get(key)
            if isinstance(value, str):
                yield value


def _retry_after_s(error: BaseException) -> float | None:
    for cause in _causes(error):
        headers: Any = getattr(getattr(cause, "response", None), "headers", None)
        if headers is None:
            continue
        for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value = headers.get(name)
            if value is not None and (seconds := _seconds(str(value))) is not None:
                return seconds * unit_s
    return _retry_delay_s(error)


def _seconds(value: str) -> float | None:
    """Read seconds, or the time that a date leaves."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _retry_delay_s(error: BaseException) -> float | None:
    """Read the ``RetryInfo`` of a Google error, as in ``"retryDelay": "17s"``."""
    for body in _bodies(error):
        details = body.get("details")
        for detail in details if isinstance(details, list) else ():
            delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
            if isinstance(delay, str) and (match := re.fullmatch(r"([\d.]+)s", delay)):
                return float(match[1])
    return None


def _told(error: BaseException, secrets: Collection[str]) -> str:
    if _has_unreadable_call(error):
        return "a tool call of the answer has arguments that are no object"  # its own text repeats them
    text = str(error).strip().replace("\n", " ")
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    text = mask_credentials(text)
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "…"
