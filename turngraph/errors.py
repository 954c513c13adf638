"""Every error a user can meet.

TurngraphError
├── ConfigError        settings: key path, value, allowed range, nearest known key
├── TranscriptError    file, line number, what was expected
├── StoreError         a store on disk: path, what was found, how to go on
├── ModelError         a provider call: kind, whether a retry may help, the provider's message
├── PluginError        a plugin that cannot be loaded or that broke its contract
├── NotFound           a session, turn, file or job that the caller named does not exist
└── SessionBusy        another process owns the turn: pid, since when

A message says what happened, where, and what to do. It never holds message text or keys.
Source: spec/style.md section 5.
"""

from __future__ import annotations

from typing import Literal, get_args

ModelErrorKind = Literal[
    "overflow", "rate", "quota", "auth", "timeout", "server", "network", "missing", "bad_request", "other"
]


class TurngraphError(Exception):
    """Base class: its text is meant for the user."""

    exit_code = 3


class ConfigError(TurngraphError):
    """Settings that cannot be used; ``problems`` holds one line for each bad key."""

    exit_code = 2

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        self.problems = problems
        super().__init__("\n".join((message, *(f"  {problem}" for problem in problems))))


class TranscriptError(TurngraphError):
    """A transcript that cannot be read or written as asked."""


class StoreError(TurngraphError):
    """A store on disk that cannot be used; the message says how to go on."""


class PluginError(TurngraphError):
    """A plugin that cannot be loaded, or a guard hook that failed."""


class NotFound(TurngraphError):
    """Something the caller named does not exist."""

    exit_code = 1


class ModelError(TurngraphError):
    """A model call that failed; ``kind`` decides what the turn does next."""

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind = "other",
        retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        self.kind: ModelErrorKind = kind
        self.retryable = retryable
        self.retry_after_s = retry_after_s
        super().__init__(message)


def error_name(error: BaseException) -> str:
    """Return the class of an error as traces and logs name it; of a model's with its kind.

    >>> error_name(ModelError("slow down", kind="rate")), error_name(KeyError())
    ('ModelError (rate)', 'KeyError')
    """
    name = type(error).__name__
    return f"{name} ({error.kind})" if isinstance(error, ModelError) else name


def model_error_kind(name: str | None) -> ModelErrorKind | None:
    """Return the kind of a model's error from its name; ``None`` for other errors."""
    return next((kind for kind in get_args(ModelErrorKind) if name == f"ModelError ({kind})"), None)


class SessionBusy(TurngraphError):
    """Another turn owns the session; ``pid`` and ``since`` are hints about who."""

    def __init__(self, message: str, *, pid: int | None = None, since: str | None = None) -> None:
        self.pid = pid
        self.since = since
        super().__init__(message)
