"""Errors of provider packages: what they are, whether a retry may help, and that they tell no secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from nodes.overflow import is_overflow
from turngraph.models.provider_errors import model_error


class Response:
    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status_code = status
        self.headers = headers


class HTTPError(Exception):
    def __init__(self, text: str, status: int | None = None, body: Any = None, **headers: str) -> None:
        super().__init__(text)
        self.body = body
        if status is not None:
            self.status_code = status
            self.response = Response(status, {name.replace("_", "-"): value for name, value in headers.items()})


class ContextOverflowError(HTTPError):
    """As langchain-core names it."""


class ModelTimeoutError(HTTPError):
    """As langchain-core names it."""


class ReadError(HTTPError):
    """As httpx names it; a TransportError there."""


class TransportError(HTTPError):
    pass


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ContextOverflowError("whatever it says", 400), "overflow", False),
        (HTTPError("x", 400, {"error": {"code": "context_length_exceeded"}}), "overflow", False),
        (HTTPError("tokens per minute", 429), "rate", True),
        (ContextOverflowError("token limit per minute reached", 429), "rate", True),
        (HTTPError("You exceeded your current quota", 429, {"code": "insufficient_quota"}), "quota", False),
        (HTTPError("Quota exceeded for metric requests PerDay", 429), "quota", False),
        (HTTPError("Your credit balance is too low", 400), "quota", False),
        (HTTPError("payment required", 402), "quota", False),
        (HTTPError("who are you?", 401), "auth", False),
        (HTTPError("not allowed", 403), "auth", False),
        (HTTPError("no such model", 404), "missing", False),
        (HTTPError("bad field", 400), "bad_request", False),
        (HTTPError("too large", 413), "bad_request", False),
        (HTTPError("oops", 500), "server", True),
        (HTTPError("overloaded", 529), "server", True),
        (HTTPError("in the stream", None, {"error": {"type": "overloaded_error"}}), "server", True),
        (HTTPError("in the stream", None, {"error": {"type": "rate_limit_error"}}), "rate", True),
        (TransportError("peer closed connection"), "network", True),
        (ConnectionResetError("reset"), "network", True),
        (TimeoutError("slow"), "timeout", False),
        (ModelTimeoutError("slow"), "timeout", False),
        (ValueError("No generation chunks were returned"), "server", True),
        (KeyError("surprise"), "other", False),
    ],
)
def test_the_kind_comes_from_code_status_and_type(error: Exception, kind: str, retryable: bool) -> None:
    made = model_error(error, "p:m")
    assert (made.kind, made.retryable) == (kind, retryable)


def test_what_a_user_wrote_about_an_overflow_does_not_make_one() -> None:
    """known-faults 6: a rate limit that quotes such words stays a rate limit."""
    made = model_error(HTTPError("rate limited: 'prompt is too long'", 429), "p:m")
    assert made.kind == "rate"
    assert not is_overflow(made)


def test_the_cause_tells_what_the_wrapper_hides() -> None:
    wrapper = ValueError("Error calling model")
    wrapper.__cause__ = HTTPError("slow down", 429, retry_after="7")
    made = model_error(wrapper, "p:m")
    assert (made.kind, made.retry_after_s) == ("rate", 7.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [({"retry_after": "12"}, 12.0), ({"retry_after_ms": "250"}, 0.25), ({"retry_after": "soon"}, None), ({}, None)],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert model_error(HTTPError("x", 429, **headers), "p:m").retry_after_s == seconds


def test_retry_after_may_be_a_date() -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    seconds = model_error(HTTPError("x", 429, retry_after=at), "p:m").retry_after_s
    assert seconds is not None and 80 < seconds <= 90


def test_google_writes_the_delay_into_the_error() -> None:
    details = {"error": {"details": [{"@type": "x"}, {"@type": "RetryInfo", "retryDelay": "17.5s"}]}}
    error = HTTPError("x", 429)
    error.details = details  # type: ignore[attr-defined]
    assert model_error(error, "p:m").retry_after_s == 17.5


def test_keys_are_masked_and_long_texts_cut() -> None:
    key = "sk-proj-aBcDeFgHiJkLmNoPqRsTuV"
    made = model_error(
        HTTPError(f"Incorrect key {key}; header own-secret-77; " + "x" * 900, 401), "p:m", ["own-secret-77"]
    )
    assert key not in str(made) and "own-secret-77" not in str(made)
    assert len(str(made)) < 600
