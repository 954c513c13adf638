"""Which workspace paths are memory: the vocabulary shared by the index, the memory tools and the file tools.

Source: spec/memory.md sections 1.1 and 1.2, design decision 9.
"""

from __future__ import annotations

from turngraph.text import js_trim

ROOT_MEMORY = "MEMORY.md"
LEGACY_ROOT_MEMORY = "memory.md"
USER_FILE = "USER.md"
MEMORY_FOLDER = "memory/"


def normalise_memory_path(path: str) -> str:
    """Trim ``path``, strip leading dots and slashes, and write ``/`` for backslashes, in this order."""
    return js_trim(path).lstrip("./").replace("\\", "/")


def is_memory_path(path: str, *, has_root_memory: bool = False) -> bool:
    """Tell whether a workspace-relative path is a memory file by its name alone.

    Args:
        path: relative to the workspace; what it really leads to is for the caller to check.
        has_root_memory: whether the workspace holds ``MEMORY.md``; while it does not, ``memory.md`` counts.

    >>> is_memory_path("memory/2026-01-10.md"), is_memory_path("notes/memory/x.md")
    (True, False)
    """
    name = normalise_memory_path(path)
    if name in (ROOT_MEMORY, USER_FILE) or name.lower() == "dreams.md":
        return True
    if name == LEGACY_ROOT_MEMORY:
        return not has_root_memory
    return name.startswith(MEMORY_FOLDER)


def may_hold_memory(path: str) -> bool:
    """Tell whether a path must be kept from chats that may not see memory.

    Wider than :func:`is_memory_path`: upper and lower case are the same, as on file systems that ignore case.
    Source: spec/tools.md section 1.4, known-faults 13.1.
    """
    name = normalise_memory_path(path).casefold()
    return name in ("memory.md", "user.md", "dreams.md", "memory") or name.startswith(MEMORY_FOLDER)
