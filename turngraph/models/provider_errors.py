"""Errors of provider packages as one :class:`ModelError`, by type and status first, by text last."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from turngraph.errors import ModelError, ModelErrorKind

_NAMES: Mapping[str, ModelErrorKind] = {
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate",
    "APITimeoutError": "timeout",
    "APIConnectionError": "network",
    "InternalServerError": "server",
    "ConnectError": "network",
    "ReadError": "network",
    "ReadTimeout": "timeout",
    "ConnectTimeout": "timeout",
    "RemoteProtocolError": "network",
}
_RETRYABLE = frozenset({"rate", "server", "network"})
_QUOTA = re.compile(r"insufficient_quota|billing|credit balance|quota exceeded", re.IGNORECASE)


def model_error(error: BaseException, model: str) -> ModelError:
    """Turn whatever a provider package raised into a :class:`ModelError`.

    A context overflow is recognised later, from ``kind`` "bad_request" and the text (spec/compaction.md 6.1); the
    message is the provider's, cut, and never holds a key.
    """
    status = _status(error)
    kind = _kind(error, status)
    text = f"{model}: {type(error).__name__}" + (f" {status}" if status else "") + f": {_first_line(error)}"
    return ModelError(text, kind=kind, retryable=kind in _RETRYABLE, retry_after_s=_retry_after_s(error))


def _kind(error: BaseException, status: int | None) -> ModelErrorKind:
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return "timeout"
    if status == 429:
        return "quota" if _QUOTA.search(str(error)) else "rate"
    if status in (401, 403):
        return "auth"
    if status in (400, 413, 422):
        return "bad_request"
    if status is not None and status >= 500:
        return "server"
    for parent in type(error).__mro__:
        if parent.__name__ in _NAMES:
            return _NAMES[parent.__name__]
    return "network" if isinstance(error, ConnectionError) else "other"


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "code", "status"):
            value: Any = getattr(holder, name, None)
            if isinstance(value, int) and 100 <= value <= 599:
                return value
    return None


def _retry_after_s(error: BaseException) -> float | None:
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get("retry-after") if headers is not None else None
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _first_line(error: BaseException) -> str:
    text = str(error).strip().replace("\n", " ")
    return text if len(text) <= 500 else text[:500] + "…"
