"""Name patterns of allow and deny lists."""

from __future__ import annotations

import pytest

from turngraph.name_patterns import is_allowed


@pytest.mark.parametrize(
    ("name", "allow", "deny", "expected"),
    [
        ("exec", None, None, True),
        ("EXEC", None, ["exec"], False),
        ("web_fetch", ["web_*"], None, True),
        ("read", ["web_*"], None, False),
        ("read", ["*"], ["read"], False),
        ("anything", ["", None, "  "], None, True),
        (None, ["*"], None, True),
        ("read", [" Re*d "], None, True),
        ("a.b", ["a?b"], None, False),
        ("a?b", ["a?b"], None, True),
        ("x", ["[xy]"], None, False),
        ("[xy]", ["[xy]"], None, True),
        ("", None, ["*"], False),
    ],
)
def test_patterns(name: str | None, allow: list[str | None] | None, deny: list[str] | None, expected: bool) -> None:
    assert is_allowed(name, allow, deny) is expected
