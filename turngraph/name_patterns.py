"""Lists of name patterns with ``*``, as settings use them to allow and deny tools (spec/context.md section 6.4)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def matches(name: str, patterns: Iterable[str | None]) -> bool:
    """Tell whether one of ``patterns`` fits ``name``; case and outer blanks do not count, ``*`` is any run."""
    return any(fnmatchcase(_clean(name), _literal(pattern)) for pattern in _clean_all(patterns))


def is_allowed(name: str | None, allow: Iterable[str | None] | None, deny: Iterable[str | None] | None) -> bool:
    """Tell whether ``name`` passes: deny wins, and an allow list without a pattern allows everything.

    >>> is_allowed("web_fetch", ["web_*"], None), is_allowed("read", ["*"], ["read"])
    (True, False)
    """
    if matches(name or "", deny or ()):
        return False
    allowed = _clean_all(allow or ())
    return not allowed or matches(name or "", allowed)


def _clean(text: str) -> str:
    return text.strip().lower()


def _clean_all(patterns: Iterable[str | None]) -> list[str]:
    return [cleaned for pattern in patterns if isinstance(pattern, str) and (cleaned := _clean(pattern))]


def _literal(pattern: str) -> str:
    # fnmatch knows ? and [...] as well; here they stand for themselves.
    return pattern.replace("[", "[[]").replace("?", "[?]")
