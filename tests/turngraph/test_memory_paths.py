"""Which paths are memory."""

from __future__ import annotations

import pytest

from turngraph.memory_paths import is_memory_path, may_hold_memory


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("MEMORY.md", True),
        (" MEMORY.md ", True),
        ("memory.md", True),
        ("Memory.md", False),
        ("USER.md", True),
        ("dreams.md", True),
        ("DREAMS.md", True),
        ("memory/a.md", True),
        ("./memory/sub/a.txt", True),
        ("memory\\a.md", True),
        ("memory/", True),
        ("memory", False),
        ("notes/memory/a.md", False),
        ("", False),
    ],
)
def test_memory_paths(path: str, expected: bool) -> None:
    assert is_memory_path(path) is expected


def test_the_small_spelling_counts_only_while_the_large_one_is_absent() -> None:
    assert not is_memory_path("memory.md", has_root_memory=True)


@pytest.mark.parametrize("path", ["memory.md", "Memory.MD", "MEMORY/a.md", "memory", "user.md", "Dreams.md"])
def test_what_must_be_kept_private_is_wider(path: str) -> None:
    assert may_hold_memory(path)
    assert not may_hold_memory(f"notes/{path}")
