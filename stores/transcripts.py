"""Transcripts: opening one without writing, reading its active path, and appending to it so that nothing is lost.

A transcript is opened from its end (:mod:`stores.transcript_reading`), mended in memory
(:mod:`stores.transcript_repair`), and read as a tree (:mod:`stores.transcript_tree`). Appends are one write of whole
lines under the lock that OpenClaw takes too; what another process appended meanwhile is read first.

Size limit: a line should stay below 20 kB. Image bytes belong into ``stores.media``, long results are capped before
they come here; nothing is refused.
Source: spec/sessions.md section 4, design decisions 2 to 5 and 8.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import Any, Literal

from stores.locks import TRANSCRIPT_STALE_MS, hold_exclusive
from stores.transcript_appending import Stamp, append_lines, stamp_of
from stores.transcript_context import (
    SessionContext,
    Settings,
    message_of,
    replaced_by,
    settings_of,
    visible_entries,
)
from stores.transcript_entries import CURRENT_VERSION, LEAF_TYPE, Entry, Raw, dump_line, entry_of, has_id, is_header
from stores.transcript_reading import (
    FIRST_BLOCK_BYTES,
    FileRead,
    no_collection,
    read_forward,
    read_visible,
    rows_with,
    settings_before,
)
from stores.transcript_repair import Mended, mend, write_mended
from stores.transcript_tree import VisiblePath, index_by_id, last_boundary, visible_path
from turngraph.clock import Clock, Ids, iso_ms, monotonic_ms
from turngraph.errors import NotFound, TranscriptError
from turngraph.messages import Message

OWN_FIELD = "turngraph"  # of our compactions; `carried` in it is what still counts from before, to save the search


@dataclass(frozen=True, slots=True)
class OpenReport:
    """How a transcript was opened.

    Attributes:
        mode: ``tail`` (visible part only), ``full`` or ``new`` (there is no file yet).
        bytes_read, bytes_total: read from disk, of the file; duration_ms: wall time.
        broken_lines: numbers of lines that were left out; torn_bytes: size of an unfinished last line.
        repairs: what was mended in memory, one sentence each; our first append makes it durable.
        version: version of the file.
    """

    mode: Literal["tail", "full", "new"]
    bytes_read: int
    bytes_total: int
    duration_ms: float
    broken_lines: tuple[int, ...] = ()
    torn_bytes: int = 0
    repairs: tuple[str, ...] = ()
    version: int = CURRENT_VERSION


class Transcript:
    """One transcript file. Make it with :meth:`open`.

    Attributes:
        path: the file; it may not exist yet.
        session_id: id of its header, else the one given.
        header: its header, or the one that the first append writes.
        report: how it was opened.
        leaf_id: the entry that the next one follows; ``None`` before the first.
    """

    def __init__(
        self, path: Path, header: Raw, clock: Clock, ids: Ids, *, read_only: bool = False, first_block: int
    ) -> None:
        self.path = path
        self.session_id = str(header["id"])
        self.header = header
        self.report = OpenReport("new", 0, 0, 0.0)
        self.leaf_id: str | None = None
        self._clock = clock
        self._ids = ids
        self._read_only = read_only
        self._first_block = first_block
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._start = 0  # offset of what was read; 0: everything was
        self._stamp = Stamp()
        self._ends_with_lf = True
        self._mended = Mended(None, [], CURRENT_VERSION, frozenset(), ())
        self._messages: dict[str, Message] = {}
        self._context: SessionContext | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        session_id: str,
        clock: Clock,
        ids: Ids,
        cwd: str | None = None,
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
            full: read everything even where the visible part would do.
            read_only: refuse every append.
            first_block: size of the first block read from the end, in bytes.

        Raises:
            TranscriptError: the file cannot be read.
        """
        header = new_header(session_id, iso_ms(clock.now()), cwd or str(Path.cwd()))
        transcript = cls(path, header, clock, ids, read_only=read_only, first_block=first_block)
        transcript._load(full=full)
        return transcript

    # What was read

    def entries(self) -> Sequence[Entry]:
        """Return what was read, in file order: the visible part, or everything after a full read."""
        return self._entries

    @property
    def is_complete(self) -> bool:
        """Whether everything was read."""
        return self._start == 0

    def entry(self, entry_id: str) -> Entry:
        """Return an entry by id; one that the tail read did not meet makes everything be read.

        Raises:
            NotFound: there is no such entry.
        """
        if entry_id not in self._by_id:
            self.load_all()
        if entry_id not in self._by_id:
            raise NotFound(f"no entry {entry_id} in {self.path}; `turngraph sessions show` tells its branches")
        return self._by_id[entry_id]

    def message(self, entry: Entry) -> Message:
        """Return the message that an entry adds to the context: the same object from call to call."""
        return self._message(entry, ())

    def branch(self, leaf: str | EllipsisType | None = ...) -> tuple[Entry, ...]:
        """Return the path to a leaf (the current one unless given), oldest first.

        After a tail read it begins with the first visible entry; call :meth:`load_all` first for the whole path.

        Raises:
            NotFound: there is no such entry.
        """
        if leaf is ...:
            return self._path(self.leaf_id).entries
        if leaf is not None:
            self.entry(leaf)
        return self._path(leaf).entries

    def turns(self) -> Iterator[tuple[Entry, ...]]:
        """Yield the user turns of the active path: a user message with everything up to the next one.

        What stands before the first user message belongs to no turn. Reads everything.
        """
        self.load_all()
        turn: list[Entry] = []
        for entry in self.branch():
            message = entry.message
            if message is not None and message.get("role") == "user":
                if turn:
                    yield tuple(turn)
                turn = [entry]
            elif turn:
                turn.append(entry)
        if turn:
            yield tuple(turn)

    def context(self) -> SessionContext:
        """Build what a model would see; kept until the next append."""
        if self._context is None:
            self._context = self._build_context()
        return self._context

    def newest_custom(self, custom_type: str) -> Entry | None:
        """Return the newest ``custom`` entry of a type in file order, wherever it lies."""
        for entry in reversed(self._entries):
            if entry.type == "custom" and entry.raw.get("customType") == custom_type:
                return entry
        if custom_type not in self._carried().get("customTypes", (custom_type,)):
            return None
        for raw in self._rows_before(custom_type):
            if raw.get("type") == "custom" and raw.get("customType") == custom_type:
                if has_id(raw):
                    return entry_of(raw)
                self.load_all()  # its id is derived from its line number
                return self.newest_custom(custom_type)
        return None

    def labels(self) -> dict[str, str]:
        """Return label texts by entry id; the last label of an entry counts, an empty one clears it."""
        labels: dict[Any, Any] = {}
        read = (entry.raw for entry in reversed(self._entries))
        for raw in chain(read, self._rows_before("label")):
            if raw.get("type") == "label":
                labels.setdefault(raw.get("targetId"), raw.get("label"))
        return {target: label for target, label in labels.items() if isinstance(label, str) and label}

    def load_all(self) -> None:
        """Read the whole file, if that has not been done."""
        if not self.is_complete:
            self._load(full=True)

    def sync(self) -> None:
        """Wait until everything appended so far would survive a power cut."""
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def close(self) -> None:
        """Forget what was read; the file itself is never held open."""
        self._entries, self._by_id, self._messages, self._context = [], {}, {}, None

    # Appending

    def append_message(self, message: Message, *, durable: bool = False, **extra: Any) -> Entry:
        """Append a message.

        Args:
            message: its raw mapping is written as it stands.
            durable: return only when the entry would survive a power cut (``fsync``).
            extra: further fields of the entry, such as media facts under ``turngraph``.

        Raises:
            TranscriptError: the transcript is read-only, gone, or the disk refuses.
            SessionBusy: another process holds the transcript lock.
        """
        return self._append("message", {"message": dict(message.raw), **extra}, durable=durable)

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
            copies: list[Entry] = []
            parent = branch[first].parent_id
            for entry in branch[first:]:
                renamed[entry.id] = self._new_id(renamed.values())
                raw = self._copied(entry, renamed, parent, replacements.get(entry.id))
                copies.append(entry_of(raw))
                parent = raw["id"]
            self._write(copies, durable=durable)
            return renamed

    # Below: how

    def _load(self, *, full: bool) -> None:
        started = monotonic_ms()
        try:
            with no_collection(), self.path.open("rb") as file:
                stamp = stamp_of(file.fileno())
                read = read_forward(file, stamp.size) if full else read_visible(file, stamp.size, self._first_block)
                self._take(read)
        except FileNotFoundError:
            return
        except OSError as error:
            raise TranscriptError(f"cannot read {self.path}: {error.strerror}; check its permissions") from error
        self._stamp = stamp
        mended = self._mended
        self.report = OpenReport(
            "full" if self.is_complete else "tail",
            read.bytes_read,
            read.size,
            monotonic_ms() - started,
            read.broken,
            read.torn_bytes,
            mended.repairs,
            mended.version,
        )

    def _take(self, read: FileRead) -> None:
        mended = mend(read.rows, read.broken, read.torn_bytes, self.session_id)
        if mended.header is not None:
            self.header = mended.header
            self.session_id = str(mended.header["id"])
        self._mended = mended
        self._entries = mended.entries
        self._by_id = index_by_id(mended.entries)
        self._start = read.start
        self._ends_with_lf = read.ends_with_lf
        self.leaf_id = mended.entries[-1].id if mended.entries else None
        self._context = None

    def _path(self, leaf_id: str | None) -> VisiblePath:
        path = visible_path(self._by_id, leaf_id, whole=self.is_complete)
        if path.missing is None or path.settled or self.is_complete:
            return path
        self.load_all()
        return visible_path(self._by_id, leaf_id, whole=True)

    def _build_context(self) -> SessionContext:
        visible = self._path(self.leaf_id)
        path = visible.entries
        replaced = replaced_by(path) if self.is_complete else ()
        with no_collection():
            messages = tuple(self._message(entry, replaced) for entry in visible_entries(path))
        at = last_boundary(path)
        compaction = path[at] if at is not None and path[at].type == "compaction" else None

        @cache
        def lookup() -> tuple[Settings, str | None]:
            return self._settings(visible), self._name()

        return SessionContext(messages, compaction, lookup)

    def _message(self, entry: Entry, replaced: tuple[str, ...]) -> Message:
        message = self._messages.get(entry.id)
        if message is None:
            message = message_of(entry, replaced)
            self._messages[entry.id] = message
        return message

    def _settings(self, visible: VisiblePath) -> Settings:
        known = settings_of(visible.entries)
        if self.is_complete or (known.thinking_level and known.model):
            return known
        carried = self._carried()
        if carried:
            level, model = carried.get("thinkingLevel"), carried.get("model")
            pair = (str(model[0]), str(model[1])) if isinstance(model, list) and len(model) == 2 else None
            return known.over(Settings(level if isinstance(level, str) else None, pair))
        with self.path.open("rb") as file:
            found = settings_before(file, self._start, visible.missing, known, self._by_id)
        if found is None:
            self.load_all()
            found = settings_of(self._path(self.leaf_id).entries)
        return found

    def _name(self) -> str | None:
        read = (entry.raw for entry in reversed(self._entries))
        carried = self._carried()
        for raw in read if carried else chain(read, self._rows_before("session_info")):
            name = raw.get("name") if raw.get("type") == "session_info" else None
            if isinstance(name, str) and name.strip():
                return name.strip()
        name = carried.get("name")
        return name if isinstance(name, str) else None

    def _carried(self) -> Mapping[str, Any]:
        """Return what the compaction in force carries over; empty after a full read, which needs none of it."""
        compaction = self.context().compaction if not self.is_complete else None
        own = compaction.raw.get(OWN_FIELD) if compaction else None
        carried = own.get("carried") if isinstance(own, dict) else None
        return carried if isinstance(carried, dict) else {}

    def _carry(self) -> dict[str, Any]:
        context = self.context()
        custom = {entry.raw.get("customType") for entry in self._entries if entry.type == "custom"}
        custom.update(
            self._carried().get("customTypes") or (raw.get("customType") for raw in self._rows_before("custom"))
        )
        return _given(
            thinkingLevel=context.thinking_level,
            model=list(context.model) if context.model else None,
            name=context.name,
            customTypes=sorted(kind for kind in custom if isinstance(kind, str)),
        )

    def _rows_before(self, word: str) -> Iterator[Raw]:
        """Search the part that was not read for lines that hold ``word`` as a JSON text, newest first."""
        if not self.is_complete:
            with self.path.open("rb") as file:
                yield from rows_with(file, self._start, f'"{word}"'.encode())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock, see what others wrote meanwhile, and mend the file on disk if it needs that."""
        if self._read_only:
            raise TranscriptError(f"{self.path} was opened for reading only; nothing was written")
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
        grown = stamp.inode == self._stamp.inode and stamp.size > self._stamp.size and self._ends_with_lf
        if grown and self._take_new(self._stamp.size, stamp):
            return
        self._messages.clear()
        self._load(full=self.is_complete and self._stamp.inode is not None)

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
        return entry_of({"type": kind, "id": self._new_id(), "parentId": parent, "timestamp": at, **fields})

    def _new_id(self, also_taken: Iterable[str] = ()) -> str:
        if self.is_complete:
            return self._ids.entry(self._by_id.keys() | set(also_taken) if also_taken else self._by_id)
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

    def _remember(self, entries: Sequence[Entry], stamp: Stamp) -> None:
        self._stamp = stamp
        self._entries.extend(entries)
        self._by_id.update((entry.id, entry) for entry in entries)
        if entries:
            self.leaf_id = entries[-1].id
        self._context = None

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
