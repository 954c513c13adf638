"""Copies of a path in a file of its own: a branched session, and the child of a parent session.

Source: spec/sessions.md 4.7 (createBranchedSession) and 5.8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stores.locks import TRANSCRIPT_STALE_MS, hold_exclusive
from stores.transcript_appending import append_lines
from stores.transcript_entries import Entry, dump_line
from stores.transcripts import Transcript, new_header
from turngraph.clock import Clock, Ids, iso_ms
from turngraph.errors import TranscriptError


def create_branched_session(
    source: Transcript, leaf_id: str | None, *, clock: Clock, ids: Ids, path: Path | None = None
) -> Path:
    """Copy the path from the root to a leaf into a new transcript, and return that file.

    Labels do not lie on the copied path: those of copied entries stand behind it, and what followed a label
    follows the entry before it.

    Args:
        source: the transcript; it is read whole.
        leaf_id: last entry to copy; ``None`` makes a file that holds only a header.
        clock, ids: for the header and the labels.
        path: the new file; named as Pi names its files, beside the source, when not given.

    Raises:
        NotFound: there is no such entry.
        TranscriptError: the new file exists or cannot be written.
    """
    source.load_all()
    entries = source.branch(leaf_id) if leaf_id is not None else ()
    session_id, at = ids.uuid(), iso_ms(clock.now())
    target = path or source.path.with_name(f"{at.replace(':', '-').replace('.', '-')}_{session_id}.jsonl")
    cwd = source.header.get("cwd")
    header = new_header(session_id, at, cwd if isinstance(cwd, str) else str(Path.cwd()), str(source.path))
    copied = without_labels(entries)
    rows = [header, *copied, *_label_rows(source.labels(), copied, at, ids)]
    with hold_exclusive(target, stale_ms=TRANSCRIPT_STALE_MS):
        if target.exists():
            raise TranscriptError(f"{target} exists already; nothing was written")
        append_lines(target, b"".join(dump_line(row) for row in rows), durable=True)
    return target


def fork_session(parent_path: Path, *, clock: Clock, ids: Ids, path: Path | None = None) -> Path | None:
    """Make a child transcript that starts with everything on the parent's active path.

    Returns:
        The child's file; ``None`` when there is no parent file. A parent without entries gives a header-only child.

    Raises:
        TranscriptError: the parent cannot be read, or the child cannot be written.
    """
    if not parent_path.is_file():
        return None
    parent = Transcript.open(parent_path, session_id=parent_path.stem, clock=clock, ids=ids, full=True, read_only=True)
    return create_branched_session(parent, parent.leaf_id, clock=clock, ids=ids, path=path)


def without_labels(path: Sequence[Entry]) -> list[dict[str, Any]]:
    """Take labels out of a path; what followed one follows the nearest entry that stays."""
    kept: list[dict[str, Any]] = []
    moved: dict[str, str | None] = {}
    for entry in path:
        parent = moved.get(entry.parent_id, entry.parent_id) if entry.parent_id else None
        if entry.type == "label":
            moved[entry.id] = parent
        else:
            kept.append(dict(entry.raw) if parent == entry.parent_id else {**entry.raw, "parentId": parent})
    return kept


def _label_rows(
    labels: Mapping[str, str], copied: Sequence[Mapping[str, Any]], at: str, ids: Ids
) -> list[dict[str, Any]]:
    """Label the copied entries anew, in one chain behind the last of them."""
    taken = {str(raw["id"]) for raw in copied}
    parent = copied[-1]["id"] if copied else None
    rows: list[dict[str, Any]] = []
    for raw in copied:
        label = labels.get(str(raw["id"]))
        if label is not None:
            own = ids.entry(taken)
            taken.add(own)
            row = {"type": "label", "id": own, "parentId": parent, "timestamp": at}
            rows.append(row | {"targetId": raw["id"], "label": label})
            parent = own
    return rows
