"""Paths that a model names: which file of the workspace is meant, and whether a tool may touch it.

Source: spec/tools.md section 1.3.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from stores.guarded_read import GuardError, file_kind, open_beneath, real_parts
from turngraph.media_markers import STORED_PATH
from turngraph.memory_paths import may_hold_memory
from turngraph.tools.result import ToolFailure
from turngraph.tools.tool import ToolContext

NEAR_NAMES = 3
_NEAR_CUTOFF = 0.5  # share of equal characters that makes two names near
_LISTED_NAMES = 5000  # of a folder, for near names
_SPECIAL_BLANKS = dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")


@dataclass(frozen=True, slots=True)
class Place:
    """A file that a call means.

    Attributes:
        root: folder it lies in: the workspace, or the media folder.
        parts: its real path below ``root``.
        name: its path as results name it: relative to the workspace, with ``/``.
        given: the path as the model gave it, for error texts.
    """

    root: Path
    parts: tuple[str, ...]
    name: str
    given: str


def place_in_workspace(given: str, workspace: Path, memory_refusal: str | None = None) -> Place:
    """Return the place that ``given`` means, whether or not there is a file.

    Args:
        given: relative to the workspace, absolute, or starting with ``~``; a leading ``@`` is dropped.
        workspace: root that no path may leave, links included.
        memory_refusal: why this run may not see memory files, ``None`` when it may.

    Raises:
        ToolFailure: code NOT_ALLOWED.
    """
    path = _cleaned(given)
    try:
        parts = real_parts(workspace, path)
    except GuardError:
        raise ToolFailure(
            "NOT_ALLOWED", f"Not allowed: {given} is outside the workspace. Name a file inside it."
        ) from None
    if memory_refusal and (_names_memory(workspace, path) or may_hold_memory("/".join(parts))):
        raise ToolFailure("NOT_ALLOWED", f"Not allowed: {given}: {memory_refusal}. Tell the user.")
    return Place(workspace, parts, "/".join(parts).encode("utf-8", "replace").decode("utf-8") or ".", given)


def find_in_workspace(
    given: str, workspace: Path, memory_refusal: str | None = None, *, media: Path | None = None
) -> Place:
    """Return the place of a file that exists.

    A name that is not there is looked for in its other Unicode form and with plain blanks; with ``media`` a
    stored path (``media/<sha256>.<ext>``) is looked for in that folder after the workspace.

    Raises:
        ToolFailure: NOT_ALLOWED, or NOT_FOUND with up to three near names.
    """
    place = place_in_workspace(given, workspace, memory_refusal)
    if os.path.lexists(workspace.joinpath(*place.parts)):
        return place
    stored = STORED_PATH.fullmatch(_cleaned(given).removeprefix("./"))
    if media and stored and (media / stored.group(0).removeprefix("media/")).exists():
        return Place(media, (stored.group(0).removeprefix("media/"),), stored.group(0), given)
    found, missing = _walk(Path(os.path.realpath(workspace)), place.parts)
    if missing is None:
        return replace(place_in_workspace(str(found), workspace, memory_refusal), given=given)
    raise ToolFailure("NOT_FOUND", f"File not found: {given}. {_advice(found, missing, workspace)}")


def open_regular(place: Place) -> BinaryIO:
    """Open a regular file for reading, without following a link that came in between.

    Raises:
        ToolFailure: NOT_REGULAR by kind, NOT_ALLOWED, NOT_FOUND, or IO with the system's reason.
    """
    check_kind(place)
    try:
        descriptor = open_beneath(place.root, place.parts, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise ToolFailure("NOT_FOUND", f"File not found: {place.given}. It has just gone; list the folder.") from None
    except OSError as error:
        raise ToolFailure("IO", f"Not allowed: {place.given} cannot be opened ({error.strerror}).") from error
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise wrong_kind(place, os.fstat(descriptor).st_mode)
    return file


def check_kind(place: Place) -> os.stat_result | None:
    """Return the facts of the file at ``place``, ``None`` when there is none; refuse all but regular files."""
    try:
        facts = place.root.joinpath(*place.parts).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        raise wrong_kind(place, facts.st_mode)
    return facts


def order_key(arguments: Mapping[str, Any]) -> str | None:
    """Return what calls on one file have in common however they spell its path: the last part of it.

    Calls on files of the same name in different folders run in order as well, which costs little.
    """
    path = arguments.get("path")
    if not isinstance(path, str):
        return None
    return _folded(path.rstrip("/").rsplit("/", 1)[-1].removeprefix("@")).casefold() or None


async def announce_change(context: ToolContext, place: Place) -> None:
    """Tell the turn that the file at ``place`` changed, so that what was noted is found at once."""
    if context.file_changed is not None:
        await context.file_changed(place.name)


def wrong_kind(place: Place, mode: int) -> ToolFailure:
    """Return the failure for something that is no regular file."""
    return ToolFailure(
        "NOT_REGULAR", f"Not allowed: {place.given} is a {file_kind(mode)}, not a file. Name a regular file."
    )


def _cleaned(given: str) -> str:
    path = given.removeprefix("@")
    if not path.strip():
        raise ToolFailure("NOT_ALLOWED", "Not allowed: the path is empty. Name a file of the workspace.")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        raise ToolFailure("NOT_ALLOWED", "Not allowed: the path has control characters. Write it without them.")
    return str(Path(path).expanduser()) if path == "~" or path.startswith("~/") else path


def _names_memory(workspace: Path, path: str) -> bool:
    lexical = os.path.normpath(workspace / path)
    return Path(lexical).is_relative_to(workspace) and may_hold_memory(os.path.relpath(lexical, workspace))


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.translate(_SPECIAL_BLANKS))


def _walk(folder: Path, parts: tuple[str, ...]) -> tuple[Path, str | None]:
    """Follow ``parts`` from ``folder``, each as written or by its only twin: where it ends, and what is missing."""
    for part in parts:
        if not os.path.lexists(folder / part):
            twins = [name for name in _names(folder) if _folded(name) == _folded(part)]
            if len(twins) != 1:
                return folder, part
            part = twins[0]
        folder = folder / part
    return folder, None


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for _, entry in zip(range(_LISTED_NAMES), entries, strict=False) if _is_text(entry.name)
            )
    except OSError:
        return []


def _is_text(name: str) -> bool:
    """Tell whether a file name is UTF-8; others cannot be written into a transcript."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def _advice(folder: Path, missing: str, workspace: Path) -> str:
    by_fold = {name.casefold(): name for name in _names(folder)}
    near = get_close_matches(missing.casefold(), by_fold, NEAR_NAMES, _NEAR_CUTOFF)
    if not near:
        return "No name in its folder is near; paths are relative to the workspace."
    inside = folder.relative_to(os.path.realpath(workspace))
    names = ", ".join((inside / by_fold[name]).as_posix() for name in near)
    return f"Near names: {names}"
