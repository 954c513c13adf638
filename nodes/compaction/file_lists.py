"""file_lists: which files the folded part read and changed (spec/compaction.md 2.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngraph.messages import Message

LIST_MAX_CHARS = 900

_PATH_ARGUMENTS = ("path", "file_path", "filePath")
_PREFIX = re.compile(r"(?:mcp__.+?__|x__)")


@dataclass(frozen=True, slots=True)
class FileOperations:
    """Files by what was done to them."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    edited: frozenset[str] = frozenset()

    def __or__(self, other: FileOperations) -> FileOperations:
        return FileOperations(self.read | other.read, self.written | other.written, self.edited | other.edited)

    @property
    def modified_files(self) -> list[str]:
        return sorted(self.written | self.edited)

    @property
    def read_files(self) -> list[str]:
        """Files that were read and not changed."""
        return sorted(self.read - self.written - self.edited)


def collect_file_operations(messages: Iterable[Message]) -> FileOperations:
    """Return the files named by calls of ``read``, ``write`` and ``edit`` and by results of ``apply_patch``."""
    read: set[str] = set()
    written: set[str] = set()
    edited: set[str] = set()
    by_tool = {"read": read, "write": written, "edit": edited}
    for message in messages:
        for call in message.tool_calls:
            path = next((v for k in _PATH_ARGUMENTS if isinstance(v := call.arguments.get(k), str) and v), None)
            target = by_tool.get(_tool(call.name))
            if path is not None and target is not None:
                target.add(path)
        if message.role == "toolResult" and _tool(message.tool_name) == "apply_patch":
            written.update(_patched(message, "added"))
            edited.update(_patched(message, "modified"))
    return FileOperations(frozenset(read), frozenset(written), frozenset(edited))


def previous_file_operations(details: Any, *, from_hook: bool) -> FileOperations:
    """Return the files a previous compaction listed; an extension's details are its own business."""
    if from_hook or not isinstance(details, Mapping):
        return FileOperations()
    return FileOperations(read=_texts(details.get("readFiles")), edited=_texts(details.get("modifiedFiles")))


def file_lists_text(read_files: Sequence[str], modified_files: Sequence[str]) -> str:
    """Write both lists, beginning with a blank line; empty when both are."""
    lists = (("read-files", read_files), ("modified-files", modified_files))
    return "".join(f"\n\n<{tag}>\n{chr(10).join(files)}\n</{tag}>" for tag, files in lists if files)


def bounded_file_lists_text(read_files: Sequence[str], modified_files: Sequence[str]) -> str:
    """Write both lists, each at most 900 characters with its tags; what does not fit is counted."""
    lists = (("read-files", read_files), ("modified-files", modified_files))
    return "".join(f"\n\n{_bounded_list(tag, files)}" for tag, files in lists if files)


def _bounded_list(tag: str, files: Sequence[str]) -> str:
    opening, closing = f"<{tag}>\n", f"\n</{tag}>"
    room = LIST_MAX_CHARS - len(opening) - len(closing)
    body = ""
    for index, file in enumerate(files):
        left = len(files) - index - 1
        overflow = f"...and {left} more\n" if left else ""
        if len(body) + len(file) + 1 + len(overflow) > room:
            notice = f"...and {left + 1} more\n"
            body += notice if len(body) + len(notice) <= room else ""
            break
        body += f"{file}\n"
    return opening + body + closing


def _tool(name: str) -> str:
    return _PREFIX.sub("", name.strip().lower(), count=1)


def _texts(value: Any) -> frozenset[str]:
    return frozenset(item for item in value if isinstance(item, str)) if isinstance(value, list) else frozenset()


def _patched(message: Message, key: str) -> frozenset[str]:
    details = message.raw.get("details")
    summary = details.get("summary") if isinstance(details, Mapping) else None
    return _texts(summary.get(key)) if isinstance(summary, Mapping) else frozenset()
