"""Transcripts: opening one without writing, and appending to it so that nothing is lost.

Reading is in :mod:`stores.transcript_view`. Appends are one write of whole lines under the lock that OpenClaw takes
too; what another process appended meanwhile is read first, and a file that was mended in memory is mended on disk,
after a backup, before the first append.

Size limit: a line should stay below 20 kB. Image bytes belong into ``stores.media``, long results are capped before
they come here; nothing is refused.
Source: spec/sessions.md section 4, design decisions 2 to 5 and 8.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import EllipsisType
from typing import Any

from stores.locks import TRANSCRIPT_STALE_MS, hold_exclusive
from stores.transcript_appending import Stamp, append_lines, stamp_of
from stores.transcript_context import SessionContext
from stores.transcript_entries import CURRENT_VERSION, LEAF_TYPE, Entry, Raw, dump_line, entry_of, has_id, is_header
from stores.transcript_reading import FIRST_BLOCK_BYTES, read_forward
from stores.transcript_repair import Mended, write_mended
from stores.transcript_view import OWN_FIELD, OpenReport, TranscriptView
from turngraph.clock import Clock, Ids, iso_ms, monotonic_ms
from turngraph.errors import TranscriptError
from turngraph.messages import Message

__all__ = ["Entry", "OpenReport", "SessionContext", "Transcript", "new_header"]


class Transcript(TranscriptView):
    """One transcript file. Make it with :meth:`open`; the attributes are those of :class:`TranscriptView`."""

    def __init__(
        self,
        path: Path,
        header: Raw,
        clock: Clock,
        ids: Ids,
        *,
        full: bool = False,
        read_only: bool = False,
        first_block: int = FIRST_BLOCK_BYTES,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._read_only = read_only
        super().__init__(path, header, full=full, first_block=first_block)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        session_id: str,
        clock: Clock,
        ids: Ids,
        cwd: str | None = None,
        session_key: str | None = None,
        full: bool = False,
        read_only: bool = False,
        first_block: int = FIRST_BLOCK_BYTES,
    ) -> Transcript:
        """Open a transcript; a missing file is a new, empty one. Never writes.

        Args:
            path: the file.
            session_id: id of a new file; also seeds derived ids when the header is lost.
            clock, ids: for new entries.
            cwd: working folder for the header of a new file; the process's when not given.
            session_key: key for the header of a new file, from which a damaged ``sessions.json`` is rebuilt.
            full: read everything even where the visible part would do.
            read_only: refuse every append.
            first_block: size of the first block read from the end, in bytes.

        Raises:
            TranscriptError: the file cannot be read.
        """
        header = new_header(session_id, iso_ms(clock.now()), cwd or str(Path.cwd()))
        if session_key is not None:
            header[OWN_FIELD] = {"sessionKey": session_key}
        return cls(path, header, clock, ids, full=full, read_only=read_only, first_block=first_block)

    def resume(self, clock: Clock, ids: Ids) -> bool:
        """Take up a transcript that a turn left behind, with whatever others appended since.

        ``False`` when the file has to be opened anew: it is gone, was rewritten, or a compaction has come since it
        was read, so that a new reader would hold less.
        """
        started, before = monotonic_ms(), self._stamp
        try:
            stamp = stamp_of(self.path)
            known = stamp == before or (self._has_grown(stamp) and self._take_new(before.size, stamp))
        except OSError:
            return False  # opening it says why
        if not known or not self.is_resumable:
            return False
        self._clock, self._ids = clock, ids
        self.report = OpenReport("kept", stamp.size - before.size, stamp.size, monotonic_ms() - started)
        return True

    def append_message(
        self, message: Message, *, durable: bool = False, parent: str | EllipsisType | None = ..., **extra: Any
    ) -> Entry:
        """Append a message.

        Args:
            message: its raw mapping is written as it stands.
            durable: return only when the entry would survive a power cut (``fsync``).
            parent: the entry it follows (``None``: it begins a new path), when that is not the leaf; one write moves
                the leaf and appends, so that a kill leaves either both or nothing.
            extra: further fields of the entry, such as media facts under ``turngraph``.

        Raises:
            TranscriptError: the transcript is read-only, gone, or the disk refuses.
            SessionBusy: another process holds the transcript lock.
        """
        return self._append("message", {"message": dict(message.raw), **extra}, parent=parent, durable=durable)

    def append_custom(self, custom_type: str, data: Any = None, *, durable: bool = False) -> Entry:
        """Append a ``custom`` entry: data of ours or of a plugin that no model sees."""
        fields = {"customType": custom_type} | ({} if data is None else {"data": data})
        return self._append("custom", fields, durable=durable)

    def append_custom_message(
        self, custom_type: str, content: str | list[dict[str, Any]], *, display: bool = True, details: Any = None
    ) -> Entry:
        """Append a message that models see and no user wrote; ``display`` tells whether a user interface shows it."""
        fields = {"customType": custom_type, "content": content, "display": display}
        return self._append("custom_message", fields | _given(details=details))

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str,
        tokens_before: int,
        details: Any = None,
        from_hook: bool | None = None,
        *,
        durable: bool = False,
        **extra: Any,
    ) -> Entry:
        """Append a compaction: ``summary`` stands for what comes before ``first_kept_entry_id`` on the path.

        The entry also carries what still counts from before it (thinking level, model, session name, types of custom
        entries), so that a tail read need not search for them. ``extra`` fields are stored as given.
        """
        fields = {"summary": summary, "firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        fields |= _given(details=details, fromHook=from_hook) | extra
        with self._writing():
            own = fields.get(OWN_FIELD)
            fields[OWN_FIELD] = (own if isinstance(own, dict) else {}) | {"carried": self._carry()}
            return self._write([self._new_entry("compaction", fields, self.leaf_id)], durable=durable)[-1]

    def append_model_change(self, provider: str, model_id: str) -> Entry:
        """Append a change of the model."""
        return self._append("model_change", {"provider": provider, "modelId": model_id})

    def append_thinking_level(self, level: str) -> Entry:
        """Append a change of the thinking level."""
        return self._append("thinking_level_change", {"thinkingLevel": level})

    def append_label(self, target_id: str, label: str | None) -> Entry:
        """Label an entry; ``None`` or an empty text clears the label.

        Raises:
            NotFound: there is no such entry.
        """
        self.entry(target_id)
        return self._append("label", {"targetId": target_id} | _given(label=label or None))

    def append_session_info(self, name: str) -> Entry:
        """Name the session."""
        return self._append("session_info", {"name": name.strip()})

    def append_branch_summary(self, branch_from: str | None, summary: str, details: Any = None) -> Entry:
        """Go back to an entry (``None``: before the first) and say in a summary what the left branch did.

        Raises:
            NotFound: there is no such entry.
        """
        if branch_from is not None:
            self.entry(branch_from)
        fields = {"fromId": branch_from or "root", "summary": summary} | _given(details=details)
        return self._append("branch_summary", fields, parent=branch_from)

    def move_leaf(self, entry_id: str | None) -> None:
        """Go back to an entry (``None``: before the first), durably: other readers see the same leaf.

        Raises:
            NotFound: there is no such entry.

        Source: design decision 4.
        """
        if entry_id is not None:
            self.entry(entry_id)
        if entry_id != self.leaf_id:
            fields = {"customType": LEAF_TYPE, "data": _given(**{"from": self.leaf_id})}
            self._append("custom", fields, parent=entry_id, durable=True)

    def rewrite_branch(self, replacements: Mapping[str, Message], *, durable: bool = False) -> dict[str, str]:
        """Replace stored messages without editing a line: append the branch anew from the first of them.

        The old lines stay as a dead branch. Everything after the first replaced entry is appended again with new
        ids; references among the copies follow.

        Args:
            replacements: new messages by entry id; ids that are not on the visible branch are ignored.

        Returns:
            New entry ids by old ones.

        Source: spec/sessions.md 5.5.
        """
        with self._writing():
            branch = self.branch()
            first = next((i for i, entry in enumerate(branch) if entry.id in replacements), None)
            if first is None:
                return {}
            renamed: dict[str, str] = {}
            taken = set(self._by_id)
            copies: list[Entry] = []
            parent = branch[first].parent_id
            for entry in branch[first:]:
                renamed[entry.id] = self._new_id(taken)
                taken.add(renamed[entry.id])
                raw = self._copied(entry, renamed, parent, replacements.get(entry.id))
                copies.append(entry_of(raw))
                parent = raw["id"]
            self._write(copies, durable=durable)
            return renamed

    def sync(self) -> None:
        """Wait until everything appended so far would survive a power cut."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def _carry(self) -> dict[str, Any]:
        context = self.context()
        custom = {entry.raw.get("customType") for entry in self._entries if entry.type == "custom"}
        earlier = self._carried().get("customTypes")
        if earlier is None:
            earlier = (raw.get("customType") for raw in self._rows_before("custom"))
        custom.update(earlier)
        return _given(
            thinkingLevel=context.thinking_level,
            model=list(context.model) if context.model else None,
            name=context.name,
            customTypes=sorted(kind for kind in custom if isinstance(kind, str)),
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, see what others wrote meanwhile, and mend the file on disk if it needs that."""
        if self._read_only:
            raise TranscriptError(f"{self.path} was opened for reading only; nothing was written")
        if self._stamp.inode is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with hold_exclusive(self.path, stale_ms=TRANSCRIPT_STALE_MS):
            self._catch_up()
            if self._mended.repairs:
                self.load_all()
                write_mended(self.path, self._mended, self.header, self._clock.now(), self._ids.uuid())
                self._load(full=True)
            yield

    def _catch_up(self) -> None:
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return
        if stamp.inode is None:
            raise TranscriptError(f"{self.path} is gone: archived or deleted meanwhile; open the session again")
        if self._has_grown(stamp) and self._take_new(self._stamp.size, stamp):
            return
        self._messages.clear()
        self._load(full=self.is_complete and self._stamp.inode is not None)

    def _has_grown(self, stamp: Stamp) -> bool:
        return stamp.inode == self._stamp.inode and stamp.size > self._stamp.size and self._ends_with_lf

    def _take_new(self, start: int, stamp: Stamp) -> bool:
        with self.path.open("rb") as file:
            read = read_forward(file, stamp.size, start)
        own = [raw for _, raw in read.rows if not is_header(raw)]
        if read.broken or read.torn_bytes or not read.ends_with_lf or not all(map(has_id, own)):
            return False
        self._remember([entry_of(raw) for raw in own], stamp)
        return True

    def _append(
        self,
        kind: str,
        fields: Mapping[str, Any],
        *,
        parent: str | EllipsisType | None = ...,
        durable: bool = False,
    ) -> Entry:
        with self._writing():
            entry = self._new_entry(kind, fields, self.leaf_id if parent is ... else parent)
            return self._write([entry], durable=durable)[-1]

    def _new_entry(self, kind: str, fields: Mapping[str, Any], parent: str | None) -> Entry:
        at = iso_ms(self._clock.now())
        own = self._new_id(self._by_id)
        return entry_of({"type": kind, "id": own, "parentId": parent, "timestamp": at, **fields})

    def _new_id(self, taken: Container[str]) -> str:
        if self.is_complete:
            return self._ids.entry(taken)
        # Not all ids are known here, so twelve digits in place of eight: a collision would break the tree.
        return self._ids.uuid()[:13]

    def _write(self, entries: Sequence[Entry], *, durable: bool) -> Sequence[Entry]:
        lines = [dump_line(entry.raw) for entry in entries]
        if self._mended.header is None:
            lines.insert(0, dump_line(self.header))
        if not self._ends_with_lf:
            lines.insert(0, b"\n")
        stamp = append_lines(self.path, b"".join(lines), durable=durable)
        if self._mended.header is None:
            self._mended = Mended(self.header, [], CURRENT_VERSION, frozenset(), ())
        self._ends_with_lf = True
        self._remember(entries, stamp)
        return entries

    def _copied(self, entry: Entry, renamed: Mapping[str, str], parent: str | None, new: Message | None) -> Raw:
        raw = {**entry.raw, "id": renamed[entry.id], "parentId": parent}
        for field in ("firstKeptEntryId", "targetId", "fromId"):
            if raw.get(field) in renamed:
                raw[field] = renamed[raw[field]]
        own = raw.get(OWN_FIELD)
        if entry.type == "compaction" and isinstance(own, dict) and isinstance(own.get("carried"), dict):
            carry = self._carry()
            raw[OWN_FIELD] = own | {
                "carried": own["carried"] | {key: carry[key] for key in ("name", "customTypes") if key in carry}
            }
        if new is not None:
            raw["message"] = dict(new.raw)
        return raw


def new_header(session_id: str, timestamp: str, cwd: str, parent_session: str | None = None) -> dict[str, Any]:
    """Make the header of a new transcript."""
    header = {"type": "session", "version": CURRENT_VERSION, "id": session_id, "timestamp": timestamp, "cwd": cwd}
    return header | _given(parentSession=parent_session)


def _given(**fields: Any) -> dict[str, Any]:
    """Leave out the fields that are ``None``: absent, not null (spec/sessions.md, conventions)."""
    return {name: value for name, value in fields.items() if value is not None}
